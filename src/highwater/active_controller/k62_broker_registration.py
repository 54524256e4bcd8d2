"""BrokerRegistration (62): a broker registers. It stays fenced until it has caught up."""

from __future__ import annotations

from highwater.active_controller.active_controller import ActiveController
from highwater.controller.decision import Decision
from highwater.controller.registration import register_broker
from highwater.errors import Code
from highwater.metadata.brokers import BrokerRegistration
from highwater.model import NodeId
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.quorum import KRAFT_VERSION
from highwater.wire.messages.broker_registration_request import BrokerRegistrationRequest
from highwater.wire.messages.broker_registration_response import BrokerRegistrationResponse

API = Api(62, (0, 4), BrokerRegistrationRequest)


def handle(controller: ActiveController, ctx: RequestContext, request: BrokerRegistrationRequest) -> None:
    in_the_way: BrokerRegistration | None = None

    def outlives(existing: BrokerRegistration) -> bool:
        nonlocal in_the_way
        in_the_way = existing
        return controller.watch.outlives(ctx.connection, request.incarnation_id, existing, ctx.received)

    def answer(response: BrokerRegistrationResponse | None) -> None:
        is_duplicate = response is not None and response.error_code == Code.DUPLICATE_BROKER_REGISTRATION
        if is_duplicate and in_the_way is not None:
            controller.watch.refused(ctx.connection, request.incarnation_id, in_the_way)
        ctx.respond(response or BrokerRegistrationResponse(error_code=controller.refusal.code))

    def written(decided: Decision[BrokerRegistrationResponse]) -> None:
        if decided.records:
            controller.watch.registered(NodeId(request.broker_id), decided.response.broker_epoch)

    if not ctx.authorize("ClusterAction", "Cluster", "kafka-cluster"):
        ctx.respond(BrokerRegistrationResponse(error_code=Code.CLUSTER_AUTHORIZATION_FAILED))
        return
    controller.decide(
        lambda: register_broker(
            controller.head,
            request,
            ctx.version,
            controller.config,
            controller.watch.liveness,
            controller.world.clock.monotonic(),
            controller.log_end,
            KRAFT_VERSION,
            outlives,
        ),
        answer,
        written,
    )
