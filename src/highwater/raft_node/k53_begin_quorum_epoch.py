"""BeginQuorumEpoch (53): a new leader announces itself."""

from __future__ import annotations

from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.quorum import Caller
from highwater.raft_node.raft_node import RaftNode
from highwater.wire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from highwater.wire.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse

API = Api(53, (0, 1), BeginQuorumEpochRequest)


def handle(raft: RaftNode, ctx: RequestContext, request: BeginQuorumEpochRequest) -> None:
    if not ctx.authorize("ClusterAction", "Cluster", "kafka-cluster"):
        ctx.respond(BeginQuorumEpochResponse(error_code=Code.CLUSTER_AUTHORIZATION_FAILED))
        return
    raft.requested(request, Caller(ctx.version, ctx.listener), ctx.respond, ctx.slot.close_connection)
