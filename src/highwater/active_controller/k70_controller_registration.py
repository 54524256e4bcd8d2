"""ControllerRegistration (70): a controller registers its endpoints and features (KIP-919)."""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.controller.registration import register_controller
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.controller_registration_request import ControllerRegistrationRequest
from highwater.wire.messages.controller_registration_response import ControllerRegistrationResponse

API = Api(70, (0, 0), ControllerRegistrationRequest)


def handle(controller: ActiveController, ctx: RequestContext, request: ControllerRegistrationRequest) -> None:
    def refused(code: Code) -> ControllerRegistrationResponse:
        return ControllerRegistrationResponse(error_code=code, error_message=code.description)

    def answer(response: ControllerRegistrationResponse | None) -> None:
        ctx.respond(response or refused(Code.NOT_CONTROLLER))

    if not ctx.authorize("ClusterAction", "Cluster", "kafka-cluster"):
        ctx.respond(refused(Code.CLUSTER_AUTHORIZATION_FAILED))
        return
    controller.decide(lambda: register_controller(request), answer)
