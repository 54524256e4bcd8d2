"""SyncGroup (14): the leader of a generation sends the assignment, and each member gets its part.

v3 static members, v5 the protocol that the member expects, which is required (KIP-559).
"""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_BYTES, Api
from highwater.wire.messages.sync_group_request import SyncGroupRequest
from highwater.wire.messages.sync_group_response import SyncGroupResponse

API = Api(14, (0, 5), SyncGroupRequest, most_bytes=MANY_BYTES)
_PROTOCOL_FROM = 5


def handle(broker: Broker, ctx: RequestContext, request: SyncGroupRequest) -> None:
    def refused(code: Code) -> SyncGroupResponse:
        return SyncGroupResponse(error_code=code)

    if ctx.version >= _PROTOCOL_FROM and (request.protocol_type is None or request.protocol_name is None):
        ctx.respond(refused(Code.INCONSISTENT_GROUP_PROTOCOL))
    else:
        broker.groups.ask_as_member(
            ctx, request.group_id, lambda shard, caller, now: shard.sync(request, caller, now), refused
        )
