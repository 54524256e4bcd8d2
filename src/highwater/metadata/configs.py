"""Dynamic settings of topics, brokers and the other resources that have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from highwater.metadata.draft import Draft
from highwater.model import ResourceType as ResourceType
from highwater.wire.messages.config_record import ConfigRecord


class ConfigResource(NamedTuple):
    type: int
    name: str


CLUSTER_DEFAULT = ConfigResource(ResourceType.BROKER, "")
"""The resource of a broker without a name: its settings apply to every broker that has no own value."""

NO_CONFIGS: Mapping[str, str] = MappingProxyType({})


def topic_resource(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, name)


def broker_resource(broker: int) -> ConfigResource:
    return ConfigResource(ResourceType.BROKER, str(broker))


@dataclass(frozen=True, slots=True)
class ConfigsImage:
    by_resource: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)

    def of(self, resource: ConfigResource) -> Mapping[str, str]:
        return self.by_resource.get(resource, NO_CONFIGS)

    def records(self) -> Iterator[ConfigRecord]:
        for resource in sorted(self.by_resource):
            for name, value in sorted(self.by_resource[resource].items()):
                yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)


class ConfigsDraft:
    __slots__ = ("_base", "_by_resource", "_values", "changed")

    def __init__(self, base: ConfigsImage) -> None:
        self._base = base
        self._by_resource = Draft(base.by_resource)
        self._values: dict[ConfigResource, Draft[str, str]] = {}
        self.changed: dict[ConfigResource, None] = {}

    def set(self, record: ConfigRecord) -> None:
        """A null value removes the setting."""
        resource = ConfigResource(record.resource_type, record.resource_name)
        draft = self._values.get(resource)
        if draft is None:
            draft = self._values[resource] = Draft(self._by_resource.get(resource) or NO_CONFIGS)
        if record.value is None:
            draft.remove(record.name)
        else:
            draft.put(record.name, record.value)
        self.changed[resource] = None

    def remove(self, resource: ConfigResource) -> None:
        self._values.pop(resource, None)
        if self._by_resource.get(resource) is not None:
            self._by_resource.remove(resource)
            self.changed[resource] = None

    def finish(self) -> ConfigsImage:
        for resource, draft in self._values.items():
            values = draft.finish()
            if values:
                self._by_resource.put(resource, values)
            elif self._by_resource.get(resource) is not None:
                self._by_resource.remove(resource)
        by_resource = self._by_resource.finish()
        return self._base if by_resource is self._base.by_resource else ConfigsImage(by_resource)
