"""Group D, storage: a log opened after any stop keeps what is whole, and claims no more (D1, D2, D4, D5)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from highwater.log import names
from highwater.sim import Simulation
from tests.unit.log.bench import Bench, all_records, answers, append, batch, on_real_disk
from tests.unit.log.test_faults import DATA, Machine
from tests.unit.log.test_recovery import (
    DAMAGES,
    TIMES,
    Damage,
    abort_some,
    deleted,
    emptied,
    fill,
    garbage,
    halved,
    zeros,
)


def test_d1_every_cut_of_the_last_batch_costs_that_batch_and_no_other(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log, 6)
        before = await all_records(bench.world, log)
        size, last_base = log.active.size, log.log_end
        append(log, batch([b"the last"] * 2, pid=0, epoch=0, sequence=6))
        path = Path(log.active.file.path)
        await bench.abandon()
        whole = path.read_bytes()
        for cut in range(size, len(whole)):
            path.write_bytes(whole[:cut])
            log = await bench.reopen(clean=False)
            assert log.log_end == log.durable_end == last_base
            assert path.stat().st_size == size
            assert (await all_records(bench.world, log)) == before
            assert append(log, batch([b"next"], pid=0, epoch=0, sequence=6)).base_offset == last_base
            await bench.abandon()
        path.write_bytes(whole)
        log = await bench.reopen(clean=False)
        assert log.log_end == last_base + 2

    on_real_disk(tmp_path, play)


def test_d2_a_recovery_point_beyond_the_end_is_brought_back_to_it(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log, 10)
        path = Path(log.active.file.path)
        await bench.store.close(1)
        Path(bench.directory / names.CLEAN_SHUTDOWN).unlink()
        path.write_bytes(path.read_bytes()[:-5])
        bench.store = bench._new_store()
        await bench.store.open()
        assert (bench.log.log_end, bench.log.durable_end) == (27, 27)
        assert append(bench.log, batch()).base_offset == 27

    on_real_disk(tmp_path, play)


def test_d2_a_log_that_ends_before_its_start_begins_anew_there(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log, 10)
        log.move_high_watermark(log.log_end)
        log.raise_log_start(29)
        path = Path(log.active.file.path)
        await bench.store.close(1)
        Path(bench.directory / names.CLEAN_SHUTDOWN).unlink()
        path.write_bytes(path.read_bytes()[:200])
        bench.store = bench._new_store()
        await bench.store.open()
        log = bench.log
        assert (log.log_start, log.log_end, log.high_watermark) == (29, 29, 29)
        assert append(log, batch()).base_offset == 29

    on_real_disk(tmp_path, play)


def test_d2_a_mark_of_a_clean_stop_that_cannot_be_removed_keeps_the_directory_closed() -> None:
    """It would be believed at the next start, whatever happens before."""
    with Simulation(1) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.close()
        assert machine.world.disk.stat(DATA / names.CLEAN_SHUTDOWN) is not None
        machine.storage.fail("unlink", f"*{names.CLEAN_SHUTDOWN}")
        with pytest.raises(OSError, match="Errno 5"):
            machine.restart(power_loss=False)
        assert machine.bench.store.logs == {}
        machine.storage.mend()
        machine.restart(power_loss=False)
        assert machine.values() == [b"a"]


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("pattern", ["*.index", "*.timeindex", "*.snapshot", names.EPOCH_CHECKPOINT])
def test_d4_a_damaged_or_missing_file_beside_the_log_changes_no_answer(
    tmp_path: Path, pattern: str, damage: Damage, clean: bool
) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        assert len(log.segments) > 2
        before = await answers(bench.world, log, TIMES)
        await bench.reopen(clean)
        if clean:
            await bench.store.close(1)
        await bench.abandon()
        files = sorted(Path(bench.partition_directory).glob(pattern))
        assert files
        for path in files:
            damage(path)
        for again in (False, True):
            assert await answers(bench.world, await bench.reopen(clean=again), TIMES) == before

    on_real_disk(tmp_path, play, segment_bytes=1500)


@pytest.mark.parametrize("damage", [emptied, halved, zeros, garbage, deleted], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_d4_the_index_of_aborted_transactions_is_rebuilt(tmp_path: Path, damage: Damage, clean: bool) -> None:
    if clean and damage is deleted:
        pytest.skip("a segment that was closed in order may well have no such file")

    async def play(bench: Bench) -> None:
        log = await bench.create()
        for pid in range(10, 16):
            abort_some(log, pid)
        assert len(log.segments) > 2
        before = await answers(bench.world, log, TIMES)
        aborted = before["aborted"]
        assert isinstance(aborted, list)
        assert len(aborted) == 6
        if clean:
            await bench.store.close(1)
        await bench.abandon()
        files = sorted(Path(bench.partition_directory).glob("*.txnindex"))
        assert files
        for path in files:
            damage(path)
        for again in (False, True):
            assert await answers(bench.world, await bench.reopen(clean=again), TIMES) == before

    on_real_disk(tmp_path, play, segment_bytes=500)


def test_d5_a_recovery_that_fails_claims_no_clean_stop() -> None:
    with Simulation(8) as sim:
        machine = Machine(sim, index_interval_bytes=0)
        for _ in range(5):
            machine.append(b"a")
        sim.crash("a", power_loss=False)
        machine.storage.fail("append", "*.index", errno.ENOSPC)
        machine.restart(power_loss=False)
        assert machine.bench.store.logs == {}
        machine.close()
        assert machine.world.disk.stat(DATA / ".kafka_cleanshutdown") is None
        machine.storage.mend()
        machine.restart(power_loss=False)
        assert machine.log.log_end == 5
