"""DescribeQuorum (55): voters, observers and how far each has come. Only the leader knows."""

from __future__ import annotations

from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.raft_node.active import ActiveController
from highwater.wire.messages.describe_quorum_request import DescribeQuorumRequest

API = Api(55, (0, 2), DescribeQuorumRequest, forwarded=True)


def handle(controller: ActiveController, ctx: RequestContext, request: DescribeQuorumRequest) -> None:
    clock = controller.world.clock
    ctx.respond(controller.raft.quorum.describe(request, ctx.version, clock.monotonic(), clock.wall_ms()))
