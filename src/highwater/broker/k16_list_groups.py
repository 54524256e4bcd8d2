"""ListGroups (16): the groups that this broker coordinates. v4 by state (KIP-518), v5 by type (KIP-848)."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.list_groups_request import ListGroupsRequest
from highwater.wire.messages.list_groups_response import ListGroupsResponse

API = Api(16, (0, 5), ListGroupsRequest)


def handle(broker: Broker, ctx: RequestContext, request: ListGroupsRequest) -> None:
    response = ListGroupsResponse(throttle_time_ms=ctx.throttle_ms)
    if broker.groups.shards.is_loading:
        response.error_code = Code.COORDINATOR_LOAD_IN_PROGRESS  # a list with gaps would be taken for the whole
    else:
        sees_all = ctx.authorize("Describe", "Cluster", "kafka-cluster")
        response.groups = [
            group
            for tenure in broker.groups.shards.active
            for group in tenure.machine.list_groups(request.states_filter, request.types_filter)
            if sees_all or ctx.authorize("Describe", "Group", group.group_id)
        ]
    ctx.respond(response)
