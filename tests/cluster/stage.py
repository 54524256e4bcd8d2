"""A cluster as a user starts it: `highwater up`, whose nodes are killed, stopped and started again by hand."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from highwater.client import Admin, Client, NewTopic
from tests.apache import free_ports

WAIT_SECONDS = 120.0
ANSWER_SECONDS = 20.0
POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Led:
    """A partition as its leader reports it."""

    topic: str
    index: int
    leader: int
    epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    high_watermark: int
    log_end: int

    @property
    def is_whole(self) -> bool:
        return len(self.isr) == len(self.replicas)


class Stage:
    """Nodes are named by id; each is started again by the `argv` that nodes.json has for it."""

    def __init__(self, directory: Path, up: subprocess.Popen[str], bootstrap: str) -> None:
        self.directory = directory
        self._up = up
        self.bootstrap = bootstrap
        nodes = json.loads((directory / "nodes.json").read_text())["nodes"]
        self.nodes: dict[int, dict[str, Any]] = {node["id"]: node for node in nodes}
        self._pids: dict[int, int] = {node["id"]: node["pid"] for node in nodes}
        self._own: dict[int, subprocess.Popen[bytes]] = {}
        self.down: set[int] = set()
        self.paused: set[int] = set()

    # Nodes

    def kill(self, *nodes: int) -> float:
        """kill -9; gives the moment before it."""
        before = time.monotonic()
        for node in nodes:
            os.kill(self._pids[node], signal.SIGKILL)
        for node in nodes:
            self._ended(node)
        return before

    def stop(self, node: int) -> None:
        """A controlled shutdown."""
        os.kill(self._pids[node], signal.SIGTERM)
        self._ended(node)

    def _ended(self, node: int) -> None:
        self.down.add(node)
        self.paused.discard(node)
        if node in self._own:
            self._own.pop(node).wait(WAIT_SECONDS)
        else:
            wait_until(lambda: not _is_running(self._pids[node]), f"node {node} ends")

    def start(self, *nodes: int) -> None:
        """By `argv`, without waiting for them."""
        for node in nodes:
            self._own[node] = subprocess.Popen(
                [*_bound_to_this_process("KILL"), *self.nodes[node]["argv"]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._pids[node] = self._own[node].pid
            self.down.discard(node)

    def pause(self, node: int) -> None:
        """SIGSTOP; returns when the node stands still."""
        os.kill(self._pids[node], signal.SIGSTOP)
        wait_until(lambda: _state(self._pids[node]) == "T", f"node {node} stands still")
        self.paused.add(node)

    def resume(self, node: int) -> None:
        os.kill(self._pids[node], signal.SIGCONT)
        self.paused.discard(node)

    def log_dir(self, node: int) -> Path:
        return Path(self.nodes[node]["log_dir"])

    def output(self, node: int) -> str:
        """What the node logged, changes of state included, over all its lives."""
        files = (self.log_dir(node).with_name(name) for name in ("node.log", "state-change.log"))
        return "".join(file.read_text() for file in files if file.exists())

    def address(self, node: int) -> str:
        return f"{self.nodes[node]['host']}:{self.nodes[node]['port']}"

    @property
    def running(self) -> str:
        """To bootstrap from, while others are down or stand still."""
        return ",".join(self.address(node) for node in self.brokers if node not in self.down | self.paused)

    @property
    def brokers(self) -> list[int]:
        return [node for node, shown in self.nodes.items() if "broker" in shown["roles"]]

    @property
    def voters(self) -> list[int]:
        return [node for node, shown in self.nodes.items() if "controller" in shown["roles"]]

    # What they report

    def status(self, node: int) -> dict[str, Any] | None:
        """None while it does not serve. One that does may take its time on a busy machine."""
        url = f"http://{self.nodes[node]['http']}/status"
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
                shown: dict[str, Any] = json.load(answer)
                return shown
        except (OSError, HTTPException):
            return None

    def metric(self, node: int, name: str, topic: str) -> float:
        """The value of a topic's metric at this node; 0 where the node has nothing of the topic."""
        with urllib.request.urlopen(f"http://{self.nodes[node]['http']}/metrics", timeout=ANSWER_SECONDS) as answer:
            lines = answer.read().decode().splitlines()
        wanted = f'{name}{{topic="{topic}"}} '
        return next((float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted)), 0.0)

    def statuses(self) -> list[dict[str, Any]]:
        """Of those that run."""
        running = (node for node in self.nodes if node not in self.down | self.paused)
        return [shown for node in running if (shown := self.status(node)) is not None]

    def controller(self) -> int | None:
        """The leader of the newest quorum epoch."""
        seen = max(self.statuses(), key=lambda shown: shown["quorum"]["epoch"], default=None)
        leader: int | None = None if seen is None else seen["quorum"]["leader"]
        return leader

    def active_controller(self) -> int:
        """As soon as there is one: a quorum whose leader was held up elects another."""
        found: list[int | None] = []

        def is_there() -> bool:
            found.append(self.controller())
            return found[-1] is not None

        wait_until(is_there, "there is a controller")
        assert found[-1] is not None
        return found[-1]

    def all_know(self) -> bool:
        """Whether every broker has applied what is committed now."""
        statuses = self.statuses()
        committed = max((shown["quorum"]["high_watermark"] or 0 for shown in statuses), default=0)
        return bool(statuses) and all(
            shown["metadata_offset"] >= committed - 1 for shown in statuses if "metadata_offset" in shown
        )

    def unfenced(self) -> set[int]:
        """By the node that has seen most of the metadata."""
        shown = max(
            (each for each in self.statuses() if "brokers" in each),
            key=lambda each: each["metadata_offset"],
            default=None,
        )
        return set() if shown is None else {each["id"] for each in shown["brokers"] if not each["fenced"]}

    def led(self, topic: str) -> dict[int, Led]:
        """The topic's partitions that have a leader which serves."""
        found: dict[int, Led] = {}
        for shown in self.statuses():
            for row in shown.get("partitions", ()):
                if row["topic"] != topic or row["role"] != "leader":
                    continue
                known = found.get(row["partition"])
                if known is None or known.epoch < row["leader_epoch"]:
                    found[row["partition"]] = Led(
                        topic,
                        row["partition"],
                        shown["node"],
                        row["leader_epoch"],
                        tuple(row["isr"]),
                        tuple(row["replicas"]),
                        row["high_watermark"],
                        row["log_end"],
                    )
        return found

    def leader(self, topic: str, index: int = 0) -> int | None:
        led = self.led(topic).get(index)
        return None if led is None else led.leader

    def isr(self, topic: str, index: int = 0) -> set[int]:
        led = self.led(topic).get(index)
        return set() if led is None else set(led.isr)

    def named_leaders(self, topic: str, index: int = 0) -> set[int]:
        """The leaders that the brokers with a replica name; -1 for none."""
        rows = (row for shown in self.statuses() for row in shown.get("partitions", ()))
        return {row["leader"] for row in rows if (row["topic"], row["partition"]) == (topic, index)}

    def is_whole(self, topic: str, partitions: int) -> bool:
        """Every broker unfenced, every partition led, every replica in sync."""
        led = self.led(topic)
        return (
            len(led) == partitions
            and all(each.is_whole for each in led.values())
            and self.unfenced() == set(self.brokers)
        )

    # What is asked of them

    def client(self) -> Client:
        return Client(self.running)

    def create_topic(self, name: str, partitions: int, factor: int, settings: Mapping[str, str] | None = None) -> None:
        with self.client() as client:
            Admin(client).create_topics([NewTopic(name, partitions, factor, configs=settings or {})])
        wait_until(lambda: self.is_whole(name, partitions), f"{name} is whole")

    def create_topic_on(self, name: str, replicas: list[int], settings: Mapping[str, str] | None = None) -> None:
        """One partition, with these replicas, the first of them preferred."""
        with self.client() as client:
            Admin(client).create_topics([NewTopic(name, -1, -1, [replicas], settings or {})])
        wait_until(lambda: self.isr(name) == set(replicas), f"{name} is whole")

    def command(self, *arguments: str) -> str:
        """One of our own commands, to its end; gives what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "highwater", *arguments], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout

    def next_line(self) -> str:
        """What `up` prints next, after its ready line."""
        assert self._up.stdout is not None
        return self._up.stdout.readline().strip()

    def close(self) -> None:
        """`up` ends every node named in nodes.json; those that were started here are then waited for."""
        for node in sorted(self.paused):
            self.resume(node)
        self._up.terminate()
        try:
            self._up.wait(WAIT_SECONDS)
        finally:
            for process in self._own.values():
                process.kill()
                process.wait()
            self._up.kill()
            self._up.wait()
            assert self._up.stdout is not None
            self._up.stdout.close()


@contextlib.contextmanager
def staged(
    directory: Path,
    brokers: int,
    controllers: int = 0,
    settings: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Iterator[Stage]:
    """`highwater up`, from its ready line to its end."""
    port = free_ports(brokers)[0]
    command = [sys.executable, "-m", "highwater", "up", "--brokers", str(brokers), "--controllers", str(controllers)]
    command += ["--port", str(port), "--data-dir", str(directory), *options]
    for key, value in (settings or {}).items():
        command += ["--set", f"{key}={value}"]
    with (directory.parent / f"{directory.name}.err").open("w") as errors:
        up = subprocess.Popen(
            [*_bound_to_this_process("TERM"), *command], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert up.stdout is not None
    ready = up.stdout.readline()
    if not ready.startswith("ready "):
        up.kill()
        up.wait()
        raise AssertionError(f"the cluster did not start: {(directory.parent / f'{directory.name}.err').read_text()}")
    words = dict(word.partition("=")[::2] for word in ready.split())
    stage = Stage(directory, up, words["bootstrap"])
    try:
        yield stage
    finally:
        stage.close()


def wait_until(condition: Callable[[], object], what: str, seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(POLL_SECONDS)


def wait_for_moment(moment: float) -> None:
    """A moment that was drawn: a kill at random is about the clock."""
    if (left := moment - time.monotonic()) > 0:
        time.sleep(left)


def _bound_to_this_process(number: str) -> list[str]:
    """A test run that is killed must not leave nodes behind."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", number] if setpriv else []


def _is_running(pid: int) -> bool:
    return _state(pid) not in ("", "Z", "X")


def _state(pid: int) -> str:
    """As the system calls it: R, S, T …; nothing for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
