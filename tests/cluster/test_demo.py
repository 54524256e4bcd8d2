"""`highwater demo`, which `make run` runs: a newcomer's first two minutes, and what its exit code promises."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.nodes import wait_until
from tests.terminal import Terminal

DEMO = [sys.executable, "-m", "highwater", "demo"]
VERDICT = re.compile(r"verdict acked=(\d+) delivered=(\d+) lost=0 duplicated=0")
MARK = "HIGHWATER_DEMO_OF_TEST"
DRIVER, JVM = "highwater.cli.demo.driver", "org.apache.spark"
"""By what their command lines are known."""


class Shown:
    """A demo under way, whose output is read as it comes. Whatever it starts carries a mark in its environment."""

    def __init__(self, scratch: Path, *arguments: str) -> None:
        self.mark = f"{MARK}={uuid.uuid4().hex}"
        name, _, value = self.mark.partition("=")
        environment = os.environ | {name: value, "TMPDIR": str(scratch)}
        self.process = subprocess.Popen([*DEMO, *arguments], stdout=subprocess.PIPE, text=True, env=environment)
        self.lines: list[str] = []

    def until(self, expected: str) -> None:
        """Reads on; the time limit of a test is pytest's."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if expected in line:
                return
        raise AssertionError(f"it ended without saying {expected!r}:\n" + "\n".join(self.lines))

    def ended(self) -> int:
        assert self.process.stdout is not None
        self.lines += self.process.stdout.read().splitlines()
        return self.process.wait()

    def at(self, expected: str) -> int:
        """The line that says it."""
        return next(number for number, line in enumerate(self.lines) if expected in line)

    def running(self, named: str = "") -> list[int]:
        """Processes with the mark, of those whose command line has this in it."""
        return [pid for pid in _processes() if self.mark in _read(pid, "environ") and named in _read(pid, "cmdline")]


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # It has ended, or is somebody else's.
        return ""


@pytest.fixture
def shown(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shown]:
    demo = Shown(tmp_path, *request.param)
    try:
        yield demo
    finally:
        for pid in demo.running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        demo.process.communicate()


@pytest.mark.slow
def test_without_java_a_plain_reader_sees_a_leader_die_and_come_back_and_nothing_lost(tmp_path: Path) -> None:
    environment = os.environ | {"JAVA_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    ran = subprocess.run(
        [*DEMO, "--seconds", "10"], capture_output=True, text=True, timeout=280, env=environment, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith("without Spark: no Java (install a JRE 17 or newer, or set JAVA_HOME)\n")
    for expected in (
        "3 brokers ready",
        "is killed with SIGKILL: watch its lane",
        "killed with SIGKILL (pid",
        "started again",
        "is in sync again",
    ):
        assert expected in ran.stdout
    assert re.search(
        r"Broker (\d) died → the controller chose (?!\1)\d → epoch 0 → 1 → next write acknowledged after \d+\.\d\d s\n",
        ran.stdout,
    ), ran.stdout
    found = VERDICT.fullmatch(ran.stdout.splitlines()[-1])
    assert found is not None and found[1] == found[2] != "0", ran.stdout
    assert not list(tmp_path.glob("highwater-demo-*")), "without a table nothing stays"


@pytest.mark.slow
@pytest.mark.parametrize("shown", [["--no-spark"]], indirect=True)
def test_a_run_that_is_ended_before_the_kill_proves_nothing_and_says_so(shown: Shown) -> None:
    shown.until("acked")
    shown.process.send_signal(signal.SIGINT)
    assert shown.ended() == 1
    assert any("No leader was killed" in line for line in shown.lines)
    assert VERDICT.fullmatch(shown.lines[-1])


@pytest.mark.slow
@pytest.mark.parametrize("shown", [[]], indirect=True)
def test_orders_land_in_the_table_exactly_once_though_a_leader_dies_under_the_running_pipeline(shown: Shown) -> None:
    shown.until("is in sync again")
    shown.process.send_signal(signal.SIGINT)
    code = shown.ended()
    assert code == 0, "\n".join(shown.lines)
    killed = shown.at("killed with SIGKILL (pid")
    assert shown.at("first batch has landed") < killed < shown.at("in sync again")
    found = VERDICT.fullmatch(shown.lines[-1])
    assert found is not None and found[1] == found[2] != "0"
    read = shlex.split(shown.lines[shown.at("DeltaTable(")])[1:]
    rows = subprocess.run([sys.executable, *read], capture_output=True, text=True, check=True).stdout
    assert f"[{found[2]} rows x " in rows, "the command that is printed reads the table that stays"
    revenue = shown.lines[shown.at("Revenue, as topic revenue has it:")]
    assert revenue.count(",") >= 5, "a sum for each of six products"
    wait_until(lambda: not shown.running())


@pytest.mark.slow
@pytest.mark.parametrize("shown", [[]], indirect=True)
def test_no_jvm_outlives_a_demo_that_is_killed(shown: Shown) -> None:
    shown.until("Spark is starting")
    wait_until(lambda: shown.running(JVM))
    shown.process.kill()
    wait_until(lambda: not shown.running(JVM) and not shown.running(DRIVER))


def press(terminal: Terminal, keys: str, *expected: str) -> None:
    """Again if it is refused: a node of a busy machine may not answer its order in time."""
    terminal.type(keys)
    while terminal.either(expected, ("This cannot be done now",)) is not expected:
        terminal.type(keys)
    terminal.until(*expected)


@pytest.mark.slow
def test_keys_pause_kill_cut_and_heal_brokers_and_the_cluster_stays_up_if_it_is_asked_to(tmp_path: Path) -> None:
    with Terminal([*DEMO, "--no-spark"], 100, 30, {"TMPDIR": str(tmp_path)}) as terminal:
        terminal.until("k  kill", "to go", "orders-0 ★", "orders-1 ★", "orders-2 ★")
        press(terminal, "1k", "Broker 1 died →")  # from then on nothing is killed by itself
        terminal.until("DEAD", "Broker 1 is in sync again")
        press(terminal, "1c", "▸broker 1", "Broker 1 is cut from the other brokers")  # though it was started again
        press(terminal, "h", "All links are healed, and paused brokers go on")
        press(terminal, "3p", "▸broker 3", "PAUSED")
        press(terminal, "h", "All links are healed, and paused brokers go on")
        terminal.type("q")
        terminal.until("Press k to keep it")
        terminal.type("k")
        terminal.until("It stays up until you press q", "HIGHWATER_BOOTSTRAP=", "highwater kill 2")
        bootstrap = re.findall(r"HIGHWATER_BOOTSTRAP=([0-9.:,]+)", terminal.text)[-1]
        listed = subprocess.run(
            [sys.executable, "-m", "highwater", "topics", "list", "--bootstrap-server", bootstrap],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert listed.stdout.split() == ["orders", "revenue"]
        terminal.type("q")
        assert terminal.ended() == 0, terminal.text
        assert VERDICT.fullmatch(terminal.lines[-1]), terminal.text
        assert terminal.is_sane
    assert list(tmp_path.iterdir()) == []
