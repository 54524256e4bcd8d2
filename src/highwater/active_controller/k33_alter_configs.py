"""AlterConfigs (33): replace all settings of topics and brokers. Newer clients use IncrementalAlterConfigs."""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.active_controller.refused_resources import refused_rows
from highwater.controller.configs import alter_configs
from highwater.errors import Code, KafkaError
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.alter_configs_request import AlterConfigsRequest
from highwater.wire.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse


def _refused(request: AlterConfigsRequest, code: Code, version: int) -> AlterConfigsResponse:
    return _refused_by(request, KafkaError(code))


def _refused_by(request: AlterConfigsRequest, why: KafkaError) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=refused_rows(request.resources, AlterConfigsResourceResponse, why))


API = Api(33, (0, 2), AlterConfigsRequest, forwarded=True, refuse=_refused)


def handle(controller: ActiveController, ctx: RequestContext, request: AlterConfigsRequest) -> None:
    def answer(response: AlterConfigsResponse | None) -> None:
        controller.respond(ctx, response, lambda why: _refused_by(request, why))

    controller.deliberate(lambda: alter_configs(controller.head, request, controller.config, ctx.authorize), answer)
