"""One poller for all viewers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from highwater.console.poller import Poller

pytestmark = pytest.mark.slow


class Counted:
    """A reader that counts the questions, and whose answers differ each time."""

    def __init__(self) -> None:
        self.statuses: dict[int, Any] = {}
        self.asked: list[frozenset[str]] = []
        self.drawn = 0

    def ask_statuses(self, topics: frozenset[str]) -> None:
        self.asked.append(topics)
        self.statuses = {1: {}}

    def status_seconds(self, topics: frozenset[str]) -> float:
        return 1.0

    def ask_cluster(self) -> None: ...

    def ask_groups(self) -> None: ...

    def is_known(self, view: str) -> bool:
        return bool(self.asked)

    def overview(self) -> dict[str, Any]:
        return {"round": len(self.asked)}

    def topic(self, name: str) -> dict[str, Any]:
        return {"topic": name, "round": len(self.asked)}

    def lanes(self, topic: str, index: int) -> dict[str, Any]:
        self.drawn += 1
        return {"topic": topic, "partition": index, "round": self.drawn}


async def first(poller: Poller, *view: str, count: int = 1) -> list[dict[str, Any]]:
    """The first values of a view, as one viewer sees them."""
    found: list[dict[str, Any]] = []
    watching = poller.watch(view)
    async for text in watching:
        if text:
            found.append(json.loads(text))
        if len(found) == count:
            break
    await watching.aclose()  # type: ignore[attr-defined]
    return found


def test_ten_viewers_cost_the_cluster_what_one_does() -> None:
    reader = Counted()

    async def watch() -> float:
        poller = Poller(reader)  # type: ignore[arg-type]
        poller.start()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await asyncio.gather(*(first(poller, "overview", count=3) for _ in range(10)))
        elapsed = loop.time() - begun
        await poller.stop()
        return elapsed

    elapsed = asyncio.run(watch())
    assert len(reader.asked) <= elapsed + 2, "at most once a second"


def test_lanes_are_asked_for_five_times_a_second_and_not_once_the_last_viewer_has_left() -> None:
    reader = Counted()

    async def watch() -> tuple[float, int, int]:
        poller = Poller(reader)  # type: ignore[arg-type]
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await asyncio.gather(*(first(poller, "lanes", "orders", "0", count=5) for _ in range(10)))
        elapsed, drawn = loop.time() - begun, reader.drawn
        await first(poller, "lanes", "payments", "1")  # takes a while, in which nobody watches orders
        later = reader.drawn
        await poller.stop()
        return elapsed, drawn, later

    elapsed, drawn, later = asyncio.run(watch())
    assert 5 <= drawn <= elapsed / 0.2 + 2
    assert later <= drawn + 3


def test_the_partitions_of_the_topics_that_are_watched_are_asked_for_with_the_statuses() -> None:
    reader = Counted()

    async def watch() -> list[dict[str, Any]]:
        poller = Poller(reader)  # type: ignore[arg-type]
        poller.start()
        found = await first(poller, "topic", "orders", count=3)
        await poller.stop()
        return found

    found = asyncio.run(watch())
    assert {each["topic"] for each in found} == {"orders"} and frozenset({"orders"}) in reader.asked
