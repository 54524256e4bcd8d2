"""IncrementalAlterConfigs (44): change settings of topics and brokers."""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.active_controller.refused_resources import refused_rows
from highwater.controller.configs import incremental_alter_configs
from highwater.errors import Code, KafkaError
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from highwater.wire.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)


def _refused(request: IncrementalAlterConfigsRequest, code: Code, version: int) -> IncrementalAlterConfigsResponse:
    return _refused_by(request, KafkaError(code))


def _refused_by(request: IncrementalAlterConfigsRequest, why: KafkaError) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=refused_rows(request.resources, AlterConfigsResourceResponse, why))


API = Api(44, (0, 1), IncrementalAlterConfigsRequest, forwarded=True, refuse=_refused)


def handle(controller: ActiveController, ctx: RequestContext, request: IncrementalAlterConfigsRequest) -> None:
    def answer(response: IncrementalAlterConfigsResponse | None) -> None:
        controller.respond(ctx, response, lambda why: _refused_by(request, why))

    controller.deliberate(
        lambda: incremental_alter_configs(controller.head, request, controller.config, ctx.authorize),
        answer,
    )
