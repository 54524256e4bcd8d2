"""The nodes of a cluster on this machine: their roles, ports and settings, and their formatted directories."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom

from highwater.cluster.ports import HOST, ReservedPort
from highwater.config import NodeConfig, format_properties, parse_properties
from highwater.model import Endpoint, NodeId, Uuid, uuid_text
from highwater.raft_node.format import Format, InitialVoter, format_directories, random_directory_id
from highwater.raft_node.meta_properties import MetaProperties, read_meta_properties
from highwater.world.real_disk import RealDisk

VOTERS = 3
FIRST_CONTROLLER_ID = 101
_BROKER, _CONTROLLER = "PLAINTEXT", "CONTROLLER"


class ClusterFailed(RuntimeError):
    """The cluster did not become, or stay, what it was asked to be."""


@dataclass(slots=True)
class Member:
    """One node, before it runs."""

    id: NodeId
    roles: tuple[str, ...]
    home: Path
    rack: str | None = None
    ports: dict[str, ReservedPort] = field(default_factory=dict)
    http_port: ReservedPort | None = None
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def config_file(self) -> Path:
        return self.home / "server.properties"

    @property
    def log_dir(self) -> Path:
        return self.home / "data"

    @property
    def endpoints(self) -> list[Endpoint]:
        return [Endpoint(HOST, port.number) for port in self.ports.values()]

    @property
    def http(self) -> str | None:
        """Where it tells its status."""
        return None if self.http_port is None else f"{HOST}:{self.http_port.number}"

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.ports[_BROKER].number}"


class Layout:
    """Formatted on disk once made. A directory that an earlier cluster left behind is taken as it is.

    Brokers have the ports from `first_port` on, or the ones of the last time, or new ones. With `http` each node serves
    its status on a port of its own.
    """

    def __init__(
        self,
        directory: Path,
        brokers: int,
        controllers: int,
        racks: Sequence[str] | None,
        config: Mapping[str, str],
        first_port: int | None = None,
        http: bool = False,
    ) -> None:
        if brokers < 1 or controllers < 0:
            raise ValueError(f"a cluster of {brokers} brokers and {controllers} controllers cannot be")
        if racks is not None and len(racks) != brokers:
            raise ValueError(f"{len(racks)} racks for {brokers} brokers")
        self._brokers = brokers
        self._first_port = first_port
        self._http = http
        self._config = dict(config)
        self.members = self._members(directory, brokers, controllers, racks)
        try:
            self._prepare()
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        for member in self.members:
            for port in (*member.ports.values(), member.http_port):
                if port is not None:
                    port.release()

    @staticmethod
    def _members(directory: Path, brokers: int, controllers: int, racks: Sequence[str] | None) -> list[Member]:
        members = []
        for number in range(1, brokers + 1):
            votes = controllers == 0 and number <= VOTERS
            roles = ("broker", "controller") if votes else ("broker",)
            rack = None if racks is None else racks[number - 1]
            members.append(Member(NodeId(number), roles, directory / f"node-{number}", rack))
        for number in range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + controllers):
            members.append(Member(NodeId(number), ("controller",), directory / f"node-{number}"))
        return members

    @property
    def _voters(self) -> list[Member]:
        return [member for member in self.members if "controller" in member.roles]

    def _prepare(self) -> None:
        disk, random = RealDisk(), SystemRandom()
        known: dict[NodeId, MetaProperties | None] = {}
        for member in self.members:
            member.log_dir.mkdir(parents=True, exist_ok=True)
            self._reserve(member)
            known[member.id] = read_meta_properties(disk, member.log_dir)
        ids = [meta.cluster_id for meta in known.values() if meta is not None]
        self.cluster_id = ids[0] if ids else uuid_text(random_directory_id(random))
        directories = {
            voter.id: (None if meta is None else meta.directory_id) or random_directory_id(random)
            for voter in self._voters
            for meta in (known[voter.id],)
        }
        for member in self.members:
            member.properties = self._properties(member)
            NodeConfig.parse(member.properties)
            member.config_file.write_text(format_properties(member.properties))
            if known[member.id] is None:
                self._format(disk, member, directories)

    def _reserve(self, member: Member) -> None:
        last: dict[str, int] = {}
        if member.config_file.exists():
            for listener in parse_properties(member.config_file.read_text()).get("listeners", "").split(","):
                name, _, address = listener.partition("://")
                last[name] = int(address.rpartition(":")[2] or 0)
        if member.is_broker:
            wanted = last.get(_BROKER, 0) if self._first_port is None else self._first_port + member.id - 1
            member.ports[_BROKER] = ReservedPort(wanted)
        if "controller" in member.roles:
            member.ports[_CONTROLLER] = _same_or_other(last.get(_CONTROLLER, 0))
        if self._http:
            member.http_port = ReservedPort()

    def _properties(self, member: Member) -> dict[str, str]:
        factor = str(min(3, self._brokers))
        properties = {
            "process.roles": ",".join(member.roles),
            "node.id": str(member.id),
            "listeners": ",".join(f"{name}://{HOST}:{port.number}" for name, port in member.ports.items()),
            "controller.listener.names": _CONTROLLER,
            "listener.security.protocol.map": f"{_CONTROLLER}:PLAINTEXT,{_BROKER}:PLAINTEXT",
            "controller.quorum.bootstrap.servers": ",".join(
                f"{HOST}:{voter.ports[_CONTROLLER].number}" for voter in self._voters
            ),
            "log.dirs": str(member.log_dir),
            "offsets.topic.replication.factor": factor,
            "transaction.state.log.replication.factor": factor,
            "transaction.state.log.min.isr": str(min(2, self._brokers)),
        }
        if member.rack is not None:
            properties["broker.rack"] = member.rack
        if member.http is not None:
            properties["highwater.http.listener"] = member.http
        return {**properties, **self._config}

    def _format(self, disk: RealDisk, member: Member, directories: Mapping[NodeId, Uuid]) -> None:
        voters = [
            InitialVoter(voter.id, Endpoint(HOST, voter.ports[_CONTROLLER].number), directories[voter.id])
            for voter in self._voters
            if member in self._voters
        ]
        wanted = Format(self.cluster_id, member.id, [member.log_dir], member.log_dir, _CONTROLLER, voters)
        format_directories(disk, wanted, now_ms=time.time_ns() // 1_000_000, random=SystemRandom())


def _same_or_other(port: int) -> ReservedPort:
    """The one of the last time if it is free: it is in the log of the quorum, which would have to learn another."""
    with contextlib.suppress(OSError):
        return ReservedPort(port)
    return ReservedPort()
