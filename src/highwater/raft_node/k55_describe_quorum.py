"""DescribeQuorum (55): voters, observers and their progress. Only the leader knows them."""

from __future__ import annotations

from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.raft_node.raft_node import RaftNode
from highwater.wire.messages.describe_quorum_request import DescribeQuorumRequest

API = Api(55, (0, 2), DescribeQuorumRequest, forwarded=True)


def handle(raft: RaftNode, ctx: RequestContext, request: DescribeQuorumRequest) -> None:
    ctx.respond(raft.describe(request, ctx.version))
