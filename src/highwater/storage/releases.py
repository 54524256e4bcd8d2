"""The feature levels of Kafka's releases, by name: the values that `storage format` accepts."""

from __future__ import annotations

from typing import Final

METADATA_LEVELS: Final[dict[str, int]] = {
    "3.3-IV3": 7,
    "3.4-IV0": 8,
    "3.5-IV0": 9,
    "3.5-IV1": 10,
    "3.5-IV2": 11,
    "3.6-IV0": 12,
    "3.6-IV1": 13,
    "3.6-IV2": 14,
    "3.7-IV0": 15,
    "3.7-IV1": 16,
    "3.7-IV2": 17,
    "3.7-IV3": 18,
    "3.7-IV4": 19,
    "3.8-IV0": 20,
    "3.9-IV0": 21,
    "4.0-IV0": 22,
    "4.0-IV1": 23,
    "4.0-IV2": 24,
    "4.0-IV3": 25,
    "4.1-IV0": 26,
    "4.1-IV1": 27,
    "4.2-IV0": 28,
    "4.2-IV1": 29,
    "4.3-IV0": 30,
}
"""metadata.version by name."""

FEATURE_LEVELS: Final[dict[str, int]] = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "kraft.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The highest level of every other feature in 4.3."""


def release_name(level: int) -> str:
    return next((name for name, known in METADATA_LEVELS.items() if known == level), str(level))


def metadata_level(release: str) -> int:
    """The metadata.version of "4.3", "4.3.0" or "4.3-IV0". Raises ValueError."""
    name = ".".join(release.split(".")[:2])
    levels = [level for known, level in METADATA_LEVELS.items() if name in (known, known.partition("-")[0])]
    if not levels:
        raise ValueError(
            f"Unknown metadata.version '{release}'. Supported metadata.version are: {', '.join(METADATA_LEVELS)}"
        )
    return max(levels)
