"""CreateTopics (19): create topics. Decided by the active controller."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.broker.forwarding import Asked, as_it_came, forward
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.wire import refusals
from highwater.wire.codec import Message
from highwater.wire.messages.create_topics_request import CreateTopicsRequest

API = Api(19, (2, 7), CreateTopicsRequest, most_elements=MANY_ELEMENTS, decode=as_it_came(CreateTopicsRequest))


def handle(broker: Broker, ctx: RequestContext, asked: Asked[CreateTopicsRequest]) -> None:
    def failed(code: Code, body: memoryview) -> Message:
        return refusals.create_topics(CreateTopicsRequest.decode(body, ctx.version), code)

    forward(broker, ctx, asked.body, failed)
