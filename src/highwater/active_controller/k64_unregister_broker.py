"""UnregisterBroker (64): a broker is gone for good."""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.controller.unregister import unregister_broker
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire import refusals
from highwater.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from highwater.wire.messages.unregister_broker_response import UnregisterBrokerResponse

API = Api(64, (0, 0), UnregisterBrokerRequest)


def handle(controller: ActiveController, ctx: RequestContext, request: UnregisterBrokerRequest) -> None:
    def answer(response: UnregisterBrokerResponse | None) -> None:
        ctx.respond(response or refusals.unregister_broker(Code.NOT_CONTROLLER))

    if not ctx.authorize("Alter", "Cluster", "kafka-cluster"):
        ctx.respond(refusals.unregister_broker(Code.CLUSTER_AUTHORIZATION_FAILED))
        return
    controller.decide(lambda: unregister_broker(controller.head, request, controller.config), answer)
