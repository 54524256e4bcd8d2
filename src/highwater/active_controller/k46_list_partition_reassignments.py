"""ListPartitionReassignments (46): the moves of partitions that are under way (KIP-455)."""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.controller.partition_moves import list_partition_reassignments
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.wire.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from highwater.wire.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse


def _refused(
    request: ListPartitionReassignmentsRequest, code: Code, version: int
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=code, error_message=code.description)


API = Api(
    46,
    (0, 0),
    ListPartitionReassignmentsRequest,
    most_elements=MANY_ELEMENTS,
    forwarded=True,
    refuse=_refused,
)


def handle(controller: ActiveController, ctx: RequestContext, request: ListPartitionReassignmentsRequest) -> None:
    def answer(response: ListPartitionReassignmentsResponse | None) -> None:
        controller.respond(ctx, response, lambda why: _refused(request, why.code, ctx.version))

    if not ctx.authorize("Describe", "Cluster", "kafka-cluster"):
        ctx.respond(_refused(request, Code.CLUSTER_AUTHORIZATION_FAILED, ctx.version))
        return
    controller.deliberate(lambda: list_partition_reassignments(controller.head, request), answer)
