"""DeleteTopics (20): delete topics by name or, from v6 on, by id. Decided by the active controller."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.broker.forwarding import Asked, as_it_came, forward
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.wire import refusals
from highwater.wire.codec import Message
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest

API = Api(20, (1, 6), DeleteTopicsRequest, most_elements=MANY_ELEMENTS, decode=as_it_came(DeleteTopicsRequest))


def handle(broker: Broker, ctx: RequestContext, asked: Asked[DeleteTopicsRequest]) -> None:
    def failed(code: Code, body: memoryview) -> Message:
        return refusals.delete_topics(DeleteTopicsRequest.decode(body, ctx.version), code)

    forward(broker, ctx, asked.body, failed)
