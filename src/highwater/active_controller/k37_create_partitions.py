"""CreatePartitions (37): give topics more partitions."""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.controller.partitions import create_partitions
from highwater.errors import Code, KafkaError
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.wire.messages.create_partitions_request import CreatePartitionsRequest
from highwater.wire.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult


def _refused(request: CreatePartitionsRequest, code: Code, version: int) -> CreatePartitionsResponse:
    return _refused_by(request, KafkaError(code))


def _refused_by(request: CreatePartitionsRequest, why: KafkaError) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=why.code, error_message=why.message)
            for topic in request.topics
        ]
    )


API = Api(37, (0, 3), CreatePartitionsRequest, most_elements=MANY_ELEMENTS, forwarded=True, refuse=_refused)


def handle(controller: ActiveController, ctx: RequestContext, request: CreatePartitionsRequest) -> None:
    def answer(response: CreatePartitionsResponse | None) -> None:
        controller.respond(ctx, response, lambda why: _refused_by(request, why))

    controller.deliberate(
        lambda: create_partitions(controller.head, request, controller.random, ctx.authorize),
        answer,
    )
