"""AlterPartition (56): a leader proposes another ISR (KIP-497)."""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.controller.alter_partition import alter_partition
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import MOST_ELEMENTS, Api
from highwater.wire.messages.alter_partition_request import AlterPartitionRequest
from highwater.wire.messages.alter_partition_response import AlterPartitionResponse

API = Api(56, (2, 3), AlterPartitionRequest, most_elements=MOST_ELEMENTS)


def handle(controller: ActiveController, ctx: RequestContext, request: AlterPartitionRequest) -> None:
    def answer(response: AlterPartitionResponse | None) -> None:
        ctx.respond(response or AlterPartitionResponse(error_code=Code.NOT_CONTROLLER))

    if not ctx.authorize("ClusterAction", "Cluster", "kafka-cluster"):
        ctx.respond(AlterPartitionResponse(error_code=Code.CLUSTER_AUTHORIZATION_FAILED))
        return
    controller.decide(
        lambda: alter_partition(controller.head, request, ctx.version, controller.config, controller.watch.leaving),
        answer,
    )
