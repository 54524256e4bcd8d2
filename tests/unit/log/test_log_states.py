"""A log that fails, is cut, begins anew or is closed: what it knows of itself then."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from highwater.errors import Code
from highwater.log.segment import Segment, new_segment
from highwater.sim import Simulation
from highwater.world import Poisoned
from tests.unit.log.bench import START_MS, Bench, append, batch, on_real_disk, refusal
from tests.unit.log.test_faults import QUICK, Machine


def test_nothing_is_written_to_a_log_that_is_offline(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch())
        log.storage_failed(OSError(errno.EIO, "broken"))
        size = log.active.size
        assert (await refusal(lambda: append(log, batch()))).code is Code.KAFKA_STORAGE_ERROR
        assert (log.log_end, log.active.size) == (1, size)

    on_real_disk(tmp_path, play)


def test_a_mistake_in_the_program_takes_a_log_offline_as_a_disk_does(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        log.storage_failed(ValueError("a mistake"))
        assert isinstance(log.offline, OSError)
        assert (log.is_usable, bench.offline) == (False, [log])
        log.storage_failed(OSError(errno.EIO, "broken"))
        assert bench.offline == [log], "once is enough"

    on_real_disk(tmp_path, play)


def test_a_full_disk_leaves_a_log_that_says_why_until_it_can_be_written_again() -> None:
    with Simulation(1, QUICK) as sim:
        machine = Machine(sim)
        machine.storage.fail("append", "*.log", errno.ENOSPC)
        assert machine.refused(b"v") is Code.KAFKA_STORAGE_ERROR
        assert (machine.log.offline, machine.log.unwritten is None) == (None, False)
        assert machine.append(b"v") == 0
        assert machine.log.unwritten is None


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
@pytest.mark.parametrize("pattern", ["*.log", "*.index"])
@pytest.mark.parametrize("is_only_copy", [False, True])
def test_a_log_whose_disk_refuses_a_write_though_there_is_room_is_offline_unless_it_is_the_only_copy(
    pattern: str, code: int, is_only_copy: bool
) -> None:
    """The only copy can be read, and written if the disk failed once."""
    with Simulation(1, QUICK) as sim:
        machine = Machine(sim, index_interval_bytes=0)
        for value in (b"0", b"1"):
            machine.append(value)
        machine.log.is_only_copy = lambda: is_only_copy
        machine.storage.fail("append", pattern, code)
        assert machine.refused(b"2") is Code.KAFKA_STORAGE_ERROR
        if is_only_copy:
            assert machine.log.offline is None
            assert machine.append(b"2") == 2
            return
        assert machine.log.offline is not None
        assert machine.log.offline.errno == code
        assert machine.refused(b"3") is Code.KAFKA_STORAGE_ERROR
        machine.restart(power_loss=False)
        assert machine.values() == [b"0", b"1"]


def test_a_log_whose_failed_append_cannot_be_taken_back_is_offline() -> None:
    with Simulation(2, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"v")
        machine.storage.fail("append", "*.log", error=Poisoned(errno.EIO, "nobody knows what was kept"))
        assert machine.refused(b"v") is Code.KAFKA_STORAGE_ERROR
        assert machine.log.offline is not None


def test_a_batch_without_a_timestamp_is_as_old_as_its_writing_and_one_of_time_zero_is_not(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        log.active.modified_ms = 5
        append(log, batch(timestamps=[0]))
        assert log.active.modified_ms == 5
        append(log, batch(timestamps=[-1]))
        assert log.active.modified_ms > START_MS

    on_real_disk(tmp_path, play)


def test_a_segment_ends_where_the_next_begins_and_the_last_where_the_log_does(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        for _ in range(3):
            append(log, batch())
            log.roll()
        append(log, batch())
        assert [log.end_of(at) for at in range(4)] == [1, 2, 3, 4]

    on_real_disk(tmp_path, play)


def test_a_cut_ends_the_generation_of_a_log_and_begins_a_valid_one(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch([b"a", b"b"]))
        append(log, batch())
        before = log.generation
        assert await bench.truncate(2)
        assert (before.valid, log.generation.valid, log.generation is before) == (False, True, False)

    on_real_disk(tmp_path, play)


def test_a_log_that_begins_anew_was_never_compacted(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch([b"a", b"b"]))
        log.clean_end = 2
        assert await bench.store.restart(log, 10)
        assert (log.log_start, log.log_end, log.clean_end) == (10, 10, None)

    on_real_disk(tmp_path, play)


def test_a_log_that_is_closed_is_synced_no_more(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch())
        log.close()
        log.flush()
        assert (log.durability.under_way, log.is_usable) == (False, False)
        log.storage_failed(OSError(errno.EIO, "broken"))
        assert (log.offline, bench.offline) == (None, []), "its files are nobody's"

    on_real_disk(tmp_path, play)


def test_the_producer_with_the_smallest_id_is_known_as_the_others_are(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        for number in range(3):
            assert append(log, batch(pid=0, epoch=0, sequence=number)) == (number, number, -1, False)
        for log_again in (log, await bench.reopen(clean=False)):
            again = append(log_again, batch(pid=0, epoch=0, sequence=1))
            assert (again.base_offset, again.duplicate) == (1, True)

    on_real_disk(tmp_path, play)


def test_an_exception_in_a_look_up_takes_the_log_offline_and_calls_the_callback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def mistaken(*_: object) -> None:
        raise ValueError("a mistake")

    with Simulation(3, QUICK) as sim:
        sim.forgives = True
        machine = Machine(sim)
        machine.append(b"v")
        monkeypatch.setattr(Segment, "locate", mistaken)
        called: list[str] = []
        machine.world.call(machine.log.reads.locate_later, 0, lambda: called.append("done"))
        sim.run(sim.until(lambda: bool(called)))
        assert machine.log.offline is not None


def test_a_segment_that_cannot_be_made_whole_leaves_nothing_behind() -> None:
    with Simulation(4, QUICK) as sim:
        machine = Machine(sim)
        directory = machine.log.directory
        before = machine.world.call(machine.world.disk.list, directory)
        machine.storage.fail("create", "*.timeindex", errno.ENOSPC)
        with pytest.raises(OSError, match="No space"):
            machine.world.call(new_segment, machine.world.disk, directory, 50, 0)
        assert machine.world.call(machine.world.disk.list, directory) == before
