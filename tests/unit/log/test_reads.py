"""Reads off the loop that race with a change of the segments: what they could not read is no damage then."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from highwater.errors import Code, KafkaError
from highwater.log.log import Log
from highwater.log.reads import Stale
from highwater.log.scan import BadBatch
from highwater.log.truncation import find_cut, truncate
from highwater.sim import Simulation
from highwater.world import EXHAUSTED_SECONDS, Exhausted, Step
from tests.unit.log.bench import Bench, all_records, on_real_disk
from tests.unit.log.test_faults import QUICK, Machine
from tests.unit.log.test_recovery import fill
from tests.waiting import until

GO_ON_SECONDS = 60.0


def bad_batch(log: Log) -> Exception:
    return BadBatch(log.active.file.path, 0, "its checksum is wrong")


def failed_disk(log: Log) -> Exception:
    return OSError(errno.EIO, "Input/output error")


def reader(go_on: threading.Event, found: Exception) -> Callable[..., Generator[Step, None, None]]:
    def job(disk: Any) -> Generator[Step, None, None]:
        yield Step()
        assert go_on.wait(GO_ON_SECONDS)
        raise found

    return job


@pytest.mark.parametrize("failure", [bad_batch, failed_disk])
@pytest.mark.parametrize("change", ["retention", "truncation"])
def test_a_read_of_files_that_changed_meanwhile_reports_no_damage(
    tmp_path: Path, failure: Callable[[Log], Exception], change: str
) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        go_on = threading.Event()
        outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        log.reads.look(reader(go_on, failure(log)), done=outcome.set_result, where="reading")
        if change == "retention":
            log.drop_oldest()
        else:
            assert await bench.truncate(log.log_end - 10)
        go_on.set()
        assert isinstance(await outcome, Stale)
        assert (log.trouble, bench.offline) == (None, [])

    on_real_disk(tmp_path, play, segment_bytes=1500)


@pytest.mark.parametrize("failure", [bad_batch, failed_disk])
def test_damage_that_a_read_finds_in_unchanged_files_is_reported_to_the_log(
    tmp_path: Path, failure: Callable[[Log], Exception]
) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        go_on = threading.Event()
        go_on.set()
        outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        log.reads.look(reader(go_on, failure(log)), done=outcome.set_result, where="reading")
        assert isinstance(await outcome, (BadBatch, OSError))
        assert log.trouble is not None
        await until(lambda: bench.offline == [log])

    on_real_disk(tmp_path, play, segment_bytes=1500)


def test_a_piece_that_was_read_while_its_log_was_cut_is_no_damage(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        log = await bench.reopen()  # so that nothing counts as just written
        (piece,) = log.read(log.active.base_offset, 1 << 20, log.log_end, True, _from_disk)
        assert piece.check is not None
        assert await bench.truncate(log.log_end - 1)
        assert not piece.check.passes(bytes(piece.size))
        assert log.trouble is None

    on_real_disk(tmp_path, play, segment_bytes=1500)


def _from_disk(file: Any, pos: int, n: int) -> Any:
    return file.read(pos, n)


def test_a_log_is_cut_where_it_is_to_be_though_retention_takes_segments_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment goes each time the place of the cut is being looked up, three times."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        before = await all_records(bench.world, log)
        start, end = log.segments[3].base_offset, log.segments[-2].base_offset
        run = bench.world.run

        def run_while_segments_go(job: Callable[..., Any], *args: Any, **options: Any) -> Any:
            begun = run(job, *args, **options)
            if job is find_cut and log.log_start < start:
                log.drop_oldest()
            return begun

        monkeypatch.setattr(bench.world, "run", run_while_segments_go)
        assert await truncate(bench.world, log, end)
        assert (log.log_start, log.log_end) == (start, end)
        assert await all_records(bench.world, log) == [each for each in before if start <= each[0] < end]

    on_real_disk(tmp_path, play, segment_bytes=1000)


def test_damage_that_was_cut_off_is_forgotten_and_what_lies_before_the_cut_stays_damaged(
    tmp_path: Path,
) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log, 10)
        where = log.reads.slices(15, 1 << 20, log.log_end, True, _from_disk)[0].pos
        log.found_damaged(BadBatch(log.active.file.path, where, "its checksum is wrong"))
        assert await bench.truncate(24)
        assert log.trouble is not None
        assert await bench.truncate(9)
        assert log.trouble is None

    on_real_disk(tmp_path, play)


@pytest.mark.parametrize(("is_only_copy", "code"), [(True, Code.CORRUPT_MESSAGE), (False, Code.KAFKA_STORAGE_ERROR)])
def test_a_reader_of_damaged_records_learns_whether_to_ask_another_copy(
    tmp_path: Path, is_only_copy: bool, code: Code
) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log, 10)
        log.is_only_copy = lambda: is_only_copy
        where = log.reads.slices(15, 1 << 20, log.log_end, True, _from_disk)[0].pos
        log.found_damaged(BadBatch(log.active.file.path, where, "its checksum is wrong"))
        for offset in (15, 29):
            with pytest.raises(KafkaError) as refused:
                log.read(offset, 1 << 20, log.log_end, True, _from_disk)
            assert refused.value.code is code
        (before,) = log.read(0, 1 << 20, log.log_end, True, _from_disk)
        assert before.pos + before.size == where

    on_real_disk(tmp_path, play)


def test_a_look_up_that_no_descriptor_was_left_for_is_tried_again_a_little_later() -> None:
    with Simulation(1, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        log = machine.log
        done: list[float] = []
        short = machine.storage.fail("read", "*.log", error=Exhausted(errno.EMFILE, "none left"))
        begun = machine.world.clock.monotonic()
        machine.world.call(log.reads.locate_later, 0, lambda: done.append(machine.world.clock.monotonic()))
        sim.run(sim.until(lambda: bool(done)))
        assert short.struck
        assert done[0] - begun >= EXHAUSTED_SECONDS
        assert log.offline is None
