"""DeleteTopics (20): delete topics by name or, from v6 on, by id. Decided by the active controller."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.broker.forwarding import Asked, as_it_came, forward
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.wire import refusals
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest

API = Api(20, (1, 6), DeleteTopicsRequest, most_elements=MANY_ELEMENTS, decode=as_it_came(DeleteTopicsRequest))


def handle(broker: Broker, ctx: RequestContext, asked: Asked[DeleteTopicsRequest]) -> None:
    forward(broker, ctx, asked.body, lambda code: refusals.delete_topics(asked.request, code))
