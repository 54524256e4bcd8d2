"""DeleteTopics (20): delete topics by name or, from v6 on, by id."""

from __future__ import annotations

from highwater.controller.deletion import delete_topics
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.raft_node.active import ActiveController
from highwater.wire import refusals
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest
from highwater.wire.messages.delete_topics_response import DeleteTopicsResponse

API = Api(20, (1, 6), DeleteTopicsRequest, most_elements=MANY_ELEMENTS)


def handle(controller: ActiveController, ctx: RequestContext, request: DeleteTopicsRequest) -> None:
    def answer(response: DeleteTopicsResponse | None) -> None:
        ctx.respond(response or refusals.delete_topics(request, Code.NOT_CONTROLLER))

    controller.decide(
        lambda: delete_topics(controller.head, request, ctx.version, controller.config, ctx.authorize),
        answer,
    )
