"""What both worlds promise, as scenarios that run in either: `scenario(world, a directory of its own)`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from pathlib import PurePath
from typing import Any

import pytest

from highwater.model import Endpoint
from highwater.world import Buffer, ConnectionRefused, Dead, Disk, File, Step, World
from highwater.world.jobs import finished
from tests.unit.world.contract_ends import Echo, End, settle

Scenario = Callable[[World, PurePath], Coroutine[Any, Any, None]]
SCENARIOS: list[Scenario] = []
ANY_PORT = Endpoint("127.0.0.1", 0)


def scenario(fn: Scenario) -> Scenario:
    SCENARIOS.append(fn)
    return fn


def read_job(disk: Disk, path: PurePath, pos: int, n: int) -> Generator[Step, None, bytes]:
    data = disk.open(path).read(pos, n)
    yield Step()
    return bytes(data)


async def content(world: World, path: PurePath) -> bytes:
    stat = world.disk.stat(path)
    assert stat is not None
    return await finished(world, read_job, path, 0, stat.size)


async def flushed(world: World, *files: File) -> OSError | None:
    result: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    world.disk.flush(files, result.set_result)
    return await result


async def connected(world: World, server_end: Callable[[], End] = End, client: End | None = None) -> tuple[End, End]:
    ends: list[End] = []

    def accept() -> End:
        ends.append(server_end())
        return ends[0]

    listener = await world.net.listen(accept, ANY_PORT)
    near = client or End()
    await world.net.dial(lambda: near, listener.endpoint)
    while not ends or "made" not in ends[0].calls:
        await settle(world, 0.001)
    listener.close()
    return near, ends[0]


# Files


@scenario
async def an_append_returns_where_its_first_byte_landed(world: World, root: PurePath) -> None:
    file = world.disk.open(root / "log", create=True)
    assert (file.append(b"abc"), file.size) == (0, 3)
    assert (file.append(b"de", bytearray(b"f"), memoryview(b"gh")), file.size) == (3, 8)
    assert await content(world, root / "log") == b"abcdefgh"


@scenario
async def an_append_of_more_parts_than_one_call_takes_is_whole(world: World, root: PurePath) -> None:
    file = world.disk.open(root / "log", create=True)
    parts = [b"%d," % n for n in range(3000)]
    assert file.append(*parts) == 0
    assert await content(world, root / "log") == b"".join(parts)


@scenario
async def the_tail_just_written_is_read_without_blocking(world: World, root: PurePath) -> None:
    file = world.disk.open(root / "log", create=True)
    file.append(b"0123456789")
    assert _bytes(file.read_cached(2, 3)) == b"234"
    assert _bytes(file.read_cached(8, 100)) == b"89", "shorter only at the end"
    assert _bytes(file.read_cached(10, 5)) == b""


@scenario
async def a_read_in_a_job_is_short_only_at_the_end(world: World, root: PurePath) -> None:
    world.disk.open(root / "log", create=True).append(b"0123456789")
    assert await finished(world, read_job, root / "log", 7, 100) == b"789"
    assert await finished(world, read_job, root / "log", 20, 5) == b""


@scenario
async def a_truncated_file_goes_on_where_it_was_cut(world: World, root: PurePath) -> None:
    file = world.disk.open(root / "log", create=True)
    file.append(b"0123456789")
    file.truncate(4)
    assert file.size == 4
    assert file.append(b"x") == 4
    assert await content(world, root / "log") == b"0123x"


@scenario
async def a_missing_file_is_not_made_by_the_way(world: World, root: PurePath) -> None:
    with pytest.raises(FileNotFoundError):
        world.disk.open(root / "missing")
    with pytest.raises(FileNotFoundError):
        world.disk.open(root / "no directory" / "log", create=True)
    with pytest.raises(FileNotFoundError):
        world.disk.unlink(root / "missing")
    with pytest.raises(FileNotFoundError):
        world.disk.list(root / "missing")
    assert world.disk.stat(root / "missing") is None
    assert world.disk.list(root) == []


@scenario
async def opening_a_file_that_is_there_keeps_it(world: World, root: PurePath) -> None:
    world.disk.open(root / "log", create=True).append(b"kept")
    assert world.disk.open(root / "log", create=True).size == 4


@scenario
async def directories_are_made_with_their_parents_and_listed_sorted(world: World, root: PurePath) -> None:
    world.disk.mkdir(root / "b" / "c")
    world.disk.mkdir(root / "b" / "c")
    world.disk.open(root / "a", create=True)
    assert world.disk.list(root) == ["a", "b"]
    assert world.disk.list(root / "b") == ["c"]
    stat = world.disk.stat(root / "b")
    assert stat is not None and stat.is_dir
    with pytest.raises(OSError):
        world.disk.rmdir(root / "b")
    world.disk.rmdir(root / "b" / "c")
    assert world.disk.list(root / "b") == []


@scenario
async def a_rename_replaces_its_target(world: World, root: PurePath) -> None:
    world.disk.open(root / "old", create=True).append(b"old")
    world.disk.open(root / "new", create=True).append(b"new")
    world.disk.rename(root / "new", root / "old")
    assert world.disk.list(root) == ["old"]
    assert await content(world, root / "old") == b"new"


@scenario
async def a_renamed_directory_takes_its_open_files_along(world: World, root: PurePath) -> None:
    world.disk.mkdir(root / "t-0")
    file = world.disk.open(root / "t-0" / "log", create=True)
    file.append(b"ab")
    world.disk.rename(root / "t-0", root / "t-0.deleted")
    assert file.path == root / "t-0.deleted" / "log"
    assert file.append(b"c") == 2
    file.close()
    assert file.append(b"d") == 3
    assert await content(world, root / "t-0.deleted" / "log") == b"abcd"


@scenario
async def an_unlinked_file_keeps_its_bytes_while_it_is_open(world: World, root: PurePath) -> None:
    file = world.disk.open(root / "log", create=True)
    file.append(b"still here")
    world.disk.unlink(root / "log")
    assert world.disk.list(root) == []
    assert _bytes(file.read_cached(0, 5)) == b"still"
    again = world.disk.open(root / "log", create=True)
    assert (again.size, file.size) == (0, 10)


@scenario
async def a_closed_file_opens_itself_again(world: World, root: PurePath) -> None:
    file = world.disk.open(root / "log", create=True)
    file.append(b"ab")
    file.close()
    assert file.append(b"c") == 2
    assert await content(world, root / "log") == b"abc"


@scenario
async def stat_gives_the_size_and_the_time_of_the_last_change(world: World, root: PurePath) -> None:
    before = world.clock.wall_ms()
    world.disk.open(root / "log", create=True).append(b"abc")
    stat = world.disk.stat(root / "log")
    assert stat is not None
    assert (stat.size, stat.is_dir) == (3, False)
    assert abs(stat.modified_ms - before) < 10_000


@scenario
async def a_flush_answers_every_call_in_order(world: World, root: PurePath) -> None:
    files = [world.disk.open(root / name, create=True) for name in "abc"]
    answers: list[tuple[str, OSError | None]] = []
    for file in files:
        file.append(b"x")
        world.disk.flush([file], lambda error, file=file: answers.append((file.path.name, error)))  # type: ignore[misc]
    assert not answers, "never within the call"
    assert await flushed(world, *files) is None
    assert answers == [("a", None), ("b", None), ("c", None)]


# Jobs


def counting(disk: Disk, n: int) -> Generator[Step, None, int]:
    for i in range(n):
        yield Step(i)
    return n


def failing(disk: Disk) -> Generator[Step, None, None]:
    yield Step()
    raise ValueError("no")


def endless(disk: Disk) -> Generator[Step, None, None]:
    while True:
        yield Step(takes=0.001)


def steady(disk: Disk, steps: int) -> Generator[Step, None, None]:
    for _ in range(steps):
        yield Step(takes=0.02)


def not_picklable(disk: Disk) -> Generator[Step, None, object]:
    yield Step()
    return lambda: None


@scenario
async def a_job_reports_its_steps_and_its_result(world: World, root: PurePath) -> None:
    steps: list[object] = []
    assert await finished(world, counting, 3, step=lambda step: steps.append(step.progress)) == 3
    assert steps == [0, 1, 2]


@scenario
async def the_error_of_a_job_is_its_result(world: World, root: PurePath) -> None:
    with pytest.raises(ValueError, match="no"):
        await finished(world, failing)


@scenario
async def a_cancelled_job_never_answers(world: World, root: PurePath) -> None:
    answers: list[object] = []
    steps: list[Step] = []
    job = world.run(endless, done=answers.append, step=steps.append)
    while len(steps) < 3:
        await settle(world, 0.005)
    job.cancel()
    await settle(world)
    seen = len(steps)
    await settle(world)
    assert (answers, len(steps)) == ([], seen)


@scenario
async def a_job_takes_the_time_that_its_steps_are_to_take(world: World, root: PurePath) -> None:
    for where in ("thread", "background"):
        begun = world.clock.monotonic()
        await finished(world, steady, 5, where=where)  # type: ignore[arg-type]
        assert world.clock.monotonic() - begun >= 0.1


@scenario
async def a_process_job_brings_its_result_over(world: World, root: PurePath) -> None:
    assert await finished(world, counting, 2, where="process") == 2


# Clock, tasks and randomness


@scenario
async def timers_fire_in_the_order_of_their_times(world: World, root: PurePath) -> None:
    fired: list[str] = []
    world.clock.call_later(0.03, fired.append, "third")
    world.clock.call_later(0.01, fired.append, "second")
    world.clock.call_later(0.02, fired.append, "never").cancel()
    world.clock.call_soon(fired.append, "first")
    assert fired == []
    begun = world.clock.monotonic()
    await settle(world, 0.06)
    assert fired == ["first", "second", "third"]
    assert world.clock.monotonic() - begun >= 0.059


@scenario
async def random_streams_differ_by_their_label(world: World, root: PurePath) -> None:
    assert world.random("a").random() != world.random("b").random()


# Network


@scenario
async def bytes_come_back_in_order(world: World, root: PurePath) -> None:
    client, _ = await connected(world, Echo)
    sent = bytes(range(256)) * 2000
    for start in range(0, len(sent), 10_000):
        client.transport.write(sent[start : start + 10_000])
    client.transport.writelines([b"the", bytearray(b" en"), memoryview(b"d")])
    assert await client.received(len(sent) + 7) == sent + b"the end"
    client.transport.close()
    await client.called("lost")
    assert client.error is None


@scenario
async def a_port_on_which_nobody_listens_refuses(world: World, root: PurePath) -> None:
    listener = await world.net.listen(End, ANY_PORT)
    assert listener.endpoint.port != 0
    listener.close()
    await settle(world, 0.01)
    with pytest.raises(ConnectionRefused):
        await world.net.dial(End, listener.endpoint)


@scenario
async def both_ends_know_their_addresses(world: World, root: PurePath) -> None:
    client, server = await connected(world)
    assert client.transport.get_extra_info("peername") == server.transport.get_extra_info("sockname")
    assert client.transport.get_extra_info("sockname") == server.transport.get_extra_info("peername")
    assert client.transport.get_extra_info("no such thing", "default") == "default"
    client.transport.abort()
    await server.called("lost")


@scenario
async def closing_sends_what_was_written_and_then_the_end(world: World, root: PurePath) -> None:
    client, server = await connected(world)
    client.transport.write(b"x" * 300_000)
    client.transport.close()
    assert client.transport.is_closing()
    await server.called("lost")
    assert len(server.got) == 300_000
    assert (server.calls, server.error) == (["made", "eof", "lost"], None)
    await client.called("lost")


@scenario
async def a_half_closed_connection_still_carries_the_answer(world: World, root: PurePath) -> None:
    client, server = await connected(world)
    server.keep_open_at_eof = True
    client.transport.write(b"question")
    client.transport.write_eof()
    await server.called("eof")
    server.transport.write(b"answer")
    server.transport.close()
    await client.called("lost")
    assert (bytes(server.got), bytes(client.got)) == (b"question", b"answer")


@scenario
async def an_aborted_connection_loses_what_was_not_sent(world: World, root: PurePath) -> None:
    client, server = await connected(world)
    server.transport.pause_reading()
    client.transport.write(b"x" * 30_000_000)
    client.transport.abort()
    await client.called("lost")
    server.transport.resume_reading()
    await server.called("lost")
    assert len(server.got) < 30_000_000


@scenario
async def a_reader_that_stops_makes_the_writer_stop(world: World, root: PurePath) -> None:
    client, server = await connected(world)
    server.transport.pause_reading()
    assert not server.transport.is_reading()
    client.transport.set_write_buffer_limits(high=1000, low=100)
    written = 0
    while client.calls[-1] != "pause":
        while client.calls[-1] != "pause":
            client.transport.write(b"x" * 100_000)
            written += 100_000
            assert written < 100_000_000
        assert client.transport.get_write_buffer_size() > 1000
        await settle(world)  # what the network has not moved on yet makes room once more
    held = len(server.got)
    await settle(world)
    assert len(server.got) == held, "nothing is read while reading is paused"
    assert client.calls[-1] == "pause"
    server.transport.resume_reading()
    await server.received(written)
    while client.calls[-1] != "resume":
        await settle(world, 0.001)
    client.transport.abort()
    await server.called("lost")


# Death


@scenario
async def a_crashed_world_answers_dead(world: World, root: PurePath) -> None:
    world.crash()
    with pytest.raises(Dead):
        world.disk.open(root / "log", create=True)
    with pytest.raises(Dead):
        await world.net.dial(End, Endpoint("127.0.0.1", 1))


def _bytes(data: Buffer | None) -> bytes:
    assert data is not None
    return bytes(data)
