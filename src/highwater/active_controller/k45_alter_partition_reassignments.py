"""AlterPartitionReassignments (45): move partitions to other replicas, or cancel such a move (KIP-455).

v1 the replication factor may be kept from changing (KIP-860).
"""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.controller.partition_moves import alter_partition_reassignments
from highwater.errors import Code, KafkaError
from highwater.net.context import RequestContext
from highwater.net.registry import NUMEROUS_ELEMENTS, Api
from highwater.wire.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from highwater.wire.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def _refused(
    request: AlterPartitionReassignmentsRequest, code: Code, version: int
) -> AlterPartitionReassignmentsResponse:
    return _refused_by(request, KafkaError(code))


def _refused_by(request: AlterPartitionReassignmentsRequest, why: KafkaError) -> AlterPartitionReassignmentsResponse:
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=asked.partition_index, error_code=why.code, error_message=why.message
                )
                for asked in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(error_code=why.code, error_message=why.message, responses=responses)


API = Api(
    45,
    (0, 1),
    AlterPartitionReassignmentsRequest,
    most_elements=NUMEROUS_ELEMENTS,
    forwarded=True,
    refuse=_refused,
)


def handle(controller: ActiveController, ctx: RequestContext, request: AlterPartitionReassignmentsRequest) -> None:
    def answer(response: AlterPartitionReassignmentsResponse | None) -> None:
        controller.respond(ctx, response, lambda why: _refused_by(request, why))

    if not ctx.authorize("Alter", "Cluster", "kafka-cluster"):
        ctx.respond(_refused(request, Code.CLUSTER_AUTHORIZATION_FAILED, ctx.version))
        return
    controller.deliberate(lambda: alter_partition_reassignments(controller.head, request, controller.config), answer)
