"""CreateTopics (19): create topics."""

from __future__ import annotations

from highwater.controller.topics import create_topics
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.raft_node.active import ActiveController
from highwater.wire import refusals
from highwater.wire.messages.create_topics_request import CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse

API = Api(19, (2, 7), CreateTopicsRequest)


def handle(controller: ActiveController, ctx: RequestContext, request: CreateTopicsRequest) -> None:
    def answer(response: CreateTopicsResponse | None) -> None:
        ctx.respond(response or refusals.create_topics(request, Code.NOT_CONTROLLER))

    controller.decide(
        lambda: create_topics(controller.head, request, controller.config, controller.random, ctx.authorize),
        answer,
    )
