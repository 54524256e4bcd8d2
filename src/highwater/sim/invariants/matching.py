"""Log matching, for any log: the first log with a committed batch decides what all others must have there."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.sim.view import BatchView


class Matching:
    def __init__(self) -> None:
        self._known: dict[int, tuple[BatchView, int]] = {}

    def contradiction(self, node: int, batches: Sequence[BatchView]) -> str | None:
        """The contradiction to the logs seen before, or a gap; None if there is none."""
        expected: int | None = None
        for batch in batches:
            first, where = self._known.setdefault(batch.base_offset, (batch, node))
            if first != batch:
                return f"{where} had {first}, {node} has {batch}"
            if expected is not None and batch.base_offset != expected:
                return f"{node}: {batch.base_offset} follows {expected - 1}"
            expected = batch.last_offset + 1
        return None
