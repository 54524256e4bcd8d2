"""Removing a broker for good (UnregisterBroker, KIP-631)."""

from __future__ import annotations

from highwater.config import NodeConfig
from highwater.controller.brokers import forget_incarnation
from highwater.controller.decision import Decision
from highwater.errors import Code
from highwater.metadata.cluster import MetadataImage
from highwater.wire.messages.unregister_broker_record import UnregisterBrokerRecord
from highwater.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from highwater.wire.messages.unregister_broker_response import UnregisterBrokerResponse


def unregister_broker(
    head: MetadataImage, request: UnregisterBrokerRequest, config: NodeConfig
) -> Decision[UnregisterBrokerResponse]:
    """The broker leaves every ISR and ELR, because its disks are unknown from now on."""
    registration = head.brokers.get(request.broker_id)
    if registration is None:
        message = f"Broker ID {request.broker_id} is not currently registered"
        return Decision(UnregisterBrokerResponse(error_code=Code.BROKER_ID_NOT_REGISTERED, error_message=message))
    records = forget_incarnation(head, config, registration.id, clean=False)
    gone = UnregisterBrokerRecord(broker_id=registration.id, broker_epoch=registration.epoch)
    return Decision(UnregisterBrokerResponse(error_message=None), [*records, gone], why="a client asked for it")
