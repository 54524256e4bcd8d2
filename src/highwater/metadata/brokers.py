"""The registrations of brokers: their listeners, features and directories, and whether they are fenced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from highwater.metadata.draft import Draft, Inconsistent
from highwater.metadata.registration import RegisteredListener, VersionRange
from highwater.model import ZERO_UUID, NodeId, Uuid
from highwater.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from highwater.wire.messages.fence_broker_record import FenceBrokerRecord
from highwater.wire.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from highwater.wire.messages.unfence_broker_record import UnfenceBrokerRecord
from highwater.wire.messages.unregister_broker_record import UnregisterBrokerRecord

DIRECTORY_MIGRATING = ZERO_UUID
DIRECTORY_UNASSIGNED = Uuid(bytes(15) + b"\x01")
DIRECTORY_LOST = Uuid(bytes(15) + b"\x02")
DIRECTORY_TROUBLED = Uuid(bytes(15) + b"\x63")
"""A value of Highwater's own. A broker sends it to the controller; it is never in metadata. It means DIRECTORY_LOST if
other replicas have everything. Otherwise the last copy goes on serving what can be read of it."""
FENCE, UNFENCE, UNCHANGED = 1, -1, 0


def is_reserved_directory(directory: Uuid) -> bool:
    """Kafka reserves the ids below 100. It compares signed numbers, so ids with the top bit of the lower half set are
    reserved, too."""
    return directory[:8] == bytes(8) and int.from_bytes(directory[8:], "big", signed=True) < 100


class BrokerRegistration(NamedTuple):
    id: NodeId
    epoch: int
    incarnation: Uuid
    listeners: tuple[RegisteredListener, ...]
    features: Mapping[str, VersionRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[Uuid, ...]
    cordoned: tuple[Uuid, ...] | None

    @classmethod
    def of_record(cls, record: RegisterBrokerRecord) -> BrokerRegistration:
        return cls(
            id=NodeId(record.broker_id),
            epoch=record.broker_epoch,
            incarnation=record.incarnation_id,
            listeners=tuple(RegisteredListener(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features={f.name: VersionRange(f.min_supported_version, f.max_supported_version) for f in record.features},
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(record.log_dirs),
            cordoned=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
        )

    def to_record(self) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(
            broker_id=self.id,
            incarnation_id=self.incarnation,
            broker_epoch=self.epoch,
            end_points=[
                BrokerEndpoint(name=x.name, host=x.host, port=x.port, security_protocol=x.security_protocol)
                for x in self.listeners
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=r.min, max_supported_version=r.max)
                for name, r in self.features.items()
            ],
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=list(self.directories),
            cordoned_log_dirs=None if self.cordoned is None else list(self.cordoned),
        )

    @property
    def active(self) -> bool:
        """Whether the broker may lead and be in an ISR."""
        return not (self.fenced or self.in_controlled_shutdown)

    @property
    def default_directory(self) -> Uuid:
        """The directory of a new replica: the only one, if there is just one. Otherwise the broker chooses and reports
        it (KIP-858)."""
        if not self.directories:
            return DIRECTORY_MIGRATING
        return self.directories[0] if len(self.directories) == 1 else DIRECTORY_UNASSIGNED

    @property
    def has_uncordoned_directory(self) -> bool:
        if not self.directories or self.cordoned is None:
            return True
        return any(directory not in self.cordoned for directory in self.directories)

    def has_online(self, directory: Uuid) -> bool:
        if directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING):
            return True
        if directory == DIRECTORY_LOST:
            return False
        return not self.directories or directory in self.directories

    def listener(self, name: str) -> RegisteredListener | None:
        return next((listener for listener in self.listeners if listener.name == name), None)


@dataclass(frozen=True, slots=True)
class BrokersImage:
    by_id: Mapping[NodeId, BrokerRegistration] = field(default_factory=dict)
    registered_at: Mapping[NodeId, int] = field(default_factory=dict, compare=False)
    """An offset at or above that of the broker's registration record. A snapshot does not contain it; then it is the
    end of the snapshot."""

    def get(self, broker: int) -> BrokerRegistration | None:
        return self.by_id.get(NodeId(broker))

    def is_active(self, broker: int) -> bool:
        registration = self.get(broker)
        return registration is not None and registration.active

    def default_directory(self, broker: int) -> Uuid:
        """DIRECTORY_UNASSIGNED if the broker is not registered: the caller reports that error elsewhere."""
        registration = self.get(broker)
        return DIRECTORY_UNASSIGNED if registration is None else registration.default_directory

    def records(self) -> Iterator[RegisterBrokerRecord]:
        for broker in sorted(self.by_id):
            yield self.by_id[broker].to_record()


class BrokersDraft:
    __slots__ = ("_base", "_by_id", "_registered", "changed")

    def __init__(self, base: BrokersImage) -> None:
        self._base = base
        self._by_id = Draft(base.by_id)
        self._registered: dict[NodeId, None] = {}
        self.changed: dict[NodeId, None] = {}

    def register(self, record: RegisterBrokerRecord) -> None:
        registration = BrokerRegistration.of_record(record)
        self._registered[registration.id] = None
        self._put(registration)

    def unregister(self, record: UnregisterBrokerRecord) -> None:
        broker = self._registration(record.broker_id, record.broker_epoch).id
        self._by_id.remove(broker)
        self.changed[broker] = None

    def fence(self, record: FenceBrokerRecord) -> None:
        self._put(self._registration(record.id, record.epoch)._replace(fenced=True))

    def unfence(self, record: UnfenceBrokerRecord) -> None:
        self._put(self._registration(record.id, record.epoch)._replace(fenced=False))

    def change(self, record: BrokerRegistrationChangeRecord) -> None:
        before = self._registration(record.broker_id, record.broker_epoch)
        if record.fenced not in (FENCE, UNFENCE, UNCHANGED) or record.in_controlled_shutdown not in (0, 1):
            raise Inconsistent(f"unknown change of a registration: {record!r}")
        after = before._replace(
            fenced=before.fenced if record.fenced == UNCHANGED else record.fenced == FENCE,
            in_controlled_shutdown=before.in_controlled_shutdown or record.in_controlled_shutdown == 1,
            directories=tuple(record.log_dirs) if record.log_dirs else before.directories,
            cordoned=before.cordoned if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
        )
        if after != before:
            self._put(after)

    def finish(self, offset: int) -> BrokersImage:
        by_id = self._by_id.finish()
        if by_id is self._base.by_id:
            return self._base
        registered_at = {
            broker: offset if broker in self._registered else self._base.registered_at.get(broker, offset)
            for broker in by_id
        }
        return BrokersImage(by_id, registered_at)

    def _put(self, registration: BrokerRegistration) -> None:
        self._by_id.put(registration.id, registration)
        self.changed[registration.id] = None

    def _registration(self, broker: int, epoch: int) -> BrokerRegistration:
        registration = self._by_id.get(NodeId(broker))
        if registration is None:
            raise Inconsistent(f"a record changes broker {broker}, which is not registered")
        if registration.epoch != epoch:
            raise Inconsistent(f"a record changes broker {broker} of epoch {epoch}, registered is {registration.epoch}")
        return registration
