"""An exception ends what it happened in: it is counted, logged once, and decided upon."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from highwater.model import Endpoint
from highwater.world import Dead
from highwater.world.boundary import QUIET_SECONDS, Failures
from highwater.world.periodic import NEVER, Periodic
from highwater.world.real import RealWorld, new_event_loop
from tests.waiting import until

MISTAKE = ZeroDivisionError("a mistake")


class Now:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def raise_it(failed: BaseException = MISTAKE) -> None:
    raise failed


def test_a_failure_within_a_boundary_is_counted_and_decided_upon_and_goes_no_further() -> None:
    failures, decided = Failures(Now()), list[Exception]()
    with failures.boundary("partition", "orders-0", decided.append):
        raise_it()
    assert decided == [MISTAKE]
    assert {kind: count for kind, count in failures.counts.items() if count} == {"partition": 1}


@pytest.mark.parametrize("kind", [asyncio.CancelledError, KeyboardInterrupt, Dead])
def test_an_exception_that_is_no_failure_goes_through(kind: type[BaseException]) -> None:
    failures = Failures(Now())
    with pytest.raises(kind), failures.boundary("task", "a task"):
        raise_it(kind())
    assert not any(failures.counts.values())


def test_a_repeated_mistake_is_counted_each_time_and_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = Now()
    failures = Failures(now)
    for _ in range(5):
        failures.note("periodic", "retention", MISTAKE)
    failures.note("periodic", "retention", ValueError("another"))
    now.seconds += QUIET_SECONDS
    failures.note("periodic", "retention", MISTAKE)
    assert failures.counts["periodic"] == 7
    first, second, third = (record.getMessage() for record in caplog.records)
    assert first == second == "retention: an unexpected error stops here (periodic)"
    assert third == "retention: an unexpected error stops here (periodic), and 4 times before"
    assert all(record.exc_info for record in caplog.records)


def test_a_line_about_what_is_expected_is_news_once_a_minute() -> None:
    now = Now()
    failures = Failures(now)
    assert [failures.is_news(line) for line in ("full", "full", "another", "full")] == [True, False, True, False]
    now.seconds += QUIET_SECONDS
    assert [failures.is_news("full") for _ in range(2)] == [True, False]
    for at in range(1002):
        failures.is_news(str(at))
    assert failures.is_news("full"), "few are remembered"


def in_real_world(play: Callable[[RealWorld, list[str]], Coroutine[Any, Any, None]]) -> None:
    loop, ended = new_event_loop(), list[str]()
    world = RealWorld(loop, lambda name, error: ended.append(name))
    try:
        loop.run_until_complete(asyncio.wait_for(play(world, ended), 60))
    finally:
        world.close()
        loop.close()


def test_a_callback_that_fails_is_counted_and_the_loop_goes_on() -> None:
    async def play(world: RealWorld, ended: list[str]) -> None:
        world.clock.call_soon(raise_it)
        world.clock.call_later(0.0, raise_it)
        await until(lambda: world.failures.counts["callback"] == 2)
        assert not ended

    in_real_world(play)


def test_a_task_that_fails_is_its_owners_concern_or_the_nodes() -> None:
    async def fail() -> None:
        raise_it()

    async def play(world: RealWorld, ended: list[str]) -> None:
        decided: list[Exception] = []
        world.spawn("mine", fail(), decided.append)
        await until(lambda: decided)
        assert (world.failures.counts["task"], ended) == (1, [])
        world.spawn("the node's", fail())
        await until(lambda: ended)
        assert (world.failures.counts["node"], ended) == (1, ["the node's"])

    in_real_world(play)


class Failing(asyncio.BufferedProtocol):
    """Of a listener: it fails at the first byte."""

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(100)

    def buffer_updated(self, nbytes: int) -> None:
        raise_it()


def test_a_protocol_that_fails_loses_its_connection_and_no_other() -> None:
    async def play(world: RealWorld, ended: list[str]) -> None:
        listener = await world.net.listen(Failing, Endpoint("127.0.0.1", 0))
        here = (listener.endpoint.host, listener.endpoint.port)
        quiet_in, quiet_out = await asyncio.open_connection(*here)
        broken_in, broken_out = await asyncio.open_connection(*here)
        broken_out.write(b"x")
        assert await broken_in.read() == b""
        await until(lambda: world.failures.counts["connection"] == 1)
        assert not quiet_in.at_eof() and not ended
        for writer in (quiet_out, broken_out):
            writer.close()
        listener.close()

    in_real_world(play)


def test_work_that_is_done_again_and_again_survives_its_failures() -> None:
    async def play(world: RealWorld, ended: list[str]) -> None:
        turns: list[int] = []

        def work() -> None:
            turns.append(len(turns))
            if len(turns) % 2:
                raise_it()

        periodic = Periodic(world, "work", lambda: 0.001 if len(turns) < 5 else NEVER, work)
        periodic.start()
        await until(lambda: len(turns) == 5)
        assert world.failures.counts["periodic"] == 3
        periodic.stop()

    in_real_world(play)


def test_a_sync_that_raises_fails_for_its_callers_and_the_next_round_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Mistaken:
        path = "a file"

        def sync(self) -> None:
            raise_it()

    class Sound(Mistaken):
        def sync(self) -> None:
            pass

    async def play(world: RealWorld, ended: list[str]) -> None:
        answers: list[object] = []
        world.disk.flush([Mistaken()], answers.append)  # type: ignore[list-item]
        world.disk.flush([Sound()], answers.append)  # type: ignore[list-item]
        await until(lambda: len(answers) == 2)
        assert isinstance(answers[0], OSError) and "a mistake" in str(answers[0])
        assert answers[1] is None
        world.disk.flush([Sound()], answers.append)  # type: ignore[list-item]
        await until(lambda: answers[2:] == [None])

    with caplog.at_level(logging.ERROR):
        in_real_world(play)


class Severe(BaseException):
    pass


def test_a_task_that_ends_with_a_base_exception_ends_the_node() -> None:
    failures, decided, ended = Failures(Now()), list[Exception](), list[BaseException]()

    async def severe() -> None:
        raise Severe

    async def play() -> None:
        task = asyncio.ensure_future(severe())
        await asyncio.wait([task])
        failures.task_ended(task, decided.append, lambda name, failed: ended.append(failed))

    asyncio.run(play())
    assert [type(each) for each in ended] == [Severe]
    assert not decided
