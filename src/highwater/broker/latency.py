"""How long requests of clients take at this broker: counters that only grow, read when metrics are scraped."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

from highwater.net.metrics import Family, labels

MILLISECONDS: Final = (
    0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 2000,
    5000, 10_000, 30_000,
)  # fmt: skip
"""The upper bounds of the buckets. A last one holds what took longer."""
BOUNDS: Final = tuple(each / 1000 for each in MILLISECONDS)


class Histogram:
    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def note(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


class Latencies:
    """From the handler on, until the answer is handed to the connection."""

    __slots__ = ("fetch", "now", "produce")

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.produce = Histogram()
        """With the wait for the replicas, if acks=all asks for it."""
        self.fetch = Histogram()
        """Of consumers, without the wait for records: that is what they ask for. A fetch that gets none is not
        counted."""

    def families(self) -> Iterator[Family]:
        rows: list[tuple[str, float]] = []
        for request, histogram in (("Produce", self.produce), ("Fetch", self.fetch)):
            upper = [*map(str, BOUNDS), "+Inf"]
            counts = list(accumulate(histogram.counts))
            rows += [("_bucket" + labels(request=request, le=le), n) for le, n in zip(upper, counts, strict=True)]
            rows.append(("_sum" + labels(request=request), histogram.seconds))
            rows.append(("_count" + labels(request=request), counts[-1]))
        yield Family("highwater_request_seconds", "histogram", "Time that requests of clients took.", rows)
