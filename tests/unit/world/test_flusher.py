"""Rounds of syncs on this machine: what is slow or hangs holds nobody else up for long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, cast

from highwater.world import File
from highwater.world.flusher import LATE_SECONDS, MOST_ROUNDS, Flusher
from highwater.world.real import RealWorld
from tests.unit.world.test_boundary import in_real_world
from tests.waiting import until


class Held:
    """A file whose sync ends when it is let go."""

    def __init__(self, name: str = "held") -> None:
        self.path = PurePath(name)
        self.is_begun = threading.Event()
        self._may_end = threading.Event()

    def sync(self) -> None:
        self.is_begun.set()
        assert self._may_end.wait(60.0)

    def let_go(self) -> None:
        self._may_end.set()


class Quick:
    path = PurePath("quick")

    def __init__(self) -> None:
        self.syncs = 0

    def sync(self) -> None:
        self.syncs += 1


def flush(world: RealWorld, answers: list[str], name: str, *files: Any) -> None:
    def done(error: OSError | None) -> None:
        assert error is None
        answers.append(name)

    world.disk.flush(cast(list[File], list(files)), done)


def test_a_sync_that_takes_long_does_not_hold_up_those_that_are_asked_for_meanwhile() -> None:
    """The metadata log of a controller need not wait until gigabytes of another log are synced."""

    async def play(world: RealWorld, ended: list[str]) -> None:
        slow, quick, answers = Held(), Quick(), list[str]()
        flush(world, answers, "slow", slow)
        await until(slow.is_begun.is_set)
        for turn in range(3):
            flush(world, answers, f"quick {turn}", quick)
            await until(lambda turn=turn: len(answers) == turn + 1)  # type: ignore[misc]
        assert answers == ["quick 0", "quick 1", "quick 2"]
        slow.let_go()
        await until(lambda: answers[3:] == ["slow"])

    in_real_world(play)


class Still:
    """A loop and an executor in one: nothing happens in it by itself."""

    def __init__(self) -> None:
        self.soon: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.jobs: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def call_soon(self, fn: Callable[..., None], *args: Any) -> None:
        self.soon.append((fn, args))

    call_soon_threadsafe = call_soon

    def call_later(self, seconds: float, fn: Callable[..., None], *args: Any) -> Any:
        return self

    def cancel(self) -> None:
        """Of a timer: none of them fires here."""

    def submit(self, fn: Callable[..., None], *args: Any) -> None:
        self.jobs.append((fn, args))

    def turn(self) -> None:
        while self.soon:
            fn, args = self.soon.pop(0)
            fn(*args)


def test_calls_that_come_during_a_round_share_the_next_one() -> None:
    still, answers, first, quick = Still(), list[str](), Quick(), Quick()
    flusher = Flusher(cast(Any, still), cast(Any, still))
    for at, file in enumerate((first, quick, quick, quick)):
        flusher.flush(cast(list[File], [file]), lambda error, at=at: answers.append(f"{at}"))  # type: ignore[misc]
        still.turn()
    assert len(still.jobs) == 1
    for answered in (["0"], ["0", "1", "2", "3"]):
        ((fn, args),) = still.jobs
        still.jobs.clear()
        fn(*args)
        still.turn()
        assert answers == answered
    assert (first.syncs, quick.syncs, still.jobs) == (1, 1, [])


def test_so_many_rounds_hang_at_most_and_all_calls_are_answered_when_the_disk_comes_back() -> None:
    async def play(world: RealWorld, ended: list[str]) -> None:
        hanging, answers = [Held(str(number)) for number in range(MOST_ROUNDS + 2)], list[str]()
        for at, file in enumerate(hanging):
            flush(world, answers, str(at), file)
            if at < MOST_ROUNDS:
                await until(file.is_begun.is_set)
        moment = threading.Event()
        world.clock.call_later(2 * LATE_SECONDS, moment.set)
        await until(moment.is_set)
        assert [file.is_begun.is_set() for file in hanging] == [True] * MOST_ROUNDS + [False] * 2
        for file in hanging:
            file.let_go()
        await until(lambda: sorted(answers) == [str(number) for number in range(MOST_ROUNDS + 2)])

    in_real_world(play)
