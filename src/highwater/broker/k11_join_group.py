"""JoinGroup (11): a client becomes a member. Answered when all members have joined.

v1 a rebalance timeout, v4 a client gets its member id before it joins (KIP-394), v5 static members, v7 the protocol
type, v8 a reason, v9 a leader may have to keep the assignment.
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
"""The most bytes of one member's protocols. The coordinator keeps them, and writes those of all members into one record
of the group, which must not become too large."""


def handle(broker: Broker, ctx: RequestContext, request: JoinGroupRequest) -> None:
    def refused(code: Code) -> JoinGroupResponse:
        return refused_join(code, request.member_id)

    if sum(len(protocol.metadata) for protocol in request.protocols) > MOST_METADATA:
        ctx.respond(refused(Code.INVALID_REQUEST))
        return
    broker.groups.ask_as_member(
        ctx, request.group_id, lambda shard, caller, now: shard.join(request, caller, now), refused
    )
