"""What a new user types in the first hour, as `up` prints it on a terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.apache import free_ports

BIN = Path(sys.executable).parent
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("HIGHWATER_")} | {
    "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"
}
SECONDS = 120


def lines_of(descriptor: int) -> Iterator[str]:
    """Until the terminal is closed, which is an error of the system here."""
    with open(descriptor, encoding="utf-8", closefd=False) as terminal:
        try:
            for line in terminal:
                yield line.rstrip("\r\n")
        except OSError:
            return


@contextmanager
def up_on_a_terminal(directory: Path, *options: str) -> Iterator[Iterator[str]]:
    """The lines that `up` prints. It ends with Ctrl-C."""
    ours, theirs = pty.openpty()
    command = [str(BIN / "highwater"), "up", "--brokers", "1", "--port", str(free_ports(1)[0]), *options]
    process = subprocess.Popen(command, cwd=directory, env=ENVIRONMENT, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    try:
        yield lines_of(ours)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0
        os.close(ours)


def typed(directory: Path, line: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line], cwd=directory, env=ENVIRONMENT, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("options", [[], ["--data-dir", "my data"]], ids=["the default", "another directory"])
def test_the_steps_that_up_prints_on_a_terminal_can_be_typed(tmp_path: Path, options: list[str]) -> None:
    with up_on_a_terminal(tmp_path, *options) as lines:
        assert next(lines).startswith("ready bootstrap=127.0.0.1:")
        shown = []
        for line in lines:
            shown.append(line)
            if line.startswith("Ctrl-C stops"):
                break
        commands = [line.strip() for line in shown if line.startswith("  ")]
        exports = [command for command in commands if command.startswith("export ")]
        create, produce, consume, status = (command for command in commands if command not in exports)
        assert len(exports) == (1 if options else 0)
        before = "".join(f"{each}; " for each in exports)
        assert typed(tmp_path, before + create) == "Created topic orders.\n"
        typed(tmp_path, before + produce)
        assert typed(tmp_path, f"{before}{consume} --max-messages 1") == "hello\n"
        assert "orders" in typed(tmp_path, before + status)


def test_without_a_terminal_up_prints_the_ready_line_and_the_address_of_the_console_alone(tmp_path: Path) -> None:
    command = [str(BIN / "highwater"), "up", "--brokers", "1", "--port", str(free_ports(1)[0])]
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready bootstrap=")
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=SECONDS)[0]
        assert re.fullmatch(r"console http://127\.0\.0\.1:\d+/\?token=\S+\n", rest)


def test_bash_completes_commands_verbs_and_options(tmp_path: Path) -> None:
    script = """
    eval "$(_HIGHWATER_COMPLETE=bash_source highwater)"
    for line in 'highwater topi' 'highwater topics cre' 'highwater topics --repl'; do
        read -r -a COMP_WORDS <<< "$line"
        COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )) COMPREPLY=()
        $(complete -p highwater | sed 's/.*-F \\([^ ]*\\).*/\\1/') highwater
        echo "${COMPREPLY[@]}"
    done
    """
    assert typed(tmp_path, script).splitlines() == ["topics", "create", "--replication-factor --replica-assignment"]
