"""DescribeGroups (15): the state and the members of groups. v3 authorized operations, v6 an error for an unknown
group."""

from __future__ import annotations

from highwater.broker import operations
from highwater.broker.broker import Broker
from highwater.errors import Code, KafkaError
from highwater.net.context import RequestContext
from highwater.net.registry import MOST_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.wire.messages.describe_groups_request import DescribeGroupsRequest
from highwater.wire.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse


def _refused(request: DescribeGroupsRequest, code: Code, version: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=each, error_code=code) for each in request.groups])


API = Api(15, (0, 6), DescribeGroupsRequest, most_elements=MOST_ELEMENTS, refuse=_refused)


def handle(broker: Broker, ctx: RequestContext, request: DescribeGroupsRequest) -> Work:
    groups = []
    for group_id in dict.fromkeys(request.groups):  # a group that is named twice is in the response once
        group = _described(broker, ctx, group_id)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = operations.on_group(ctx, group.group_id)
        groups.append(ctx.written(group))
        yield None
    ctx.respond(DescribeGroupsResponse(throttle_time_ms=ctx.throttle_ms, groups=groups))


def _described(broker: Broker, ctx: RequestContext, group_id: str) -> DescribedGroup:
    if not ctx.authorize("Describe", "Group", group_id):
        return DescribedGroup(group_id=group_id, error_code=Code.GROUP_AUTHORIZATION_FAILED)
    try:
        return broker.groups.tenure_of(group_id).machine.describe(group_id, ctx.version)
    except KafkaError as refused:
        return DescribedGroup(group_id=group_id, error_code=refused.code)
