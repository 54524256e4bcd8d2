"""What a batch has read, by Spark's own log: for rows that came to the sink through Spark, without their offsets."""

from __future__ import annotations

from highwater.pipeline.checkpoint import Checkpoint
from highwater.pipeline.landing.position import Reach, between
from highwater.pipeline.offsets import Positions


def reaches_of(checkpoint: Checkpoint | None, number: int) -> tuple[Reach, ...] | None:
    """None if it is unknown: there is no checkpoint in a folder, or the source has no offsets of topics."""
    if checkpoint is None or (after := checkpoint.offsets(number)) is None:
        return None
    before: list[Positions | None] | None = [None] * len(after) if number == 0 else checkpoint.offsets(number - 1)
    if before is None or len(before) != len(after):
        return None
    found = [reach for was, now in zip(before, after, strict=True) if now is not None for reach in between(was, now)]
    # Two sources of one query may read the same topic, each for itself.
    return tuple(found) if len({reach.log for reach in found}) == len(found) else None


def has_past(checkpoint: Checkpoint | None, number: int) -> bool:
    """Whether batches before this one had something to read."""
    if number == 0:
        return False
    if checkpoint is None or checkpoint.first() != 0:
        return True
    return any(reaches_of(checkpoint, earlier) != () for earlier in reversed(range(number)))
