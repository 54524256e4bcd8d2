"""DeleteGroups (42): deletes groups without members, together with their offsets."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.broker.broker import Broker
from highwater.broker.gathering import Gathering
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.wire.messages.delete_groups_request import DeleteGroupsRequest
from highwater.wire.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse


def _refused(group_ids: Sequence[str], code: Code) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=each, error_code=code) for each in group_ids])


API = Api(
    42,
    (0, 2),
    DeleteGroupsRequest,
    most_elements=MANY_ELEMENTS,
    refuse=lambda request, code, version: _refused(request.groups_names, code),
)


def handle(broker: Broker, ctx: RequestContext, request: DeleteGroupsRequest) -> Work:
    refused: list[DeletableGroupResult] = []
    shards: dict[int, list[str]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        if ctx.authorize("Delete", "Group", group_id):
            shards.setdefault(broker.groups.index_of(group_id), []).append(group_id)
        else:
            refused.append(DeletableGroupResult(group_id=group_id, error_code=Code.GROUP_AUTHORIZATION_FAILED))
        yield None

    def respond(answers: list[DeleteGroupsResponse]) -> None:
        results = [result for answer in answers for result in answer.results]
        ctx.respond(DeleteGroupsResponse(throttle_time_ms=ctx.throttle_ms, results=[*results, *refused]))

    gathering = Gathering(len(shards), respond)
    for place, group_ids in enumerate(shards.values()):
        _delete(broker, ctx, group_ids, gathering, place)


def _delete(
    broker: Broker, ctx: RequestContext, group_ids: list[str], gathering: Gathering[DeleteGroupsResponse], place: int
) -> None:
    broker.groups.ask(
        ctx,
        group_ids[0],
        lambda shard, caller, now: shard.delete_groups(group_ids, caller, now),
        lambda code: _refused(group_ids, code),
        gathering.place(place),
    )
