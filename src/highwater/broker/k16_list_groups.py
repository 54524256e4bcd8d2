"""ListGroups (16): the groups that this broker coordinates. v4 by state (KIP-518), v5 by type (KIP-848)."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.groups import GroupFilter
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.net.turns import Work
from highwater.wire.messages.list_groups_request import ListGroupsRequest
from highwater.wire.messages.list_groups_response import ListGroupsResponse

API = Api(16, (0, 5), ListGroupsRequest)


def handle(broker: Broker, ctx: RequestContext, request: ListGroupsRequest) -> Work:
    response = ListGroupsResponse(throttle_time_ms=ctx.throttle_ms)
    shards, wanted = broker.groups.shards, GroupFilter(request.states_filter, request.types_filter)
    sees_all = ctx.authorize("Describe", "Cluster", "kafka-cluster")
    for tenure in list(shards.active):
        for group in tenure.machine.list_groups(wanted):
            if sees_all or ctx.authorize("Describe", "Group", group.group_id):
                response.groups.append(ctx.written(group))
            yield None
    if shards.is_loading:
        # A client would take an incomplete list for the whole one.
        response.groups, response.error_code = [], Code.COORDINATOR_LOAD_IN_PROGRESS
    ctx.respond(response)
