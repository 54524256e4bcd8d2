"""AllocateProducerIds (67): a block of producer ids for one broker to hand out (KIP-730)."""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.controller.producer_ids import allocate_producer_ids
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from highwater.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

API = Api(67, (0, 0), AllocateProducerIdsRequest)


def handle(controller: ActiveController, ctx: RequestContext, request: AllocateProducerIdsRequest) -> None:
    def answer(response: AllocateProducerIdsResponse | None) -> None:
        ctx.respond(response or AllocateProducerIdsResponse(error_code=Code.NOT_CONTROLLER))

    if not ctx.authorize("ClusterAction", "Cluster", "kafka-cluster"):
        ctx.respond(AllocateProducerIdsResponse(error_code=Code.CLUSTER_AUTHORIZATION_FAILED))
        return
    controller.decide(lambda: allocate_producer_ids(controller.head, request), answer)
