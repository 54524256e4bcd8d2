"""What `highwater status` and `top` know of a node of `up` that does not answer."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.cli.silent_nodes import Remedy, remedies
from highwater.cli.status_topics import Address


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def silent(tmp_path: Path, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> Address:
    """Node 3 of an `up` whose directory is `data dir`, below the working directory."""
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "data dir" / "node-3"
    home.mkdir(parents=True)
    (home / "pid").write_text(str(process.pid))
    (home.parent / "control.sock").touch()
    return Address("3", "h:3", str(home / "data"))


def test_a_paused_node_is_told_with_the_command_that_lets_it_go_on(
    silent: Address, process: subprocess.Popen[bytes]
) -> None:
    assert remedies([(silent, None)]) == {}, "it runs, and is only late"
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    [(node, remedy)] = remedies([(silent, None)]).items()
    assert remedy.told(node) == "Node 3 is paused: `highwater resume 3 --data-dir 'data dir'` lets it go on."


def test_a_dead_node_is_told_with_the_command_that_starts_it(silent: Address, process: subprocess.Popen[bytes]) -> None:
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # and nobody has taken its exit code
    dead = Remedy("dead", "highwater start 3 --data-dir 'data dir'", "starts it again")
    assert remedies([(silent, None)]) == {"3": dead}
    process.wait()
    assert remedies([(silent, None)]) == {"3": dead}


def test_the_default_directory_needs_no_option(
    silent: Address, process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    process.kill()
    process.wait()
    (tmp_path / "data dir").rename(tmp_path / "highwater-data")
    moved = silent._replace(log_dir=str(tmp_path / "highwater-data" / "node-3" / "data"))
    assert remedies([(moved, None)])["3"].command == "highwater start 3"


def test_nothing_is_told_of_a_node_that_answers_or_that_no_up_can_start(
    silent: Address, process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    process.kill()
    process.wait()
    assert remedies([(silent, {})]) == {} and remedies([(Address("3", "h:3"), None)]) == {}
    (tmp_path / "data dir" / "control.sock").unlink()
    assert remedies([(silent, None)]) == {}
