"""LeaveGroup (13): members leave. v3 several at once, static ones by their instance id (KIP-345), v5 a reason."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.leave_group_request import LeaveGroupRequest
from highwater.wire.messages.leave_group_response import LeaveGroupResponse

API = Api(13, (0, 5), LeaveGroupRequest)


def handle(broker: Broker, ctx: RequestContext, request: LeaveGroupRequest) -> None:
    def refused(code: Code) -> LeaveGroupResponse:
        return LeaveGroupResponse(error_code=code)

    broker.groups.ask_as_member(
        ctx, request.group_id, lambda shard, caller, now: shard.leave(request, caller, now), refused
    )
