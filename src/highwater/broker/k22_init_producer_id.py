"""InitProducerId (22): a producer id for an idempotent producer. Transactions are refused, as they are not
supported."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.broker.k10_find_coordinator import NO_TRANSACTIONS
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.init_producer_id_request import InitProducerIdRequest
from highwater.wire.messages.init_producer_id_response import InitProducerIdResponse

API = Api(22, (0, 5), InitProducerIdRequest)


def handle(broker: Broker, ctx: RequestContext, request: InitProducerIdRequest) -> None:
    def refuse(code: Code) -> None:
        ctx.respond(InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1))

    if request.transactional_id is not None:
        refuse(Code.INVALID_REQUEST if request.transactional_id == "" else NO_TRANSACTIONS)
        return
    if not ctx.authorize("IdempotentWrite", "Cluster", "kafka-cluster"):
        refuse(Code.CLUSTER_AUTHORIZATION_FAILED)
        return

    producer_id = broker.producer_ids.take()
    if producer_id is None:
        refuse(Code.COORDINATOR_LOAD_IN_PROGRESS)  # not a timeout: old clients would give up
    else:
        ctx.respond(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))
