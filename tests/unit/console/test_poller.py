"""One poller for all viewers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from highwater.client.failures import Unreachable
from highwater.console.poller import Board, Poller
from highwater.errors import Code, KafkaError

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


class Scripted(Counted):
    """A reader whose rounds are counted one by one, and fail if a test says so."""

    def __init__(self, *fails: str) -> None:
        super().__init__()
        self.rounds = dict.fromkeys(("cluster", "groups", "moves", "pipelines"), 0)
        self.fails = fails
        self.pipelines = self

    def _round(self, name: str) -> None:
        self.rounds[name] += 1
        if name in self.fails:
            raise RuntimeError(name)

    def ask_cluster(self) -> None:
        self._round("cluster")

    def ask_groups(self) -> None:
        self._round("groups")

    def ask_moves(self) -> None:
        self._round("moves")

    def ask_pipelines(self) -> None:
        self._round("pipelines")

    def moves(self) -> dict[str, Any]:
        return {"moves": self.rounds["moves"]}

    def view(self) -> dict[str, Any]:
        return {"pipelines": self.rounds["pipelines"]}


def seen(reader: Counted, *view: str, count: int) -> list[dict[str, Any]]:
    async def watch() -> list[dict[str, Any]]:
        poller = Poller(reader)  # type: ignore[arg-type]
        poller.start()
        async with asyncio.timeout(60):
            found = await first(poller, *view, count=count)
        await poller.stop()
        return found

    return asyncio.run(watch())


@pytest.mark.parametrize("name", ["moves", "pipelines"])
def test_moves_and_pipelines_are_asked_for_while_somebody_watches_them(name: str) -> None:
    reader = Scripted()
    assert [each[name] for each in seen(reader, name, count=2)][-1] >= 1
    other = "pipelines" if name == "moves" else "moves"
    assert reader.rounds[name] >= 1 and reader.rounds[other] == 0


def test_a_round_that_fails_ends_neither_the_others_nor_itself() -> None:
    reader = Scripted("cluster", "groups")
    found = seen(reader, "overview", count=3)
    assert found[-1]["round"] > found[0]["round"]
    assert reader.rounds["cluster"] >= 2 and reader.rounds["groups"] >= 2


def test_a_view_that_cannot_be_drawn_once_is_drawn_again_by_the_next_round() -> None:
    class Odd(Counted):
        def overview(self) -> dict[str, Any]:
            if len(self.asked) == 2:
                raise KeyError("quorum")
            return super().overview()

    assert [each["round"] for each in seen(Odd(), "overview", count=2)] == [1, 3]


def test_nobody_who_watches_is_no_question_for_statuses_that_are_known() -> None:
    reader = Counted()
    poller = Poller(reader)  # type: ignore[arg-type]
    for _ in range(3):
        poller._ask_statuses()
    assert len(reader.asked) == 1, "the first answer says what the cluster is"


def test_what_did_not_change_is_not_sent_again() -> None:
    async def shown() -> list[bool]:
        board, changes = Board(), []
        for text in ("a", "a", "b"):
            changed = board.changed
            board.show(text)
            changes.append(changed.is_set())
        return changes

    assert asyncio.run(shown()) == [True, False, True]


@pytest.mark.parametrize(
    "failure, words",
    [(KafkaError(Code.LEADER_NOT_AVAILABLE, "t-0 has no leader"), "t-0 has no leader"),
     (Unreachable("no server answers"), "no server answers"), (KeyError("lanes"), "the console could not draw this"),
     (None, "There is no topic t.")],
)  # fmt: skip
def test_lanes_that_cannot_be_drawn_say_why(failure: Exception | None, words: str) -> None:
    class Odd(Counted):
        def lanes(self, topic: str, index: int) -> Any:
            if failure is not None:
                raise failure

        def why_no_lanes(self, topic: str, index: int) -> str:
            return f"There is no topic {topic}."

    (found,) = seen(Odd(), "lanes", "t", "0", count=1)
    assert words in found["error"]
