"""What the controller listener answers."""

from __future__ import annotations

from functools import partial
from types import ModuleType

from highwater.net.context import RequestContext
from highwater.net.registry import Registry, Role
from highwater.net.turns import Work
from highwater.raft_node import (
    k01_fetch,
    k19_create_topics,
    k20_delete_topics,
    k37_create_partitions,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k52_vote,
    k53_begin_quorum_epoch,
    k54_end_quorum_epoch,
    k55_describe_quorum,
    k56_alter_partition,
    k58_envelope,
    k59_fetch_snapshot,
    k62_broker_registration,
    k63_broker_heartbeat,
    k64_unregister_broker,
    k67_allocate_producer_ids,
    k70_controller_registration,
    k73_assign_replicas_to_dirs,
)
from highwater.raft_node.active import ActiveController
from highwater.wire.messages.envelope_request import EnvelopeRequest

HANDLERS: tuple[ModuleType, ...] = (
    k01_fetch,
    k19_create_topics,
    k20_delete_topics,
    k37_create_partitions,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k52_vote,
    k53_begin_quorum_epoch,
    k54_end_quorum_epoch,
    k55_describe_quorum,
    k56_alter_partition,
    k59_fetch_snapshot,
    k62_broker_registration,
    k63_broker_heartbeat,
    k64_unregister_broker,
    k67_allocate_producer_ids,
    k70_controller_registration,
    k73_assign_replicas_to_dirs,
)


def controller_registry(controller: ActiveController) -> Registry:
    registry = Registry(Role.CONTROLLER)
    for module in HANDLERS:
        registry.add(module.API, partial(module.handle, controller))

    def envelope(ctx: RequestContext, request: EnvelopeRequest) -> Work | None:
        return k58_envelope.handle(controller, registry, ctx, request)

    registry.add(k58_envelope.API, envelope)
    return registry
