"""The nodes of this machine: those of a data directory of `highwater up`, or the one of a server.properties."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from highwater import config as settings
from highwater.cli.doctor.addresses import is_loopback
from highwater.cli.doctor.disk_space import judged, space_of
from highwater.cli.doctor.finding import ADDRESSES, DISKS, SETTINGS, Finding, listed
from highwater.cli.server_properties import read_config
from highwater.client.reach import knock
from highwater.cluster.holder import holder_of_file, named
from highwater.config import ConfigError, NodeConfig
from highwater.log.meta_properties import read_meta_properties
from highwater.log.names import LOCK
from highwater.model import Endpoint, NodeId
from highwater.world.real_disk import RealDisk


class LocalNode(NamedTuple):
    file: Path
    config: NodeConfig
    pid: int | None
    """The process that holds the lock of its directory; None if it does not run."""

    @property
    def id(self) -> NodeId:
        return self.config.node_id

    @property
    def directories(self) -> list[Path]:
        named = (*self.config.log_dirs, self.config.metadata_log_dir)
        return [Path(each) for each in dict.fromkeys(named)]

    @property
    def bootstrap(self) -> Endpoint | None:
        """Where clients of this machine find it; None for a controller, and for ports that the system gives."""
        at = next((each.endpoint for each in self.config.broker_listeners if each.endpoint.port), None)
        if at is None or not self.config.is_broker:
            return None
        return Endpoint("127.0.0.1" if at.host in ("", "0.0.0.0", "::") else at.host, at.port)

    def listeners(self) -> Iterator[tuple[str, Endpoint]]:
        own = (*self.config.broker_listeners, *(self.config.controller_listeners if self.config.is_controller else ()))
        yield from ((each.name, each.endpoint) for each in own)
        http = self.config.get(settings.HIGHWATER_HTTP_LISTENER)
        if http is not None:
            host, _, port = http.rpartition(":")
            yield "the status page", Endpoint(host.strip("[]"), int(port))


def node_of(file: Path, *, with_environment: bool = True) -> LocalNode | Finding:
    try:
        config = read_config(file, (), *(() if with_environment else ({},)))
    except ConfigError as wrong:
        return SETTINGS.wrong(str(wrong), f"Correct it in {file}.")
    locks = [Path(each) / LOCK for each in config.log_dirs]
    pid = next((found for lock in locks if (found := holder_of_file(lock)) is not None), None)
    return LocalNode(file, config, pid)


def nodes_of(data_dir: Path) -> Iterator[LocalNode | Finding]:
    """Those of `up`, which pass over the environment."""
    files = sorted(data_dir.glob("node-*/server.properties"), key=lambda file: (len(file.parent.name), file))
    if not files:
        yield SETTINGS.wrong(
            f"{data_dir} holds no node", "Give the directory of `highwater up`: highwater doctor --data-dir DIR."
        )
    found = [node_of(file, with_environment=False) for file in files]
    yield from found
    nodes = [node for node in found if isinstance(node, LocalNode)]
    if nodes and all(node.pid is None for node in nodes):
        yield SETTINGS.wrong(f"no node of {data_dir} runs", f"Start them: highwater up --data-dir {data_dir}")
        return
    for node in nodes:
        if node.pid is None:
            yield SETTINGS.wrong(
                f"node {node.id} does not run, and others of its cluster do",
                f"highwater start {node.id} --data-dir {data_dir}; {node.file.parent / 'node.log'} says why it ended.",
            )


def examine_node(node: LocalNode, seconds: float) -> Iterator[Finding]:
    """Its settings, its directories, and the addresses that they name."""
    if node.pid is not None:
        yield SETTINGS.well(f"node {node.id} runs: {named(node.pid)}")
    else:
        yield SETTINGS.unknown(f"node {node.id} ({node.file}) does not run")
    for unknown in node.config.unknown:
        yield SETTINGS.wrong(f"{node.file} has an unknown setting, {unknown}", "Correct its name, or take it out.")
    for directory in node.directories:
        yield from _directory(node, directory)
    yield from _advertised(node)
    yield from _controllers(node, seconds)


def _directory(node: LocalNode, directory: Path) -> Iterator[Finding]:
    format_it = f"highwater storage format -c {node.file} -t CLUSTER-ID, with the id of its cluster."
    if not directory.is_dir():
        yield DISKS.wrong(f"{directory} of node {node.id} is not there", f"Mount it, or make it: {format_it}")
        return
    try:
        meta = read_meta_properties(RealDisk(), directory)
    except (OSError, ValueError) as failed:
        yield DISKS.wrong(f"{directory} of node {node.id} cannot be read: {failed}", "Give the node's user the right.")
        return
    if meta is None:
        yield DISKS.wrong(f"{directory} of node {node.id} is not formatted", format_it)
    elif meta.node_id != node.id:
        yield DISKS.wrong(
            f"{directory} is of node {meta.node_id}, and {node.file} is of node {node.id}",
            "Give log.dirs of this node, or the node.id of this directory.",
        )
    try:
        yield judged(f"{directory} of node {node.id}", space_of(directory))
    except OSError as failed:
        yield DISKS.unknown(f"{directory} of node {node.id}: {failed.strerror}")


def _advertised(node: LocalNode) -> Iterator[Finding]:
    """Whether clients of other machines are sent back to themselves."""
    bound = {each.name: each.endpoint.host for each in node.config.broker_listeners}
    for each in node.config.advertised_listeners if node.config.is_broker else ():
        if is_loopback(each.endpoint.host) and not is_loopback(bound.get(each.name, "")):
            yield ADDRESSES.wrong(
                f"node {node.id} listens for other machines on {each.name}, and tells their clients to connect to "
                f"{each.endpoint}, which is each machine's own address",
                "Set advertised.listeners to this machine's name or address, as its clients reach it.",
            )


def _controllers(node: LocalNode, seconds: float) -> Iterator[Finding]:
    """A node that starts needs a voter that answers, unless it is the only one."""
    own = {each.endpoint for each in node.config.advertised_controller_listeners}
    others = [each for each in node.config.bootstrap_controllers if each not in own]
    if node.pid is not None or not others:
        return
    tried = {each: knock(each, seconds) for each in others}
    reached = [each for each, (obstacle, _) in tried.items() if obstacle is None]
    if reached:
        yield ADDRESSES.well(f"node {node.id} reaches the controllers {listed(reached)}")
        return
    why = listed(f"{each}: {obstacle.value}" for each, (obstacle, _) in tried.items() if obstacle is not None)
    yield ADDRESSES.wrong(
        f"node {node.id} reaches no other controller: {why}",
        "Start the other controllers, or correct controller.quorum.bootstrap.servers. Until more than half of the "
        "voters run, no node becomes ready.",
    )
