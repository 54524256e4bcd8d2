"""How long produce and fetch take at each node: the 99th percentile of the last minute, from the histograms that
/metrics has. They only grow, so that what lies between two readings is a histogram, too."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

APIS: Final = ("Produce", "Fetch")
WINDOW_SECONDS: Final = 60.0
SHARE: Final = 0.99
_BUCKET: Final = re.compile(
    r'^highwater_request_seconds_bucket\{request="(\w+)",le="([0-9.]+|\+Inf)"\} (\d+)(?:\.0)?$', re.MULTILINE
)

Buckets = tuple[tuple[float, int], ...]
"""(upper bound in seconds, how many requests were not slower), in the order of the bounds. The last one is infinite."""


def histograms(text: str) -> dict[str, Buckets]:
    """By API; empty for a node that does not report them."""
    found: dict[str, list[tuple[float, int]]] = {}
    for api, bound, count in _BUCKET.findall(text):
        found.setdefault(api, []).append((float(bound), int(count)))
    return {api: tuple(sorted(buckets)) for api, buckets in found.items()}


def quantile(buckets: Buckets, share: float) -> float | None:
    """In seconds, as if the requests of a bucket were spread evenly; None if there were none. What is beyond the last
    bound counts as that bound."""
    total = buckets[-1][1] if buckets else 0
    if total <= 0:
        return None
    wanted = share * total
    for (low, before), (high, count) in pairwise(((0.0, 0), *buckets)):
        if count >= wanted and count > before:
            return low if high == float("inf") else low + (high - low) * (wanted - before) / (count - before)
    return None


class Percentiles:
    def __init__(self) -> None:
        self._readings: dict[tuple[int, str], deque[tuple[float, Buckets]]] = {}

    def note(self, at: float, texts: Mapping[int, str | None]) -> None:
        """A node that does not answer is forgotten, and one that was started again begins anew."""
        seen = set()
        for node, text in texts.items():
            for api, buckets in histograms(text or "").items():
                seen.add((node, api))
                readings = self._readings.setdefault((node, api), deque())
                if readings and readings[-1][1][-1][1] > buckets[-1][1]:
                    readings.clear()
                readings.append((at, buckets))
                while len(readings) > 2 and readings[1][0] <= at - WINDOW_SECONDS:
                    readings.popleft()
        self._readings = {key: readings for key, readings in self._readings.items() if key in seen}

    def milliseconds(self) -> list[dict[str, Any]]:
        """By node; null where no request came in the last minute. Empty if no node tells."""
        nodes = sorted({node for node, _ in self._readings})
        return [{"node": node, **{api: found for api, found in self._of(node)}} for node in nodes]

    def _of(self, node: int) -> Iterator[tuple[str, float | None]]:
        for api in APIS:
            readings = self._readings.get((node, api))
            found = None if readings is None else quantile(_grown(readings[0][1], readings[-1][1]), SHARE)
            yield api, None if found is None else round(found * 1000, 2)


def _grown(before: Buckets, after: Buckets) -> Buckets:
    known = dict(before)
    return tuple((bound, count - known.get(bound, 0)) for bound, count in after)
