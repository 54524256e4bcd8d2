"""The lag of each group over the last hours, as the console saw it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

KEPT_SECONDS: Final = 4 * 3600.0
MOST_SERIES: Final = 2000
MOST_POINTS: Final = 960
"""Of one series. When it is full, every second point of its older half goes."""


class Series:
    def __init__(self) -> None:
        self.points: deque[tuple[float, int]] = deque()

    def add(self, at: float, lag: int) -> None:
        self.points.append((at, lag))
        while self.points[0][0] < at - KEPT_SECONDS:
            self.points.popleft()
        if len(self.points) > MOST_POINTS:
            everything = list(self.points)
            half = len(everything) // 2
            self.points = deque(everything[:half:2] + everything[half:])


class LagHistory:
    """By group, and by group and partition."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], Series] = {}

    def note(self, at: float, group: str, lags: Mapping[str, int]) -> None:
        """The lag of each partition that has one, by its name."""
        self._at(group, "").add(at, sum(lags.values()))
        for partition, lag in lags.items():
            if len(self._series) < MOST_SERIES or (group, partition) in self._series:
                self._at(group, partition).add(at, lag)

    def of(self, group: str, partition: str = "") -> list[tuple[str, str]]:
        """(ms, lag), as texts. An empty name is the whole group."""
        found = self._series.get((group, partition))
        return [] if found is None else [(str(int(at * 1000)), str(lag)) for at, lag in found.points]

    def keep_only(self, groups: set[str]) -> None:
        """Groups that were deleted are forgotten."""
        self._series = {key: series for key, series in self._series.items() if key[0] in groups}

    def _at(self, group: str, partition: str) -> Series:
        return self._series.setdefault((group, partition), Series())
