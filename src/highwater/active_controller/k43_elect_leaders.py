"""ElectLeaders (43): give partitions their preferred leader, or any leader at all."""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.controller.leaders import elect_leaders, refused
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.wire.messages.elect_leaders_request import ElectLeadersRequest
from highwater.wire.messages.elect_leaders_response import ElectLeadersResponse

API = Api(43, (0, 2), ElectLeadersRequest, most_elements=MANY_ELEMENTS, forwarded=True, refuse=refused)


def handle(controller: ActiveController, ctx: RequestContext, request: ElectLeadersRequest) -> None:
    def answer(response: ElectLeadersResponse | None) -> None:
        if response is not None and ctx.version == 0:
            response.error_code = Code.NONE  # version 0 has no such field; the partitions have their own codes
        controller.respond(ctx, response, lambda why: refused(request, why.code, ctx.version))

    if not ctx.authorize("Alter", "Cluster", "kafka-cluster"):
        ctx.respond(refused(request, Code.CLUSTER_AUTHORIZATION_FAILED, ctx.version))
        return
    controller.deliberate(lambda: elect_leaders(controller.head, request, controller.config), answer)
