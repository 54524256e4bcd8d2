"""An index of the partitions of each broker, and of partitions without their preferred leader. So the cost of an event
at one broker depends on the partitions of that broker, and not on those of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from highwater.metadata.draft import Draft
from highwater.metadata.partitions import PartitionImage
from highwater.model import NodeId, Uuid

Key = tuple[Uuid, int]
"""(topic id, partition)"""
Keys = Mapping[Key, None]
"""A set that keeps its order."""

NO_KEYS: Keys = {}


@dataclass(frozen=True, slots=True)
class Hosting:
    by_broker: Mapping[NodeId, Keys] = field(default_factory=dict)
    """The partitions of each broker that has a replica."""
    astray: Keys = field(default_factory=dict)
    """Partitions without a leader, or with a leader that is not the preferred replica."""

    def of(self, broker: NodeId) -> Keys:
        return self.by_broker.get(broker, NO_KEYS)


class HostingDraft:
    __slots__ = ("_astray", "_base", "_by_broker", "_keys")

    def __init__(self, base: Hosting) -> None:
        self._base = base
        self._by_broker = Draft(base.by_broker)
        self._keys: dict[NodeId, Draft[Key, None]] = {}
        self._astray = Draft(base.astray)

    def change(self, key: Key, before: PartitionImage | None, after: PartitionImage | None) -> None:
        """`before` is None for a new partition, and `after` is None for a deleted one."""
        had = () if before is None else before.replicas
        has = () if after is None else after.replicas
        if had != has:
            for broker in had:
                if broker not in has:
                    self._of(broker).remove(key)
            for broker in has:
                if broker not in had:
                    self._of(broker).put(key, None)
        was_astray = before is not None and not before.has_preferred_leader
        is_astray = after is not None and not after.has_preferred_leader
        if was_astray and not is_astray:
            self._astray.remove(key)
        elif is_astray and not was_astray:
            self._astray.put(key, None)

    def finish(self) -> Hosting:
        for broker, draft in self._keys.items():
            keys = draft.finish()
            if not keys:
                self._by_broker.remove(broker)
            elif keys is not self._by_broker.get(broker):
                self._by_broker.put(broker, keys)
        by_broker, astray = self._by_broker.finish(), self._astray.finish()
        if by_broker is self._base.by_broker and astray is self._base.astray:
            return self._base
        return Hosting(by_broker, astray)

    def _of(self, broker: NodeId) -> Draft[Key, None]:
        draft = self._keys.get(broker)
        if draft is None:
            draft = self._keys[broker] = Draft(self._by_broker.get(broker) or NO_KEYS)
        return draft
