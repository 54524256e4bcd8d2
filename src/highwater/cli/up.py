"""`highwater up`: a cluster on this machine, one process per node, until Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from highwater.cluster.layout import Layout, Member
from highwater.cluster.ports import HOST
from highwater.config import ConfigError

READY_SECONDS = 60.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.2


class NodeProcess:
    """One node of the cluster, as `nodes.json` lists it."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self.id = member.id
        self.pid = 0
        self.config = member.config_file
        self.pid_file = member.home / "pid"
        self.output = member.home / "node.log"

    @property
    def argv(self) -> list[str]:
        """Starts this node again after it was killed; it then writes its pid where `up` finds it."""
        node = [sys.executable, "-m", "highwater", "node", "--config", str(self.config)]
        return [*node, "--pid-file", str(self.pid_file), "--log-file", str(self.output)]

    def describe(self) -> dict[str, object]:
        member = self._member
        return {
            "id": self.id,
            "roles": list(member.roles),
            "pid": self.pid,
            "host": HOST,
            "port": member.endpoints[0].port,
            "http": member.http,
            "log_dir": str(member.log_dir),
            "config": str(self.config),
            "argv": self.argv,
        }

    def read_pid(self) -> int:
        try:
            return int(self.pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return 0


def is_alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_dead_child(pid)


def _is_dead_child(pid: int) -> bool:
    """Ended, and not yet looked after by whoever started it, which need not be us."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state in ("Z", "X")


class LocalCluster:
    """The processes of one data directory, each node's settings written and its directory formatted."""

    def __init__(self, data_dir: Path, brokers: int, port: int, extra: dict[str, str], controllers: int = 0) -> None:
        self._dir = data_dir.absolute()
        self._layout = Layout(self._dir, brokers, controllers, None, extra, first_port=port, http=True)
        self.members = [NodeProcess(member) for member in self._layout.members]
        self._children: list[int] = []
        for process in self.members:
            process.pid_file.unlink(missing_ok=True)

    @property
    def bootstrap(self) -> str:
        return ",".join(member.bootstrap for member in self._layout.members if member.is_broker)

    def start(self) -> None:
        """All nodes as forks of this process, which has everything imported; returns when each is ready."""
        from highwater.cli.node import fork_node

        waiting = []
        for member in self.members:
            member.pid, ready = fork_node(member.config, member.pid_file, member.output)
            self._children.append(member.pid)
            waiting.append((member, ready))
        self.write_nodes()
        deadline = time.monotonic() + READY_SECONDS
        for member, ready in waiting:
            if not ready.wait(deadline - time.monotonic()):
                raise click.ClickException(
                    f"node {member.id} did not become ready; its log is {member.output}:\n{_tail(member.output)}"
                )

    def write_nodes(self) -> None:
        """nodes.json, replaced atomically."""
        nodes = {"cluster_id": self._layout.cluster_id, "nodes": [member.describe() for member in self.members]}
        aside = self._dir / "nodes.json.tmp"
        aside.write_text(json.dumps(nodes, indent=2))
        aside.replace(self._dir / "nodes.json")

    def watch(self) -> Iterator[tuple[NodeProcess, str]]:
        """For ever: what happens to the nodes, as it happens."""
        down: set[int] = set()
        while True:
            self._reap()
            for member in self.members:
                running = member.read_pid()
                if running and running != member.pid and is_alive(running):
                    member.pid = running
                    self.write_nodes()
                if not is_alive(member.pid) and member.id not in down:
                    down.add(member.id)
                    yield member, "died"
                elif is_alive(member.pid) and member.id in down:
                    down.discard(member.id)
                    yield member, "is back"
            time.sleep(POLL_SECONDS)

    def restart(self, member: NodeProcess) -> None:
        from highwater.cli.node import fork_node

        member.pid, _ = fork_node(member.config, member.pid_file, member.output)
        self._children.append(member.pid)
        self.write_nodes()

    def _reap(self) -> None:
        """Take note of the ended ones among our own children: until then they look alive."""
        for pid in sorted({*self._children, *(member.pid for member in self.members)}):
            with contextlib.suppress(ChildProcessError):
                if pid > 0:
                    os.waitpid(pid, os.WNOHANG)

    def stop(self) -> None:
        """A controlled shutdown of every node; one that takes too long is killed."""
        for member in self.members:
            member.pid = member.read_pid() or member.pid
            if is_alive(member.pid):
                os.kill(member.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while any(is_alive(member.pid) for member in self.members) and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.02)
        for member in self.members:
            if is_alive(member.pid):
                os.kill(member.pid, signal.SIGKILL)
        self._reap()
        self._layout.release()


def _tail(path: Path, lines: int = 15) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(no output)"


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    parsed = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{setting!r} is not key=value", param_hint="--set")
        parsed[key.strip()] = value.strip()
    return parsed


@click.command("up")
@click.option("--brokers", default=3, show_default=True, type=click.IntRange(1), help="How many brokers.")
@click.option(
    "--controllers",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Processes for the quorum alone; 0 lets the first three brokers be the quorum too.",
)
@click.option("--port", default=9092, show_default=True, help="The first node's client port; the others follow it.")
@click.option(
    "--data-dir",
    default="highwater-data",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where data, settings, logs and nodes.json are kept; they are there at the next start.",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting for every node. Repeatable.")
@click.option("--restart", is_flag=True, help="Start a node again that died.")
def command(
    brokers: int, controllers: int, port: int, data_dir: Path, settings: tuple[str, ...], restart: bool
) -> None:
    """Start a cluster on this machine, one process per node, and keep it up until Ctrl-C or SIGTERM.

    When it can be used, a line begins with "ready" and holds bootstrap=HOST:PORT. DIR/nodes.json lists the processes.
    """

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        cluster = LocalCluster(data_dir, brokers, port, parse_settings(settings), controllers)
    except (ConfigError, ValueError, OSError) as wrong:
        raise click.ClickException(str(wrong)) from wrong
    try:
        cluster.start()
        click.echo(f"ready bootstrap={cluster.bootstrap} data={data_dir}")
        for member, event in cluster.watch():
            click.echo(f"node {member.id} {event}", err=True)
            if event == "died" and restart:
                cluster.restart(member)
    except KeyboardInterrupt:
        click.echo("stopping", err=True)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        cluster.stop()
