"""What a broker listener answers."""

from __future__ import annotations

from functools import partial
from types import ModuleType

from highwater.broker import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k08_offset_commit,
    k09_offset_fetch,
    k10_find_coordinator,
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k15_describe_groups,
    k16_list_groups,
    k19_create_topics,
    k20_delete_topics,
    k21_delete_records,
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
    k32_describe_configs,
    k37_create_partitions,
    k42_delete_groups,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k47_offset_delete,
    k55_describe_quorum,
    k60_describe_cluster,
    k64_unregister_broker,
    k75_describe_topic_partitions,
)
from highwater.broker.broker import Broker
from highwater.net.registry import Registry, Role

HANDLERS: tuple[ModuleType, ...] = (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k08_offset_commit,
    k09_offset_fetch,
    k10_find_coordinator,
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k15_describe_groups,
    k16_list_groups,
    k19_create_topics,
    k20_delete_topics,
    k21_delete_records,
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
    k32_describe_configs,
    k37_create_partitions,
    k42_delete_groups,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k47_offset_delete,
    k55_describe_quorum,
    k60_describe_cluster,
    k64_unregister_broker,
    k75_describe_topic_partitions,
)


def broker_registry(broker: Broker) -> Registry:
    registry = Registry(Role.BROKER)
    for module in HANDLERS:
        registry.add(module.API, partial(module.handle, broker))
    return registry
