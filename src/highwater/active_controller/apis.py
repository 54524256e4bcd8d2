"""What the controller listener answers."""

from __future__ import annotations

from functools import partial
from types import ModuleType

from highwater.active_controller import (
    k19_create_topics,
    k20_delete_topics,
    k37_create_partitions,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k56_alter_partition,
    k58_envelope,
    k62_broker_registration,
    k63_broker_heartbeat,
    k64_unregister_broker,
    k67_allocate_producer_ids,
    k70_controller_registration,
    k73_assign_replicas_to_dirs,
)
from highwater.active_controller.active_controller import ActiveController
from highwater.net.context import RequestContext
from highwater.net.registry import Registry, Role
from highwater.net.turns import Work
from highwater.raft_node import apis as quorum
from highwater.raft_node.raft_node import RaftNode
from highwater.wire.messages.envelope_request import EnvelopeRequest

DECIDING: tuple[ModuleType, ...] = (
    k19_create_topics,
    k20_delete_topics,
    k37_create_partitions,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k56_alter_partition,
    k62_broker_registration,
    k63_broker_heartbeat,
    k64_unregister_broker,
    k67_allocate_producer_ids,
    k70_controller_registration,
    k73_assign_replicas_to_dirs,
)
"""What the active controller decides."""
HANDLERS = (*quorum.HANDLERS, *DECIDING)


def controller_registry(raft: RaftNode, controller: ActiveController) -> Registry:
    registry = Registry(Role.CONTROLLER)
    for module in quorum.HANDLERS:
        registry.add(module.API, partial(module.handle, raft))
    for module in DECIDING:
        registry.add(module.API, partial(module.handle, controller))

    def envelope(ctx: RequestContext, request: EnvelopeRequest) -> Work | None:
        return k58_envelope.handle(controller, registry, ctx, request)

    registry.add(k58_envelope.API, envelope)
    return registry
