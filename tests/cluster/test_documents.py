"""The commands in the README and the guide do what these pages say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.client import Security
from highwater.config.properties import parse_properties
from tests.apache import free_ports
from tests.cluster.stage import wait_until

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(console|python|sh|properties)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BIN = Path(sys.executable).parent


class Reader:
    """Types what a document says, in a directory of its own, at another port than the documents name."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_ports(1)[0]
        self._running: list[subprocess.Popen[str]] = []
        self._environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}

    def here(self, text: str) -> str:
        return text.replace("9092", str(self.port)).replace(".venv/bin/", "")

    def type(self, line: str) -> str:
        if exported := re.fullmatch(r"export (\w+)=(\S+)", self.here(line)):
            self._environment[exported[1]] = exported[2]  # for the lines after it: each has a shell of its own
            return ""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.here(line)],
            cwd=self.home,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        return done.stdout

    def start(self, line: str) -> str:
        """`up` and `node` stay in the foreground; their first line says that they are ready."""
        arguments = self.here(line).split()
        if "up" in arguments and "--port" not in arguments:
            arguments += ["--port", str(self.port)]
        stdout = self._begin(arguments).stdout
        assert stdout is not None
        return stdout.readline()

    def consume(self, line: str, group: str) -> None:
        """A consumer stays, too; it is there once its group is."""
        self._begin(self.here(line).split())
        listing = f"highwater groups --bootstrap-server 127.0.0.1:{self.port} --list"
        wait_until(lambda: group in self.type(listing).split(), f"{group} is a group")

    def _begin(self, arguments: list[str]) -> subprocess.Popen[str]:
        begun = subprocess.Popen(
            arguments, cwd=self.home, env=self._environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._running.append(begun)
        return begun

    def stop(self) -> None:
        """The last one first: a consumer leaves its group. Each ends in order."""
        for process in reversed(self._running):
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)
            assert process.returncode == 0, process.args


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    try:
        yield reader
    finally:
        reader.stop()


def commands(block: str) -> list[tuple[str, str]]:
    """Each line after a prompt, with what is shown below it."""
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    return [(line.partition("  #")[0].strip(), shown) for line, shown in found]


def follow(reader: Reader, document: str) -> int:
    typed = 0
    for kind, block in BLOCK.findall((ROOT / document).read_text()):
        if kind == "python":
            shown = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
            assert reader.type(f"python - <<'END'\n{block}END").splitlines() == shown
            continue
        if kind == "sh":
            typed += type_all(reader, block)
        for line, shown in commands(block) if kind == "console" else ():
            if line.startswith("make "):
                continue
            said = reader.start(line) if " up " in line else reader.type(line)
            assert said == reader.here(shown), line
            typed += 1
    return typed


def type_all(reader: Reader, block: str) -> int:
    """What a page says without showing what comes of it. A node of its own has a test below, Kafka's tools others."""
    if "kafka-" in block or "server.properties" in block:
        return 0
    lines = block.splitlines()
    for line in lines:
        if group := re.fullmatch(r"highwater console-consumer .*--group (\w+)", line):
            reader.consume(line, group[1])
        else:
            reader.type(line)
    return len(lines)


def test_a_first_session_goes_as_the_readme_says(reader: Reader) -> None:
    assert follow(reader, "README.md") >= 4


def test_the_guide_can_be_followed(reader: Reader) -> None:
    assert follow(reader, "docs/guide.md") >= 20


def test_the_tools_understand_the_client_s_file_that_the_guide_shows() -> None:
    found = BLOCK.findall((ROOT / "docs/guide.md").read_text())
    [file] = [block for kind, block in found if kind == "properties" and "node.id" not in block]
    security = Security.of(parse_properties(file))
    assert dict(security.settings)["security.protocol"] == "SASL_SSL" and security.open_secret is None


def test_a_node_runs_from_the_file_that_the_guide_shows(reader: Reader) -> None:
    found = BLOCK.findall((ROOT / "docs/guide.md").read_text())
    [file] = [block for kind, block in found if kind == "properties" and "node.id" in block]
    [(make, run)] = [block.splitlines() for kind, block in found if kind == "sh" and "highwater node" in block]
    client, controller = free_ports(2)
    reader.port = client
    text = reader.here(file).replace("9093", str(controller)).replace("/var/lib/highwater", str(reader.home / "data"))
    (reader.home / "server.properties").write_text(text)
    reader.type(make)
    assert reader.start(run).startswith("ready node=1 ")
    assert not reader.type("highwater topics --bootstrap-server 127.0.0.1:9092 --list").strip()
