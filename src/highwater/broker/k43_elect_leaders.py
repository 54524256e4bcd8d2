"""ElectLeaders (43): give partitions their preferred leader, or any leader at all. Decided by the active controller."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.broker.forwarding import Asked, as_it_came, forward
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.wire import refusals
from highwater.wire.codec import Message
from highwater.wire.messages.elect_leaders_request import ElectLeadersRequest

API = Api(43, (0, 2), ElectLeadersRequest, most_elements=MANY_ELEMENTS, decode=as_it_came(ElectLeadersRequest))


def handle(broker: Broker, ctx: RequestContext, asked: Asked[ElectLeadersRequest]) -> None:
    def failed(code: Code, body: memoryview) -> Message:
        return refusals.elect_leaders(ElectLeadersRequest.decode(body, ctx.version), code, ctx.version)

    forward(broker, ctx, asked.body, failed)
