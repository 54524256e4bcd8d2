"""Removes a broker from the cluster's metadata."""

from __future__ import annotations

from highwater.client.answers import check
from highwater.client.client import Client
from highwater.model import NodeId
from highwater.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from highwater.wire.messages.unregister_broker_response import UnregisterBrokerResponse


def unregister_broker(client: Client, broker: NodeId) -> None:
    """A broker that still runs registers again. Raises KafkaError."""

    def attempt() -> None:
        response = client.ask(UnregisterBrokerRequest(broker_id=broker), UnregisterBrokerResponse)
        check(response.error_code, response.error_message)

    client.retrying(attempt)
