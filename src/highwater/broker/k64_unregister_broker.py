"""UnregisterBroker (64): a broker is gone for good. Decided by the active controller."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.broker.forwarding import Asked, as_it_came, forward
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire import refusals
from highwater.wire.messages.unregister_broker_request import UnregisterBrokerRequest

API = Api(64, (0, 0), UnregisterBrokerRequest, decode=as_it_came(UnregisterBrokerRequest))


def handle(broker: Broker, ctx: RequestContext, asked: Asked[UnregisterBrokerRequest]) -> None:
    forward(broker, ctx, asked.body, lambda code, _: refusals.unregister_broker(code))
