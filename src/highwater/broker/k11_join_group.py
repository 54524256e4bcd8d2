"""JoinGroup (11): become a member. Answered when the group has gathered.

v1 a rebalance time-out, v4 the id of a member is told before it joins (KIP-394), v5 static members, v7 the protocol's
type, v8 a reason, v9 a leader may be told to leave the assignment as it is.
"""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.groups import refused_join
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.join_group_request import JoinGroupRequest
from highwater.wire.messages.join_group_response import JoinGroupResponse

API = Api(11, (0, 9), JoinGroupRequest)
MOST_METADATA = 1 << 20
"""Bytes of one member's protocols. The coordinator keeps them while it is a member, and writes them into one record of
the group, which would be too large."""


def handle(broker: Broker, ctx: RequestContext, request: JoinGroupRequest) -> None:
    def refused(code: Code) -> JoinGroupResponse:
        return refused_join(code, request.member_id)

    if sum(len(protocol.metadata) for protocol in request.protocols) > MOST_METADATA:
        ctx.respond(refused(Code.INVALID_REQUEST))
        return
    broker.groups.ask_as_member(
        ctx, request.group_id, lambda shard, caller, now: shard.join(request, caller, now), refused
    )
