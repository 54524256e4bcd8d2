"""DeleteTopics (20): delete topics by name or, from v6 on, by id."""

from __future__ import annotations

from functools import partial

from highwater.active_controller.active_controller import ActiveController
from highwater.active_controller.pieces import decide_in_pieces
from highwater.controller.deletion import delete_topics, in_pieces
from highwater.errors import Code, KafkaError
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest
from highwater.wire.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse


def _refused(request: DeleteTopicsRequest, code: Code, version: int) -> DeleteTopicsResponse:
    return _refused_by(request, KafkaError(code))


def _refused_by(request: DeleteTopicsRequest, why: KafkaError) -> DeleteTopicsResponse:
    named = [
        DeletableTopicResult(name=name, error_code=why.code, error_message=why.message) for name in request.topic_names
    ]
    stated = [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=why.code, error_message=why.message)
        for topic in request.topics
    ]
    return DeleteTopicsResponse(responses=[*named, *stated])


API = Api(20, (1, 6), DeleteTopicsRequest, most_elements=MANY_ELEMENTS, forwarded=True, refuse=_refused)


def handle(controller: ActiveController, ctx: RequestContext, request: DeleteTopicsRequest) -> Work:
    if not controller.is_active:
        controller.respond(ctx, None, lambda why: _refused_by(request, why))
        return
    yield from decide_in_pieces(
        partial(controller.decide, takes_long=True),  # so that it keeps its order with other changes of topics
        ctx,
        in_pieces(controller.head, request),
        lambda piece: delete_topics(controller.head, piece, ctx.version, controller.config, ctx.authorize),
        lambda piece: _refused_by(piece, controller.refusal),
        lambda: controller.sends_elsewhere(ctx),
        DeleteTopicsResponse(throttle_time_ms=ctx.throttle_ms),
        lambda response: response.responses,
    )
