"""EndQuorumEpoch (54): a leader resigns and names its preferred successors."""

from __future__ import annotations

from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.quorum import Caller
from highwater.raft_node.raft_node import RaftNode
from highwater.wire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from highwater.wire.messages.end_quorum_epoch_response import EndQuorumEpochResponse

API = Api(54, (0, 1), EndQuorumEpochRequest)


def handle(raft: RaftNode, ctx: RequestContext, request: EndQuorumEpochRequest) -> None:
    if not ctx.authorize("ClusterAction", "Cluster", "kafka-cluster"):
        ctx.respond(EndQuorumEpochResponse(error_code=Code.CLUSTER_AUTHORIZATION_FAILED))
        return
    raft.requested(request, Caller(ctx.version, ctx.listener), ctx.respond, ctx.slot.close_connection)
