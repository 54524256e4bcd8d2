"""`highwater up` and the processes it answers for: after a power cut, beside another `up`, and however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from highwater.client import Client
from highwater.client.admin import Admin
from highwater.client.failures import Unreachable
from highwater.errors import KafkaError
from tests.apache import free_ports
from tests.cluster.stage import WAIT_SECONDS, staged, wait_until
from tests.cluster.tracing import needs_strace, whole_lines

DEAF = "max.connections.per.ip.overrides=127.0.0.1:0"
"""No voter lets another in."""


class Up:
    """One run of `highwater up`."""

    def __init__(self, directory: Path, *options: str, port: int | None = None, prefix: tuple[str, ...] = ()) -> None:
        self.directory = directory
        self.port = port or free_ports(3)[0]
        command = [sys.executable, "-m", "highwater", "up", "--data-dir", str(directory), "--port", str(self.port)]
        self._errors = directory.parent / f"{directory.name}-{self.port}.err"
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [*prefix, *command, *options], stdout=subprocess.PIPE, stderr=errors, text=True
            )

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def until_ready(self) -> Up:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready "), self.errors
        return self

    @property
    def nodes(self) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = json.loads((self.directory / "nodes.json").read_text())["nodes"]
        return nodes

    def end(self, *signals: signal.Signals) -> int:
        for number in signals:
            self.process.send_signal(number)
        return self.process.wait(WAIT_SECONDS)


@contextlib.contextmanager
def up(directory: Path, *options: str, port: int | None = None, prefix: tuple[str, ...] = ()) -> Iterator[Up]:
    running = Up(directory, *options, port=port, prefix=prefix)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()
        assert running.process.stdout is not None
        running.process.stdout.close()
        for process in nodes_of(directory):
            os.kill(process, signal.SIGKILL)


def nodes_of(directory: Path) -> list[int]:
    """The processes that have a node's lock file of this directory open, as the system lists them."""
    found = []
    locks = {str(path) for path in directory.glob("node-*/data/.lock")}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                links = {os.readlink(each) for each in (entry / "fd").iterdir()}
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if locks & links and state not in ("Z", "X"):
                    found.append(int(entry.name))
    return found


def refused(directory: Path, *options: str) -> str:
    """The one line that `up` ends with at once."""
    with up(directory, *options) as second:
        assert second.process.wait(WAIT_SECONDS) == 1
        (line,) = second.errors.splitlines()
        return line


def test_after_a_power_cut_a_cluster_is_ready_again_though_its_settings_were_never_synced(tmp_path: Path) -> None:
    """As an earlier version left them: the names are there, the bytes are not."""
    directory = tmp_path / "data"
    with up(directory) as first:
        first.until_ready()
        for node in first.nodes:
            os.kill(node["pid"], signal.SIGKILL)
        first.end(signal.SIGKILL)
        wait_until(lambda: not nodes_of(directory), "all have ended")
    for lost in (directory / "nodes.json", *directory.glob("node-*/server.properties")):
        lost.write_bytes(b"")
    with up(directory, port=first.port) as second:
        second.until_ready()
        assert second.end(signal.SIGTERM) == 0


def test_a_call_that_a_trace_has_in_two_parts_is_put_together() -> None:
    trace = """
7 rename("a.tmp", "a" <unfinished ...>
8  mkdir("b", 0777) = 0
7 <... rename resumed>)             = 0
8 fsync(3</b>)    = 0
"""
    assert list(whole_lines(trace.strip())) == [
        '8  mkdir("b", 0777) = 0',
        '7 rename("a.tmp", "a") = 0',
        "8 fsync(3</b>) = 0",
    ]


@needs_strace
def test_all_that_is_written_before_ready_is_synced_with_its_name(tmp_path: Path) -> None:
    directory, output = tmp_path / "data", tmp_path / "trace"
    calls = "trace=openat,mkdir,rename,fsync,fdatasync"
    with up(directory, "--brokers", "1", prefix=("strace", "-f", "-yy", "-o", str(output), "-e", calls)) as running:
        running.until_ready()
        os.kill(int((directory / ".lock").read_text()), signal.SIGTERM)
        assert running.process.wait(WAIT_SECONDS) == 0
    unsynced: set[str] = set()
    renamed = set()
    for line in whole_lines(output.read_text()):
        if made := re.search(r'mkdir\("([^"]+)".* = 0', line):
            unsynced.add(f"{Path(made[1]).parent}/")
        elif opened := re.search(r'openat\([^"]*"([^"]+\.tmp)", [^)]*O_CREAT', line):
            unsynced.add(opened[1])
        elif moved := re.search(r'rename\("([^"]+)", "([^"]+)"\) = 0', line):
            if Path(moved[2]).name in ("nodes.json", "server.properties"):
                assert moved[1] not in unsynced, f"{moved[2]} has its name before its bytes are synced"
                unsynced.add(f"{Path(moved[2]).parent}/")
                renamed.add(Path(moved[2]).name)
        elif synced := re.search(r"f(?:data)?sync\(\d+<([^>]+)>", line):
            unsynced -= {synced[1], f"{synced[1]}/"}
        elif "PLAINTEXT" in line:
            break
    assert renamed == {"nodes.json", "server.properties"}
    homes = {f"{path}/" for path in (tmp_path, directory, directory / "node-1")}
    assert not unsynced & homes, unsynced & homes


def test_a_cluster_without_a_quorum_says_so_after_a_few_seconds(tmp_path: Path) -> None:
    with up(tmp_path / "data", "--set", DEAF) as running:
        wait_until(lambda: running.errors.count("\n") == 3, "it says so")
        assert running.end(signal.SIGTERM) == 0
    for node, line in zip((1, 2, 3), running.errors.splitlines(), strict=False):
        others = [other for other in (1, 2, 3) if other != node]
        absent = "; ".join(rf"voter {other}: 127.0.0.1:\d+ disconnected[^:]*: [^;]+" for other in others)
        assert re.fullmatch(rf"no quorum after 5 s: node {node} waits for {absent}", line)


def test_a_second_up_on_a_live_directory_changes_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with up(directory, "--brokers", "1") as first:
        first.until_ready()
        written = [*directory.glob("*"), *directory.glob("node-1/*")]
        before = {path: path.read_bytes() for path in written if path.is_file() and path.suffix != ".log"}
        printed = refused(directory, "--brokers", "1")
        assert f"{directory} is in use by pid {first.process.pid} (" in printed
        assert {path: path.read_bytes() for path in before} == before
        assert first.end(signal.SIGINT) == 0
        assert not nodes_of(directory)


def test_nodes_end_when_their_up_is_killed_also_those_that_were_started_again(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with up(directory) as running:
        running.until_ready()
        killed = running.nodes[1]
        os.kill(killed["pid"], signal.SIGKILL)
        again = subprocess.Popen(killed["argv"], stdout=subprocess.DEVNULL)
        try:
            wait_until(lambda: running.nodes[1]["pid"] == again.pid, "nodes.json names it")
            running.end(signal.SIGKILL)
            wait_until(lambda: not nodes_of(directory), "all nodes end")
        finally:
            again.kill()
            again.wait()


def test_a_node_that_dies_is_started_again_where_that_is_asked_for_and_serves(tmp_path: Path) -> None:
    with up(tmp_path / "data", "--brokers", "1", "--restart") as running:
        running.until_ready()
        for _ in range(2):
            pid = running.nodes[0]["pid"]
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: running.nodes[0]["pid"] != pid and serves(running.port), "it serves again")
        assert running.end(signal.SIGTERM) == 0


def serves(port: int) -> bool:
    try:
        with Client(f"127.0.0.1:{port}", timeout=5.0) as client:
            return len(client.metadata(()).brokers) == 1
    except (KafkaError, Unreachable, OSError):
        return False


def test_a_directory_can_be_started_again_at_once_after_its_up_was_killed(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with up(directory) as first:
        first.until_ready()
        first.end(signal.SIGKILL)
        with up(directory, port=first.port) as second:
            second.until_ready()
            assert second.end(signal.SIGTERM) == 0


def test_a_cluster_whose_voter_lost_its_directory_is_ready_and_whole_again(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with staged(directory, 3) as stage:
        stage.create_topic("kept", 3, 3)
        stage.stop(2)  # or it may be the last of an ISR when all are stopped, and nobody else may lead
        wait_until(lambda: all(2 not in stage.isr("kept", each) for each in range(3)), "node 2 is out of every ISR")
    shutil.rmtree(directory / "node-2")
    with staged(directory, 3) as stage:
        wait_until(lambda: stage.is_whole("kept", 3), "every replica is in sync")
        assert stage.controller() in (1, 3)
        printed = stage.command("status", "--data-dir", str(directory))
        assert "1 of 3 voters lost its vote" in printed.splitlines()[0]
        assert printed.splitlines()[1].startswith("node 2 votes no more: its directory was lost and formatted anew")
        assert printed.count("Observer") == 1
        assert (tmp_path / "data.err").read_text().startswith("node 2 votes no more: ")


def test_up_signals_no_stranger_whose_pid_stands_in_a_file(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        with up(directory, "--brokers", "1") as running:
            running.until_ready()
            (directory / "node-1/pid").write_text(str(stranger.pid))
            os.kill(running.nodes[0]["pid"], signal.SIGKILL)
            printed = f"node 1 died (killed by SIGKILL); its log, {directory}/node-1/node.log, ends:\n  ["
            wait_until(lambda: printed in running.errors, "its end is seen")
            back = f"node 1 stays down: `highwater start 1 --data-dir {directory}` starts it again; "
            wait_until(lambda: back in running.errors, "up says how it starts again")
            assert running.end(signal.SIGTERM) == 0
        assert running.nodes[0]["pid"] != stranger.pid
        assert stranger.poll() is None
        stranger.communicate(b"\n")
        assert stranger.returncode == 0


def test_status_and_quorum_describe_report_a_lost_quorum(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with staged(directory, 3) as stage:
        stage.kill(2)
        with Client(stage.running) as client:  # a broker that was fenced in time is one of those that must run
            wait_until(lambda: len(Admin(client).describe_cluster().brokers) == 2, "broker 2 is fenced")
        stage.kill(3)
        printed = stage.command("status", "--data-dir", str(directory))
        verdict, explained = printed.splitlines()[:2]
        assert verdict == "1 of 3 brokers, quorum lost: 2 of 3 voters are down"
        assert explained.startswith(
            "The quorum is lost: of the voters 1,2,3 no answer comes from 2,3, and 2 are needed. "
        )
        command = [sys.executable, "-m", "highwater", "quorum", "--bootstrap-server", stage.running, "describe"]
        seen: list[subprocess.CompletedProcess[str]] = []

        def fails() -> bool:
            """A leader that has lost its followers answers until it notices."""
            seen.append(subprocess.run([*command, "--status"], capture_output=True, text=True, timeout=WAIT_SECONDS))
            return seen[-1].returncode != 0

        wait_until(fails, "the leader resigns")
        done = seen[-1]
        silent = f"broker 2 at {stage.address(2)}, broker 3 at {stage.address(3)}"
        assert done.stderr == (
            "The quorum is lost or has no leader: no controller answered within 5 s, and no answer comes from "
            f"{silent}. More than half of the voters must run.\n"
        )
        assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_a_full_disk_is_reported_and_so_is_its_room(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    mount = f"mount -t tmpfs -o size=8m tmpfs '{directory}' || exit 77; exec \"$@\""
    with up(directory, "--brokers", "1", prefix=("unshare", "-m", "sh", "-c", mount, "sh")) as running:
        assert running.process.stdout is not None
        if not running.process.stdout.readline().startswith("ready ") and running.process.wait() == 77:
            pytest.skip(f"no file system can be mounted here: {running.errors}")
        inside = ["nsenter", "-t", str(running.process.pid), "-m", "sh", "-c"]
        subprocess.run([*inside, f"cat /dev/zero >'{directory}/filler' || true"], check=True, stderr=subprocess.DEVNULL)
        wait_until(lambda: f"the disk of {directory} is full (" in running.errors, "it is reported")
        status = f"'{sys.executable}' -m highwater status --data-dir '{directory}'"
        printed = subprocess.run([*inside, status], check=True, capture_output=True, text=True).stdout
        assert printed.startswith("1 of 1 brokers, 1 disk full\nThe disk of node 1 is full (")
        subprocess.run([*inside, f"rm '{directory}/filler'"], check=True)
        wait_until(lambda: f"the disk of {directory} has room again" in running.errors, "it is reported")
        assert running.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("ready", [True, False])
def test_a_storm_of_signals_leaves_no_node_running(tmp_path: Path, ready: bool) -> None:
    directory = tmp_path / "data"
    with up(directory, "--brokers", "2", *(() if ready else ("--set", DEAF))) as running:
        if ready:
            running.until_ready()
        else:
            wait_until(lambda: len(nodes_of(directory)) == 2, "both nodes run")
        while running.process.poll() is None:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                running.process.send_signal(number)
        assert running.process.returncode == 0
        assert not nodes_of(directory)


LIVES = """
import signal, sys
from pathlib import Path
from highwater.cli.local_cluster import LocalCluster
from highwater.cli.node import News
from highwater.client import Admin, Client, NewTopic

cluster = LocalCluster(Path(sys.argv[1]), 1, int(sys.argv[2]), {})
try:
    assert cluster.start()
    with Client(cluster.bootstrap) as client:
        Admin(client).create_topics([NewTopic("orders", 2)])
    (member,) = cluster.members
    member.look()
    member.signal(signal.SIGKILL)
    member.wait()
    node = cluster.fork(member)
    news = [node.news()]
    while news[-1] is News.RECOVERS:
        news.append(node.news())
    print(*(each.name for each in news))
finally:
    cluster.stop()
"""


def test_a_node_that_opens_its_logs_says_that_it_is_at_work_before_it_is_ready(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIVES, str(tmp_path / "data"), str(free_ports(1)[0])],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=WAIT_SECONDS,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"^(RECOVERS )+READY$", done.stdout, re.MULTILINE), done.stdout
