"""`highwater up`: a cluster on this machine, one process per node, until Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

import click

from highwater.config import ConfigError, NodeConfig, format_properties, parse_properties
from highwater.model import ZERO_UUID, Endpoint, NodeId, Uuid, uuid_text
from highwater.raft_node.format import Format, InitialVoter, format_directories, random_directory_id
from highwater.raft_node.meta_properties import read_meta_properties
from highwater.world.real_disk import RealDisk

READY_SECONDS = 60.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.2


@dataclass(slots=True)
class Member:
    """One node of the cluster, as `nodes.json` lists it."""

    id: int
    roles: tuple[str, ...]
    port: int
    """Of its clients; of the quorum where it has none."""
    home: Path
    pid: int = 0
    http: str = ""
    controller_port: int = 0
    directory_id: Uuid = ZERO_UUID

    @property
    def config(self) -> Path:
        return self.home / "server.properties"

    @property
    def log_dir(self) -> Path:
        return self.home / "data"

    @property
    def pid_file(self) -> Path:
        return self.home / "pid"

    @property
    def output(self) -> Path:
        return self.home / "node.log"

    @property
    def argv(self) -> list[str]:
        """Starts this node again after it was killed; it then writes its pid where `up` finds it."""
        node = [sys.executable, "-m", "highwater", "node", "--config", str(self.config)]
        return [*node, "--pid-file", str(self.pid_file), "--log-file", str(self.output)]

    def describe(self) -> dict[str, object]:
        return {
            "id": self.id,
            "roles": list(self.roles),
            "pid": self.pid,
            "host": "127.0.0.1",
            "port": self.port,
            "http": self.http,
            "log_dir": str(self.log_dir),
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


OWN_PORTS = range(15_000, 32_000)
"""Below those that the system gives to whoever dials: one of them could be taken while its node is down, and a dial to
it could meet itself."""


def free_port() -> int:
    random = SystemRandom()
    while True:
        port = random.choice(OWN_PORTS)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def free_ports(count: int) -> int:
    """The first of so many in a row that are free now."""
    while True:
        first = free_port()
        try:
            with contextlib.ExitStack() as held:
                for port in range(first, first + count):
                    probe = held.enter_context(socket.socket())
                    probe.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue


VOTERS = 3
FIRST_CONTROLLER_ID = 101


class LocalCluster:
    """The processes of one data directory."""

    def __init__(self, data_dir: Path, brokers: int, port: int, extra: dict[str, str], controllers: int = 0) -> None:
        self._dir = data_dir.absolute()
        self._extra = extra
        self._dir.mkdir(parents=True, exist_ok=True)
        self.members = []
        for number in range(1, brokers + 1):
            votes = controllers == 0 and number <= VOTERS
            roles = ("broker", "controller") if votes else ("broker",)
            self.members.append(Member(number, roles, port + number - 1, self._dir / f"node-{number}"))
        for number in range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + controllers):
            self.members.append(Member(number, ("controller",), 0, self._dir / f"node-{number}"))
        self._brokers = brokers
        self._children: list[int] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{member.port}" for member in self.members if "broker" in member.roles)

    @property
    def _voters(self) -> list[Member]:
        return [member for member in self.members if "controller" in member.roles]

    def prepare(self) -> None:
        """Write each node's settings and format its directory, where that was not done by an earlier run."""
        for member in self.members:
            member.home.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                member.pid_file.unlink()
        disk = RealDisk()
        known = [read_meta_properties(disk, member.log_dir) for member in self.members]
        self.cluster_id = next((meta.cluster_id for meta in known if meta is not None), self._new_id())
        random = SystemRandom()
        for member, meta in zip(self.members, known, strict=True):
            formatted = None if meta is None else meta.directory_id
            member.directory_id = formatted or random_directory_id(random)
            member.http = f"127.0.0.1:{free_port()}"
            if "controller" in member.roles:
                member.controller_port = self._controller_port(member)
                member.port = member.port or member.controller_port
        for member, meta in zip(self.members, known, strict=True):
            properties = self._properties(member)
            NodeConfig.parse(properties)
            member.config.write_text(format_properties(properties))
            if meta is None:
                self._format(disk, member)

    @staticmethod
    def _new_id() -> str:
        return uuid_text(random_directory_id(SystemRandom()))

    def _controller_port(self, member: Member) -> int:
        """The one of the last run if it is free still: then no voter has to be told of a new one."""
        if member.config.exists():
            listeners = parse_properties(member.config.read_text()).get("listeners", "")
            with contextlib.suppress(OSError, ValueError), socket.socket() as probe:
                port = int(listeners.rpartition(":")[2])
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
                return port
        return free_port()

    def _properties(self, member: Member) -> dict[str, str]:
        listeners = []
        if "broker" in member.roles:
            listeners.append(f"PLAINTEXT://127.0.0.1:{member.port}")
        if "controller" in member.roles:
            listeners.append(f"CONTROLLER://127.0.0.1:{member.controller_port}")
        properties = {
            "process.roles": ",".join(member.roles),
            "node.id": str(member.id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.bootstrap.servers": ",".join(
                f"127.0.0.1:{voter.controller_port}" for voter in self._voters
            ),
            "highwater.http.listener": member.http,
            "log.dirs": str(member.log_dir),
            "offsets.topic.replication.factor": str(min(3, self._brokers)),
            "transaction.state.log.replication.factor": str(min(3, self._brokers)),
            "transaction.state.log.min.isr": str(min(2, self._brokers)),
        }
        return {**properties, **self._extra}

    def _format(self, disk: RealDisk, member: Member) -> None:
        voters = [
            InitialVoter(NodeId(voter.id), Endpoint("127.0.0.1", voter.controller_port), voter.directory_id)
            for voter in self._voters
        ]
        wanted = Format(
            self.cluster_id,
            NodeId(member.id),
            [member.log_dir],
            member.log_dir,
            "CONTROLLER",
            voters if "controller" in member.roles else [],
        )
        format_directories(disk, wanted, now_ms=int(time.time() * 1000), random=SystemRandom())

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
        nodes = {"cluster_id": self.cluster_id, "nodes": [member.describe() for member in self.members]}
        aside = self._dir / "nodes.json.tmp"
        aside.write_text(json.dumps(nodes, indent=2))
        aside.replace(self._dir / "nodes.json")

    def watch(self) -> Iterator[tuple[Member, str]]:
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

    def restart(self, member: Member) -> None:
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
        cluster.prepare()
    except (ConfigError, ValueError) as wrong:
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
