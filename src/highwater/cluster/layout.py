"""The nodes of a cluster on this machine: their roles, ports and settings, and their formatted directories."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom

from highwater.cluster.directory import write_durably
from highwater.cluster.failed import ClusterFailed
from highwater.cluster.lost_voters import lost_voters_line
from highwater.cluster.ports import HOST, ReservedPort, taken
from highwater.cluster.record import FIRST_CONTROLLER_ID, ClusterRecord, Shape, as_arguments
from highwater.config import ConfigError, NodeConfig, format_properties, parse_properties
from highwater.config.names import check_known
from highwater.model import Endpoint, NodeId, uuid_text
from highwater.storage.format import (
    Format,
    InitialVoter,
    format_directories,
    make_directory,
    random_directory_id,
)
from highwater.world.real_disk import RealDisk

VOTERS = 3
_BROKER, _CONTROLLER = "PLAINTEXT", "CONTROLLER"

FIRST_MEMBER_AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}
"""For clusters of tests and of one broker: the first member of a new group does not wait three seconds for others."""

_NUMBERED = "the nodes are numbered from 1 on, and controllers of their own from 101 on"
_HOUSED = "each node keeps its data in a folder of its own below the cluster's directory"
_ADDRESSED = "each node has ports of its own"
LAID_OUT = {
    "advertised.listeners": _ADDRESSED,
    "broker.id": _NUMBERED,
    "controller.listener.names": _ADDRESSED,
    "controller.quorum.bootstrap.servers": _ADDRESSED,
    "controller.quorum.voters": _ADDRESSED,
    "highwater.http.listener": _ADDRESSED,
    "listener.security.protocol.map": _ADDRESSED,
    "listeners": _ADDRESSED,
    "log.dir": _HOUSED,
    "log.dirs": _HOUSED,
    "metadata.log.dir": _HOUSED,
    "node.id": _NUMBERED,
    "process.roles": "the numbers of brokers and of controllers decide it",
}
"""Settings that cannot have one value for all nodes, with the reason."""


def as_properties(values: Mapping[str, object]) -> dict[str, str]:
    """Values of Python as a properties file has them."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}


@dataclass(slots=True)
class NodeLayout:
    """The role, ports, settings and directories of one node."""

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
        """The address of its status page."""
        return None if self.http_port is None else f"{HOST}:{self.http_port.number}"

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.ports[_BROKER].number}"


class Layout:
    """The nodes are formatted on disk when the layout is made. A directory of an earlier cluster is used as it is, if
    it has the same voters. The caller holds the lock of the directory (`DataDirectory`).

    Brokers have the ports from `first_port` on, or those of the last time, or new ones. With `http` each node serves
    its status on its own port, from `first_http_port` on or a new one. An error names the numbers of nodes that fit, in
    the words of `shape`.
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
        shape: Shape = as_arguments,
        first_http_port: int | None = None,
    ) -> None:
        if brokers < 1 or controllers < 0:
            raise ValueError(f"a cluster of {brokers} brokers and {controllers} controllers is not possible")
        if racks is not None and len(racks) != brokers:
            raise ValueError(f"{len(racks)} racks for {brokers} brokers")
        _check_common(config, brokers, http)
        self._brokers = brokers
        self._first_port = first_port
        self._http = http
        self._first_http_port = first_http_port
        self._shape = shape
        self._config = dict(config)
        self.members = self._members(directory, brokers, controllers, racks)
        try:
            self._prepare(directory)
        except BaseException:
            self.release()
            raise

    @property
    def lost_voters_line(self) -> str | None:
        """None if every voter has the directory with which the quorum knows it."""
        return lost_voters_line(self.lost_voters, [each.id for each in self._voters]) if self.lost_voters else None

    def release(self) -> None:
        for member in self.members:
            for port in (*member.ports.values(), member.http_port):
                if port is not None:
                    port.release()

    @staticmethod
    def _members(directory: Path, brokers: int, controllers: int, racks: Sequence[str] | None) -> list[NodeLayout]:
        members = []
        for number in range(1, brokers + 1):
            votes = controllers == 0 and number <= VOTERS
            roles = ("broker", "controller") if votes else ("broker",)
            rack = None if racks is None else racks[number - 1]
            members.append(NodeLayout(NodeId(number), roles, directory / f"node-{number}", rack))
        for number in range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + controllers):
            members.append(NodeLayout(NodeId(number), ("controller",), directory / f"node-{number}"))
        return members

    @property
    def _voters(self) -> list[NodeLayout]:
        return [member for member in self.members if "controller" in member.roles]

    def _prepare(self, directory: Path) -> None:
        """Everything that can be refused is refused before anything is written."""
        disk = RealDisk()
        record = ClusterRecord.read(disk, directory)
        record.check([member.id for member in self.members], [voter.id for voter in self._voters], self._shape)
        self.cluster_id = record.cluster_id or uuid_text(random_directory_id(SystemRandom()))
        for member in self.members:
            self._reserve(member, record.endpoint(member.id, _CONTROLLER))
        for member in self.members:
            member.properties = self._properties(member)
            NodeConfig.parse(member.properties)
        voters = self._initial_voters(record)
        self.lost_voters = record.lost if record.has_run else []
        # Voters first: an interrupted start can then learn the other voters from any one of them.
        for member in sorted(self.members, key=lambda each: "controller" not in each.roles):
            make_directory(disk, member.log_dir)
            write_durably(member.config_file, format_properties(member.properties))
            if member.id not in record.metas:
                self._format(disk, member, voters, record.has_run)

    def _reserve(self, member: NodeLayout, recorded: Endpoint | None) -> None:
        last = _last_ports(member.config_file)
        if member.is_broker:
            wanted = last.get(_BROKER, 0) if self._first_port is None else self._first_port + member.id - 1
            member.ports[_BROKER] = self._client_port(member, wanted)
        if "controller" in member.roles:
            wanted = last.get(_CONTROLLER, 0) if recorded is None else recorded.port
            member.ports[_CONTROLLER] = _controller_port(member, wanted)
        if self._http:
            member.http_port = self._status_port(member)

    def _status_port(self, member: NodeLayout) -> ReservedPort:
        if self._first_http_port is None:
            return ReservedPort.drawn()
        wanted = self._first_http_port + self.members.index(member)
        try:
            return ReservedPort(wanted)
        except OSError as failed:
            what = f"the status page of node {member.id}"
            raise ClusterFailed(taken(wanted, what, "end that process, or choose another --http-port")) from failed

    def _client_port(self, member: NodeLayout, wanted: int) -> ReservedPort:
        if not wanted:
            return ReservedPort.drawn()
        try:
            return ReservedPort(wanted)
        except (OSError, OverflowError) as failed:
            if self._first_port is None:
                return ReservedPort.drawn()
            message = taken(
                wanted, f"the client port of node {member.id}", "end that process, or choose another --port"
            )
            raise ClusterFailed(message) from failed

    def _properties(self, member: NodeLayout) -> dict[str, str]:
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

    def _initial_voters(self, record: ClusterRecord) -> list[InitialVoter]:
        """The voters as they were formatted together, or new ones if none is formatted yet."""
        if record.voters is not None:
            known = ((node.key, record.endpoint(node.key.id, _CONTROLLER)) for node in record.voters.nodes)
            return [InitialVoter(key.id, at, key.directory_id) for key, at in known if at is not None]
        random = SystemRandom()
        return [
            InitialVoter(voter.id, Endpoint(HOST, voter.ports[_CONTROLLER].number), random_directory_id(random))
            for voter in self._voters
        ]

    def _format(self, disk: RealDisk, member: NodeLayout, voters: Sequence[InitialVoter], has_run: bool) -> None:
        """A voter whose directory was lost comes back without its vote. With a vote, it could contradict an earlier
        one."""
        wanted = Format(
            self.cluster_id,
            member.id,
            [member.log_dir],
            member.log_dir,
            _CONTROLLER,
            voters if member in self._voters else (),
            has_lost_its_voter=has_run,
        )
        format_directories(disk, wanted, now_ms=time.time_ns() // 1_000_000, random=SystemRandom())


def _check_common(config: Mapping[str, str], brokers: int, http: bool) -> None:
    """Raises ConfigError for an unknown setting, and for one that the layout sets for each node."""
    check_known(config)
    given = set(config) & set(LAID_OUT)
    if brokers == 1:
        given.discard("advertised.listeners")  # with a single broker this may be given: its clients use it
    if not http:
        given.discard("highwater.http.listener")
    for name in sorted(given):
        raise ConfigError(f"{name} cannot be set for a whole cluster: {LAID_OUT[name]}. Leave it out")


def _last_ports(config: Path) -> dict[str, int]:
    """The ports of the last start, by listener. An older version did not sync them, so a power cut could lose them."""
    try:
        listeners = parse_properties(config.read_text("iso-8859-1")).get("listeners", "")
    except FileNotFoundError:
        return {}
    ports = {}
    for listener in filter(None, listeners.split(",")):
        name, _, address = listener.partition("://")
        ports[name] = int(address.rpartition(":")[2] or 0)
    return ports


def _controller_port(member: NodeLayout, wanted: int) -> ReservedPort:
    """The port of the last time: the quorum's log names it, and no other node would look for this voter elsewhere."""
    if not wanted:
        return ReservedPort.drawn()
    try:
        return ReservedPort(wanted)
    except OSError as failed:
        message = taken(
            wanted,
            f"where the quorum's log has voter {member.id}",
            "end that process; the voter cannot move to another port",
        )
        raise ClusterFailed(message) from failed
