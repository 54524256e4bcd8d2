"""Finalized feature levels. `kraft.version` is not among them: it lives in the quorum's own control records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from highwater.metadata.draft import Draft
from highwater.metadata.registration import VersionRange
from highwater.wire.messages.feature_level_record import FeatureLevelRecord

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELR_VERSION = "eligible.leader.replicas.version"

SUPPORTED: Final[Mapping[str, VersionRange]] = MappingProxyType(
    {METADATA_VERSION: VersionRange(30, 30), KRAFT_VERSION: VersionRange(1, 1), ELR_VERSION: VersionRange(0, 1)}
)
"""What this software does, as its nodes say when they register and in ApiVersions."""

UNSUPPORTED: Final = VersionRange(0, 0)
"""Every feature can be off."""


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    levels: Mapping[str, int] = field(default_factory=dict)
    """Levels above zero; `metadata.version` included."""

    @property
    def metadata_version(self) -> int | None:
        """None until the bootstrap records of a fresh cluster are applied."""
        return self.levels.get(METADATA_VERSION)

    @property
    def elr_enabled(self) -> bool:
        return self.levels.get(ELR_VERSION, 0) >= 1

    def records(self) -> Iterator[FeatureLevelRecord]:
        """`metadata.version` comes first: it says how to read the rest."""
        for name in sorted(self.levels, key=lambda name: (name != METADATA_VERSION, name)):
            yield FeatureLevelRecord(name=name, feature_level=self.levels[name])


def unsupported_levels(features: FeaturesImage) -> list[str]:
    """Why this software must not work on a cluster of these levels; empty if it may."""
    return [
        f"{name} is at level {level}, supported is {SUPPORTED.get(name, UNSUPPORTED)}"
        for name, level in sorted(features.levels.items())
        if level not in SUPPORTED.get(name, UNSUPPORTED)
    ]


class FeaturesDraft:
    __slots__ = ("_base", "_levels", "changed")

    def __init__(self, base: FeaturesImage) -> None:
        self._base = base
        self._levels = Draft(base.levels)
        self.changed: dict[str, None] = {}

    def set(self, record: FeatureLevelRecord) -> None:
        if record.name == KRAFT_VERSION:
            return
        if record.feature_level == 0:
            self._levels.remove(record.name)
        else:
            self._levels.put(record.name, record.feature_level)
        self.changed[record.name] = None

    def finish(self) -> FeaturesImage:
        levels = self._levels.finish()
        return self._base if levels is self._base.levels else FeaturesImage(levels)
