"""CreateTopics (19): create topics."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.controller.topics import create_topics, in_pieces
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.raft_node.active import ActiveController
from highwater.wire import refusals
from highwater.wire.messages.create_topics_request import CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse

API = Api(19, (2, 7), CreateTopicsRequest, most_elements=MANY_ELEMENTS)


def handle(controller: ActiveController, ctx: RequestContext, request: CreateTopicsRequest) -> Work:
    if not controller.is_active:
        ctx.respond(refusals.create_topics(request, Code.NOT_CONTROLLER))
        return
    pieces = in_pieces(request, controller.config)
    decided: dict[int, CreateTopicsResponse] = {}

    def decide(at: int, piece: CreateTopicsRequest) -> None:
        def answer(response: CreateTopicsResponse | None) -> None:
            decided[at] = response or refusals.create_topics(piece, Code.NOT_CONTROLLER)
            if len(decided) == len(pieces):
                ctx.carry_out(_respond(ctx, [decided[each] for each in range(len(pieces))]))

        controller.decide(
            lambda: create_topics(controller.head, piece, controller.config, controller.random, ctx.authorize), answer
        )

    for at, piece in enumerate(pieces):
        decide(at, piece)
        yield None


def _respond(ctx: RequestContext, decided: Sequence[CreateTopicsResponse]) -> Work:
    response = CreateTopicsResponse(throttle_time_ms=ctx.throttle_ms)
    for piece in decided:
        for row in piece.topics:
            response.topics.append(ctx.written(row))
            yield None
    ctx.respond(response)
