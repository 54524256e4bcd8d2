"""What the README and the guide tell a reader to type does what they say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apache import free_ports

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BIN = Path(sys.executable).parent


class Reader:
    """Types what a document says, in a directory of its own, at another port than the documents name."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_ports(1)[0]
        self.node: subprocess.Popen[str] | None = None
        self._environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}

    def here(self, text: str) -> str:
        return text.replace("9092", str(self.port)).replace(".venv/bin/", "")

    def type(self, line: str) -> str:
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
        """`up` stays in the foreground; its first line says that it is ready."""
        arguments = self.here(line).split()
        arguments += [] if "--port" in arguments else ["--port", str(self.port)]
        self.node = subprocess.Popen(
            arguments, cwd=self.home, env=self._environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.node.stdout is not None
        return self.node.stdout.readline()

    def stop(self) -> None:
        if self.node is not None:
            self.node.send_signal(signal.SIGTERM)
            self.node.communicate(timeout=120)


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
        for line, shown in commands(block):
            if line.startswith("make "):
                continue
            said = reader.start(line) if " up " in line else reader.type(line)
            assert said == reader.here(shown), line
            typed += 1
    return typed


def test_a_first_session_goes_as_the_readme_says(reader: Reader) -> None:
    assert follow(reader, "README.md") >= 4


def test_the_guide_can_be_followed(reader: Reader) -> None:
    assert follow(reader, "docs/guide.md") >= 8
