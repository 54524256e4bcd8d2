"""Heartbeat (12): a member is alive, and learns whether its group rebalances. v3 static members."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.heartbeat_request import HeartbeatRequest
from highwater.wire.messages.heartbeat_response import HeartbeatResponse

API = Api(12, (0, 4), HeartbeatRequest)


def handle(broker: Broker, ctx: RequestContext, request: HeartbeatRequest) -> None:
    def refused(code: Code) -> HeartbeatResponse:
        # While a coordinator loads, members continue. Their sessions begin when it has loaded.
        loading = code is Code.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=Code.NONE if loading else code)

    broker.groups.ask_as_member(
        ctx, request.group_id, lambda shard, caller, now: shard.heartbeat(request, caller, now), refused
    )
