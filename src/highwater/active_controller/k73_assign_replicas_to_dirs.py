"""AssignReplicasToDirs (73): a broker reports which directories hold its replicas (KIP-858)."""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.controller.directories import assign_replicas_to_dirs
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import MOST_ELEMENTS, Api
from highwater.wire.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from highwater.wire.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse

API = Api(73, (0, 0), AssignReplicasToDirsRequest, most_elements=MOST_ELEMENTS)


def handle(controller: ActiveController, ctx: RequestContext, request: AssignReplicasToDirsRequest) -> None:
    def answer(response: AssignReplicasToDirsResponse | None) -> None:
        ctx.respond(response or AssignReplicasToDirsResponse(error_code=Code.NOT_CONTROLLER))

    if not ctx.authorize("ClusterAction", "Cluster", "kafka-cluster"):
        ctx.respond(AssignReplicasToDirsResponse(error_code=Code.CLUSTER_AUTHORIZATION_FAILED))
        return
    controller.decide(lambda: assign_replicas_to_dirs(controller.head, request, controller.config), answer)
