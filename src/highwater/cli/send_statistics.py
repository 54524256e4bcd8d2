"""The figures of `highwater producer-perf`, in the layout of kafka-producer-perf-test.sh. Times are in ms."""

from __future__ import annotations

MOST_SAMPLES = 500_000
"""The number of latencies that are kept for percentiles, at most."""
PERCENTILES = (0.5, 0.95, 0.99, 0.999)
_MEBIBYTE = 1024.0 * 1024.0


class Window:
    """Records that were acknowledged since a time."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.count = 0
        self.size = 0
        self.latency = 0
        self.max_latency = 0

    def add(self, latency: int, size: int) -> None:
        self.count += 1
        self.size += size
        self.latency += latency
        self.max_latency = max(self.max_latency, latency)

    def rates(self, now: int) -> tuple[float, float]:
        """Records and MB per second."""
        seconds = max(now - self.start, 1) / 1000.0
        return self.count / seconds, self.size / seconds / _MEBIBYTE


class SendStatistics:
    """A line for each interval, and one for the whole run. `steady` is a run whose warm-up is over."""

    def __init__(self, records: int, interval: int, now: int, *, steady: bool = False) -> None:
        self._interval = interval
        self._steady = steady
        self._sampling = records // min(records, MOST_SAMPLES)
        self._samples: list[int] = []
        self._whole, self._window = Window(now), Window(now)
        self.is_quiet = False
        """Whether lines for intervals are left out, because other statistics print them."""

    def record(self, latency: int, size: int, now: int) -> list[str]:
        """Adds an acknowledged record, and gives the lines that are due."""
        if self._whole.count % self._sampling == 0:
            self._samples.append(latency)
        self._whole.add(latency, size)
        self._window.add(latency, size)
        if now - self._window.start < self._interval:
            return []
        lines = ["In steady state."] if self._steady and self._whole.count == self._window.count else []
        if not self.is_quiet:
            lines.append(self._of_window(now))
        self._window = Window(now)
        return lines

    def total(self, now: int) -> str:
        whole = self._whole
        records, megabytes = whole.rates(now)
        average = whole.latency / whole.count if whole.count else 0.0
        ranks = " ".join(
            f"{value} ms {name},"
            for value, name in zip(self.percentiles(), ("50th", "95th", "99th", "99.9th"), strict=True)
        )
        return (
            f"{whole.count}{' steady state' if self._steady else ''} records sent, {records:f} records/sec "
            f"({megabytes:.2f} MB/sec), {average:.2f} ms avg latency, {whole.max_latency:.2f} ms max latency, "
            f"{ranks.rstrip(',')}."
        )

    def percentiles(self) -> list[int]:
        ordered = sorted(self._samples) or [0]
        return [ordered[min(int(share * len(ordered)), len(ordered) - 1)] for share in PERCENTILES]

    def _of_window(self, now: int) -> str:
        window = self._window
        records, megabytes = window.rates(now)
        return (
            f"{window.count} records sent, {records:.1f} records/sec ({megabytes:.2f} MB/sec), "
            f"{window.latency / window.count:.1f} ms avg latency, {window.max_latency:.1f} ms max latency."
        )
