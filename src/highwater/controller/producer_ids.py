"""Allocates blocks of producer ids to brokers."""

from __future__ import annotations

from typing import Final

from highwater.controller.brokers import current_registration
from highwater.controller.decision import Decision
from highwater.errors import Code, KafkaError
from highwater.metadata.cluster import MetadataImage
from highwater.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from highwater.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from highwater.wire.messages.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE: Final = 1000
_MAX_ID: Final = 2**63 - 1


def allocate_producer_ids(
    head: MetadataImage, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    first = max(head.producer_ids.next_id, 0)
    try:
        current_registration(head, request.broker_id, request.broker_epoch)
        if first > _MAX_ID - BLOCK_SIZE:
            raise KafkaError(Code.UNKNOWN_SERVER_ERROR, "all producer ids are given out")
    except KafkaError as error:
        return Decision(AllocateProducerIdsResponse(error_code=error.code), refusal=error)
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    return Decision(AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE), [record])
