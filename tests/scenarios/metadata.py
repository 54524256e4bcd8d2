"""What is seen of the metadata quorum on a stage: who leads, what is committed, what lies on the disks."""

from __future__ import annotations

from pathlib import PurePath

from highwater.errors import Code, code_of
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.snapshot import snapshot_records
from highwater.net.client import CallFailed
from highwater.quorum import LogPosition, Quorum, Role
from highwater.raft_node.raft_node import RaftNode
from highwater.raft_node.snapshots import encode_snapshot, position_of
from highwater.wire import records
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from tests.scenarios.stage import Stage

METADATA = PurePath("/data/__cluster_metadata-0")
QUORUM_STATE = METADATA / "quorum-state"


def raft(stage: Stage, name: str) -> RaftNode:
    return stage.node(name).raft


def quorum(stage: Stage, name: str) -> Quorum:
    return raft(stage, name).quorum


def has_quorum(stage: Stage, name: str) -> bool:
    """Whether this life has come far enough to take part."""
    node = stage.member(name).node
    return stage.cluster.is_up(name) and node is not None and hasattr(getattr(node, "raft", None), "quorum")


def leaders(stage: Stage) -> list[str]:
    """Those that take themselves for the leader of the quorum, whatever others think."""
    return [name for name in stage.cluster.names if has_quorum(stage, name) and quorum(stage, name).role is Role.LEADER]


def controller(stage: Stage) -> str:
    """The active controller; there is one."""
    stage.until(stage.cluster.active_controller)
    active = stage.cluster.active_controller()
    assert active is not None
    return active


def failures(stage: Stage) -> list[str]:
    """Nodes that gave up or could not start, and why, up to this very moment."""
    stage.cluster.look_for_failures()
    return stage.cluster.failures


def others(stage: Stage, *names: str) -> list[str]:
    return [name for name in stage.cluster.names if name not in names]


def topics(stage: Stage, name: str) -> list[str]:
    """The committed topics, as this node knows them."""
    return sorted(raft(stage, name).committed.topics.by_name)


def state(image: MetadataImage) -> bytes:
    """All of an image as bytes, in one fixed order."""
    return b"".join(encode_snapshot(0, None, 0, snapshot_records(image)))


async def create_topic(
    stage: Stage, at: str, topic: str, partitions: int = 1, ms: int = 3_000, by: str = "client"
) -> Code:
    """Asked once of this node's broker, which forwards it. NETWORK_EXCEPTION where nobody answers."""
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=ms)
    try:
        answer = await stage.visitor(by).ask(at, request, CreateTopicsResponse)
    except CallFailed:
        return Code.NETWORK_EXCEPTION
    return code_of(answer.topics[0].error_code)


def create(stage: Stage, at: str, *names: str) -> None:
    for name in names:
        assert stage.run(create_topic(stage, at, name)) is Code.NONE, name


def batches(stage: Stage, name: str, below: int | None = None) -> list[bytes]:
    """The batches of the metadata log as they lie in the files, those that end below `below`."""
    log = raft(stage, name).files
    found = []
    for segment in log.segments:
        data = memoryview(bytes(stage.storage(name).file(METADATA / f"{segment.base_offset:020d}.log").data))
        for at, size, header in records.walk(data):
            if below is None or header.last_offset < below:
                found.append(bytes(data[at : at + size]))
    return found


def snapshots(stage: Stage, name: str) -> list[LogPosition]:
    """Those that lie whole under their names in the directory."""
    names = stage.storage(name).directory(METADATA).entries
    return sorted(position for each in names if (position := position_of(each)) is not None)


def agree(stage: Stage, *names: str) -> bool:
    """One leads, and all the others have all that it has, committed. Then all know, byte by byte, the same cluster."""
    if len(leaders(stage)) != 1:
        return False
    rafts = [raft(stage, name) for name in names]
    if len({(each.log.durable_end, each.quorum.high_watermark, each.committed.offset) for each in rafts}) != 1:
        return False
    assert len({state(each.committed) for each in rafts}) == 1, "two nodes know another state at the same offset"
    return True
