"""Throughput from counters that only grow, as /metrics has them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

KEPT_SECONDS: Final = 300.0

BYTES_IN: Final = "kafka_server_brokertopicmetrics_bytesin_total"
BYTES_OUT: Final = "kafka_server_brokertopicmetrics_bytesout_total"
RECORDS_IN: Final = "kafka_server_brokertopicmetrics_messagesin_total"
LOG_SIZE: Final = "kafka_log_log_size"
WANTED: Final = (BYTES_IN, BYTES_OUT, RECORDS_IN, LOG_SIZE)


def samples(text: str) -> Iterator[tuple[str, str, int]]:
    """(metric, topic, value) of the metrics that are wanted here, from Prometheus' text format."""
    for line in text.splitlines():
        name, brace, rest = line.partition("{")
        if name not in WANTED or not brace:
            continue
        labels, _, value = rest.rpartition("} ")
        for label in labels.split(","):
            key, _, quoted = label.partition("=")
            if key == "topic":
                yield name, quoted.strip('"'), int(float(value))


def totals(texts: Iterable[str | None]) -> dict[str, dict[str, int]]:
    """By metric and topic, over all nodes."""
    found: dict[str, dict[str, int]] = {name: {} for name in WANTED}
    for text in texts:
        for name, topic, value in samples(text or ""):
            by_topic = found[name]
            by_topic[topic] = by_topic.get(topic, 0) + value
    return found


class Rates:
    """The growth of counters per second, and its history. A counter that fell, as after a restart, counts from 0."""

    def __init__(self) -> None:
        self._last: tuple[float, dict[str, int]] | None = None
        self.now: dict[str, float] = {}
        self.history: deque[tuple[float, float]] = deque()
        """(time, the sum of all rates)"""

    def note(self, at: float, counters: Mapping[str, int]) -> None:
        before, self._last = self._last, (at, dict(counters))
        if before is None or at <= before[0]:
            return
        seconds = at - before[0]
        grown = {}
        for name, value in counters.items():
            old = before[1].get(name, value)
            grown[name] = (value - old if value >= old else value) / seconds
        self.now = grown
        self.history.append((at, sum(grown.values())))
        while self.history and self.history[0][0] < at - KEPT_SECONDS:
            self.history.popleft()

    @property
    def total(self) -> float | None:
        """None until there are two readings."""
        return self.history[-1][1] if self.history else None
