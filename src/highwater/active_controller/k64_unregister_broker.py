"""UnregisterBroker (64): a broker is removed for good."""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.controller.unregister import unregister_broker
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from highwater.wire.messages.unregister_broker_response import UnregisterBrokerResponse


def _refused(request: UnregisterBrokerRequest, code: Code, version: int) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=code, error_message=code.description)


API = Api(64, (0, 0), UnregisterBrokerRequest, forwarded=True, refuse=_refused)


def handle(controller: ActiveController, ctx: RequestContext, request: UnregisterBrokerRequest) -> None:
    def answer(response: UnregisterBrokerResponse | None) -> None:
        controller.respond(
            ctx, response, lambda why: UnregisterBrokerResponse(error_code=why.code, error_message=why.message)
        )

    if not ctx.authorize("Alter", "Cluster", "kafka-cluster"):
        ctx.respond(_refused(request, Code.CLUSTER_AUTHORIZATION_FAILED, ctx.version))
        return
    controller.decide(lambda: unregister_broker(controller.head, request, controller.config), answer)
