"""FetchSnapshot (59): a piece of a metadata snapshot, for a replica that is behind the start of the log."""

from __future__ import annotations

from highwater.errors import Code
from highwater.model import METADATA_TOPIC, NodeId
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.quorum import LogPosition, ReplicaKey
from highwater.raft_node.installing import read_piece
from highwater.raft_node.raft_node import RaftNode
from highwater.wire.messages.fetch_snapshot_request import FetchSnapshotRequest
from highwater.wire.messages.fetch_snapshot_request import PartitionSnapshot as Asked
from highwater.wire.messages.fetch_snapshot_response import (
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)

API = Api(59, (0, 1), FetchSnapshotRequest)
MAX_PIECE = 8 << 20


def handle(raft: RaftNode, ctx: RequestContext, request: FetchSnapshotRequest) -> None:
    if not ctx.authorize("ClusterAction", "Cluster", "kafka-cluster"):
        ctx.respond(FetchSnapshotResponse(error_code=Code.CLUSTER_AUTHORIZATION_FAILED))
        return
    if request.cluster_id is not None and request.cluster_id != raft.identity.cluster_id:
        ctx.respond(FetchSnapshotResponse(error_code=Code.INCONSISTENT_CLUSTER_ID))
        return
    asked = [part for topic in request.topics if topic.name == METADATA_TOPIC for part in topic.partitions]
    if len(asked) != 1 or asked[0].partition != 0:
        ctx.respond(FetchSnapshotResponse(error_code=Code.INVALID_REQUEST))
        return
    part = asked[0]
    replica = ReplicaKey(NodeId(request.replica_id), part.replica_directory_id)
    position = LogPosition(part.snapshot_id.epoch, part.snapshot_id.end_offset)
    code = raft.snapshot_requested(replica, part.current_leader_epoch, position)
    if code is not Code.NONE:
        _respond(raft, ctx, part, code)
        return

    def read(result: tuple[int, bytes] | Exception) -> None:
        if isinstance(result, FileNotFoundError):
            _respond(raft, ctx, part, Code.SNAPSHOT_NOT_FOUND)
        elif isinstance(result, Exception):
            _respond(raft, ctx, part, Code.KAFKA_STORAGE_ERROR)
        elif not 0 <= part.position < result[0]:
            _respond(raft, ctx, part, Code.POSITION_OUT_OF_RANGE)
        else:
            _respond(raft, ctx, part, Code.NONE, *result)

    size = min(request.max_bytes, MAX_PIECE)
    raft.world.run(read_piece, raft.directory, position, part.position, size, done=read, where="reading")


def _respond(raft: RaftNode, ctx: RequestContext, asked: Asked, code: Code, size: int = 0, piece: bytes = b"") -> None:
    leader = raft.leader_id
    answer = PartitionSnapshot(
        index=0,
        error_code=code,
        snapshot_id=SnapshotId(end_offset=asked.snapshot_id.end_offset, epoch=asked.snapshot_id.epoch),
        current_leader=LeaderIdAndEpoch(leader_id=-1 if leader is None else leader, leader_epoch=raft.epoch),
        size=size,
        position=asked.position,
        unaligned_records=piece,
    )
    nodes = []
    at = None if leader is None else raft.endpoint_of(leader, ctx.listener)
    if leader is not None and at is not None and ctx.version >= 1:
        nodes.append(NodeEndpoint(node_id=leader, host=at.host, port=at.port))
    topics = [TopicSnapshot(name=METADATA_TOPIC, partitions=[answer])]
    ctx.respond(FetchSnapshotResponse(throttle_time_ms=ctx.throttle_ms, topics=topics, node_endpoints=nodes))
