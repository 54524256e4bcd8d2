"""Controller registrations: the endpoints and feature ranges of each controller of the quorum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from highwater.metadata.draft import Draft
from highwater.metadata.registration import RegisteredListener, VersionRange
from highwater.model import NodeId, Uuid
from highwater.wire.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)


class ControllerRegistration(NamedTuple):
    id: NodeId
    incarnation: Uuid
    zk_migration_ready: bool
    listeners: tuple[RegisteredListener, ...]
    features: Mapping[str, VersionRange]

    @classmethod
    def of_record(cls, record: RegisterControllerRecord) -> ControllerRegistration:
        return cls(
            id=NodeId(record.controller_id),
            incarnation=record.incarnation_id,
            zk_migration_ready=record.zk_migration_ready,
            listeners=tuple(RegisteredListener(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features={f.name: VersionRange(f.min_supported_version, f.max_supported_version) for f in record.features},
        )

    def to_record(self) -> RegisterControllerRecord:
        return RegisterControllerRecord(
            controller_id=self.id,
            incarnation_id=self.incarnation,
            zk_migration_ready=self.zk_migration_ready,
            end_points=[
                ControllerEndpoint(name=x.name, host=x.host, port=x.port, security_protocol=x.security_protocol)
                for x in self.listeners
            ],
            features=[
                ControllerFeature(name=name, min_supported_version=r.min, max_supported_version=r.max)
                for name, r in self.features.items()
            ],
        )


@dataclass(frozen=True, slots=True)
class ControllersImage:
    by_id: Mapping[NodeId, ControllerRegistration] = field(default_factory=dict)

    def records(self) -> Iterator[RegisterControllerRecord]:
        for controller in sorted(self.by_id):
            yield self.by_id[controller].to_record()


class ControllersDraft:
    __slots__ = ("_base", "_by_id", "changed")

    def __init__(self, base: ControllersImage) -> None:
        self._base = base
        self._by_id = Draft(base.by_id)
        self.changed: dict[NodeId, None] = {}

    def register(self, record: RegisterControllerRecord) -> None:
        registration = ControllerRegistration.of_record(record)
        self._by_id.put(registration.id, registration)
        self.changed[registration.id] = None

    def finish(self) -> ControllersImage:
        by_id = self._by_id.finish()
        return self._base if by_id is self._base.by_id else ControllersImage(by_id)
