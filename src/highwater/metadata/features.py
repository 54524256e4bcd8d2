"""Finalized feature levels. `kraft.version` is not among them: it is in the control records of the quorum."""

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
"""The levels that Highwater supports. Nodes report them when they register, and in ApiVersions."""

UNSUPPORTED: Final = VersionRange(0, 0)
"""The range of an unknown feature: level 0 means that it is off."""


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    levels: Mapping[str, int] = field(default_factory=dict)
    """Levels above zero, including `metadata.version`."""

    @property
    def metadata_version(self) -> int | None:
        """None until the bootstrap records of a new cluster are applied."""
        return self.levels.get(METADATA_VERSION)

    @property
    def elr_enabled(self) -> bool:
        return self.levels.get(ELR_VERSION, 0) >= 1

    def records(self) -> Iterator[FeatureLevelRecord]:
        """`metadata.version` comes first, because it says how to read the rest."""
        for name in sorted(self.levels, key=lambda name: (name != METADATA_VERSION, name)):
            yield FeatureLevelRecord(name=name, feature_level=self.levels[name])


def unsupported_levels(features: FeaturesImage) -> list[str]:
    """The reasons why Highwater does not support these levels; empty if it does."""
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
