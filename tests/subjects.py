"""Every request that a node advertises, in each version: what mutations are made of and answers are decoded with."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from highwater.apis import APIS
from highwater.net.registry import Api, Decode, Registry, Role
from highwater.wire.codec import Message
from tests.mutation import Sample
from tests.wire.specimens import specimen


class Subject(NamedTuple):
    """One API in one version, on the listener of a role."""

    role: Role
    api: Api
    version: int

    @property
    def name(self) -> str:
        return f"{self.role.value} {self.api.request.__name__} v{self.version}"

    @property
    def is_handled(self) -> bool:
        return self.version >= self.api.versions[0]

    @property
    def is_flexible(self) -> bool:
        return self.version >= self.api.request.FLEXIBLE

    @property
    def decode(self) -> Decode:
        return self.api.decode or self.api.request.decode

    @property
    def response(self) -> type[Message]:
        return self.api.response

    def samples(self, random: Random, count: int) -> list[Sample]:
        """Well-formed bodies of random values; of a version that has no schema any more, those of the oldest one."""
        version = max(self.version, self.api.versions[0])
        return [Sample.of(specimen(self.api.request, version, random), version) for _ in range(count)]

    def across_versions(self, random: Random) -> list[Sample]:
        """Two bodies of every version of the same API."""
        low, high = self.api.versions
        return [each for version in range(low, high + 1) for each in self._replace(version=version).samples(random, 2)]


def registries() -> list[Registry]:
    """What a node registers, without handlers at work behind it."""
    made = []
    for role, apis in APIS.items():
        registry = Registry(role)
        for api in apis:
            registry.add(api, lambda ctx, request: None)
        made.append(registry)
    return made


def advertised() -> list[Subject]:
    """By role, key and version."""
    return [
        Subject(registry.role, entry.api, version)
        for registry in registries()
        for key, lowest, highest in registry.advertised()
        if (entry := registry.find(key)) is not None
        for version in range(lowest, highest + 1)
    ]
