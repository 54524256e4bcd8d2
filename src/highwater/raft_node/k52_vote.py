"""Vote (52): a replica asks for a vote, or, in v2, for a pre-vote (KIP-996)."""

from __future__ import annotations

from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.quorum import Caller
from highwater.raft_node.raft_node import RaftNode
from highwater.wire.messages.vote_request import VoteRequest
from highwater.wire.messages.vote_response import VoteResponse

API = Api(52, (0, 2), VoteRequest)


def handle(raft: RaftNode, ctx: RequestContext, request: VoteRequest) -> None:
    if not ctx.authorize("ClusterAction", "Cluster", "kafka-cluster"):
        ctx.respond(VoteResponse(error_code=Code.CLUSTER_AUTHORIZATION_FAILED))
        return
    raft.requested(request, Caller(ctx.version, ctx.listener), ctx.respond, ctx.slot.close_connection)
