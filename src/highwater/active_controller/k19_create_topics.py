"""CreateTopics (19): create topics."""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.active_controller.pieces import decide_in_pieces
from highwater.controller.topics import create_topics, in_pieces
from highwater.errors import Code, KafkaError
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.wire.messages.create_topics_request import CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse


def _refused(request: CreateTopicsRequest, code: Code, version: int) -> CreateTopicsResponse:
    return _refused_by(request, KafkaError(code))


def _refused_by(request: CreateTopicsRequest, why: KafkaError) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=why.code, error_message=why.message)
            for topic in request.topics
        ]
    )


API = Api(19, (2, 7), CreateTopicsRequest, most_elements=MANY_ELEMENTS, forwarded=True, refuse=_refused)


def handle(controller: ActiveController, ctx: RequestContext, request: CreateTopicsRequest) -> Work:
    if not controller.is_active:
        controller.respond(ctx, None, lambda why: _refused_by(request, why))
        return
    yield from decide_in_pieces(
        controller.deliberate,
        ctx,
        in_pieces(request, controller.config),
        lambda piece: create_topics(controller.head, piece, controller.config, controller.random, ctx.authorize),
        lambda piece: _refused_by(piece, controller.refusal),
        lambda: controller.sends_elsewhere(ctx),
        CreateTopicsResponse(throttle_time_ms=ctx.throttle_ms),
        lambda response: response.topics,
    )
