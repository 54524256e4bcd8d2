"""BrokerHeartbeat (63): a broker is alive; it may be unfenced, fenced or allowed to shut down."""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.controller.brokers import HeartbeatDecision, heartbeat
from highwater.errors import Code
from highwater.model import NodeId
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from highwater.wire.messages.broker_heartbeat_response import BrokerHeartbeatResponse

API = Api(63, (0, 2), BrokerHeartbeatRequest)


def handle(controller: ActiveController, ctx: RequestContext, request: BrokerHeartbeatRequest) -> None:
    is_answered = False

    def answer(response: BrokerHeartbeatResponse | None) -> None:
        nonlocal is_answered
        is_answered = True
        controller.watch.answered(broker, epoch, request)
        ctx.respond(response or BrokerHeartbeatResponse(error_code=Code.NOT_CONTROLLER))

    if not ctx.authorize("ClusterAction", "Cluster", "kafka-cluster"):
        ctx.respond(BrokerHeartbeatResponse(error_code=Code.CLUSTER_AUTHORIZATION_FAILED))
        return
    broker, epoch = NodeId(request.broker_id), request.broker_epoch

    def decide() -> HeartbeatDecision:
        return heartbeat(controller.head, request, controller.config, controller.watch.liveness)

    def written(decided: HeartbeatDecision) -> None:
        if decided.state is not None:
            controller.watch.entered(broker, epoch, decided.state)

    controller.watch.heard(ctx.connection, broker, epoch, request.current_metadata_offset)
    controller.decide(decide, answer, written)
    if not is_answered:
        controller.watch.waits(broker, epoch, request)
