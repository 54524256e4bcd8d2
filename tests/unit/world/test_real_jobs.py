"""Jobs in processes of this machine: a job that dies has an error of its own, and a long one keeps nobody waiting."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import struct
import threading
from collections.abc import Callable, Coroutine, Generator
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path, PurePath
from typing import Any

import pytest

from highwater.world import Disk, Place, Step, WorkerDied, real_jobs
from highwater.world.jobs import finished
from highwater.world.real import JOB_THREADS, THREADS, RealWorld, new_event_loop
from tests.waiting import until

pytestmark = pytest.mark.slow


def dying(disk: Disk) -> Generator[Step, None, None]:
    yield Step("about to die")
    os.kill(os.getpid(), signal.SIGKILL)


def ending(disk: Disk) -> Generator[Step, None, None]:
    yield Step()
    raise EOFError("the file ends")


def endless(disk: Disk) -> Generator[Step, None, None]:
    while True:
        yield Step("at work", takes=3600)


def short(disk: Disk) -> Generator[Step, None, int]:
    yield Step()
    return os.nice(0)


def amid_a_message(pipe: Connection, *_: object) -> None:
    """In the place of what runs in the child: says that a thousand bytes follow, and is killed after four."""
    os.write(pipe.fileno(), struct.pack("!i", 1000) + b"some")
    os.kill(os.getpid(), signal.SIGKILL)


def in_the_real_world(play: Callable[[RealWorld], Coroutine[Any, Any, None]]) -> None:
    loop = new_event_loop()
    world = RealWorld(loop, lambda name, error: None)
    try:
        loop.run_until_complete(asyncio.wait_for(play(world), 120))
    finally:
        world.close()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def test_a_job_whose_process_is_killed_fails_by_that_and_no_other_failure_looks_like_it() -> None:
    async def play(world: RealWorld) -> None:
        with pytest.raises(WorkerDied, match="ended with code -9"):
            await finished(world, dying, where="process")
        with pytest.raises(EOFError, match="the file ends") as failed:
            await finished(world, ending, where="process")
        assert not isinstance(failed.value, WorkerDied)

    in_the_real_world(play)


def test_a_worker_process_killed_within_a_message_is_reported_as_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_jobs, "_run_in_child", amid_a_message)

    async def play(world: RealWorld) -> None:
        with pytest.raises(WorkerDied, match="ended with code -9"):
            await finished(world, short, where="process")

    in_the_real_world(play)


def test_a_job_that_cannot_be_handed_to_a_process_fails_by_the_reason() -> None:
    async def play(world: RealWorld) -> None:
        with pytest.raises(AttributeError, match="pickle local object"):
            await finished(world, short, lambda: None, where="process")

    in_the_real_world(play)


def test_a_process_that_cannot_be_started_counts_as_a_dead_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(process: SpawnProcess) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(SpawnProcess, "start", start)

    async def play(world: RealWorld) -> None:
        with pytest.raises(WorkerDied, match="no process could be started for the work: .*temporarily unavailable"):
            await finished(world, short, where="process")

    in_the_real_world(play)


def test_jobs_in_the_background_give_way_and_keep_no_other_waiting_however_many_there_are() -> None:
    async def play(world: RealWorld) -> None:
        steps: list[object] = []
        jobs = [
            world.run(endless, done=lambda _: None, step=lambda step: steps.append(step.progress), where="background")
            for _ in range(JOB_THREADS)
        ]
        await until(lambda: len(steps) >= JOB_THREADS)
        here = await finished(world, short)
        assert await finished(world, short, where="background") == 19 > here
        for job in jobs:
            job.cancel()

    in_the_real_world(play)


def looping(disk: Disk) -> Generator[Step, None, None]:
    while True:
        yield Step()


def held(disk: Disk, gate: threading.Event) -> Generator[Step, None, None]:
    yield Step()
    gate.wait()


@pytest.mark.parametrize("place", ["thread", "quorum", "sync", "reading", "client"])
def test_jobs_that_fill_the_threads_of_one_place_do_not_delay_other_places(place: Place) -> None:
    async def play(world: RealWorld) -> None:
        gate = threading.Event()
        try:
            for _ in range(2 * THREADS[place]):
                world.run(held, gate, done=lambda _: None, where=place)
            for other in THREADS:
                if other != place:
                    await asyncio.wait_for(finished(world, short, where=other), 20)
        finally:
            gate.set()

    in_the_real_world(play)


def test_jobs_for_clients_take_turns() -> None:
    async def play(world: RealWorld) -> None:
        long = [world.run(looping, done=lambda _: None, where="client") for _ in range(2 * THREADS["client"])]
        try:
            await asyncio.wait_for(finished(world, short, where="client"), 20)
        finally:
            for job in long:
                job.cancel()

    in_the_real_world(play)


class Held(bytes):
    """Bytes that are looked at for as long as a test wants: the writer has its descriptor by then."""

    seen: threading.Event
    go_on: threading.Event

    def __len__(self) -> int:
        self.seen.set()
        assert self.go_on.wait(60)
        return super().__len__()


def appending(disk: Disk, path: PurePath, data: bytes) -> Generator[Step, None, None]:
    file = disk.open(path, create=True)
    yield Step()
    file.append(data)
    file.append(b"never")
    yield Step()


def test_a_write_of_a_job_during_a_crash_does_not_reach_another_file(tmp_path: Path) -> None:
    """Another node of this process, which opens a file and gets the number of the descriptor that was closed."""
    data = Held(b"mine")
    data.seen, data.go_on = threading.Event(), threading.Event()

    async def play(world: RealWorld) -> None:
        world.run(appending, PurePath(tmp_path / "mine"), data, done=lambda result: None)
        assert await asyncio.to_thread(data.seen.wait, 60)
        world.crash()
        others = [os.open(tmp_path / f"theirs-{number}", os.O_RDWR | os.O_CREAT) for number in range(20)]
        data.go_on.set()
        await asyncio.to_thread(world.close)
        assert all((tmp_path / f"theirs-{number}").read_bytes() == b"" for number in range(20))
        assert (tmp_path / "mine").read_bytes() in (b"", b"mine")
        for other in others:
            os.close(other)
        assert descriptors(tmp_path) == 0

    in_the_real_world(play)


def descriptors(directory: Path) -> int:
    """How many of this process are open below it."""
    opened = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            opened += os.readlink(f"/proc/self/fd/{name}").startswith(str(directory))
    return opened
