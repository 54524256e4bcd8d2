"""A compacted log keeps the last value of every key, whatever was written, and its tombstones as long as promised."""

from __future__ import annotations

import errno
from collections import Counter

import pytest

from highwater.log import names
from highwater.log.appended import Origin
from highwater.wire import records
from highwater.wire.records.append import Validated
from highwater.wire.records.control import ControlType
from tests.unit.log.bench import append
from tests.unit.log.compaction.stage import NAME, RETENTION_MS, Stage, table_of

HISTORIES = 40


@pytest.mark.parametrize("group", range(4))
def test_random_histories_end_as_a_dictionary_would(group: int) -> None:
    sizes: Counter[str] = Counter()
    for seed in range(group, HISTORIES, 4):
        stage = Stage(seed)

        async def play(stage: Stage = stage) -> None:
            await stage.create()
            for _ in range(4):
                stage.write_some(stage.random.randint(5, 40), stage.random.choice((3, 10, 40)))
                before, end = sum(s.size for s in stage.log.segments), stage.log.log_end
                await stage.clean()
                sizes["before"] += before
                sizes["after"] += sum(segment.size for segment in stage.log.segments)
                found = await stage.read()
                assert table_of(found) == stage.expected
                assert stage.log.log_end == end
                _assert_clean(stage, found)
                if stage.random.random() < 0.5:
                    await stage.stop(clean=stage.random.random() < 0.5)
                    await stage.restart()
                    assert await stage.read() == found
                await stage.sim.sleep(stage.random.choice((1.0, RETENTION_MS / 1000)))

        with stage.sim:
            stage.sim.run(play)
    assert sizes["after"] < 0.8 * sizes["before"]


def _assert_clean(stage: Stage, found: list[records.Record]) -> None:
    """Below the clean end each key has one record."""
    clean_end = stage.log.clean_end or 0
    assert clean_end == stage.log.active.base_offset
    keys = Counter(record.key for record in found if record.offset < clean_end)
    assert not keys or max(keys.values()) == 1


def test_a_tombstone_is_seen_until_its_horizon_and_then_goes() -> None:
    stage = Stage(1)

    async def play() -> None:
        await stage.create()
        stage.write([(b"gone", b"1"), (b"kept", b"1")])
        stage.write([(b"gone", None)])
        for kept in (True, True, False):
            stage.log.roll()
            stage.write([(b"other", b"%d" % stage.log.log_end)])
            stage.log.roll()
            await stage.clean()
            found = [record.key for record in await stage.read()]
            assert (b"gone" in found, b"kept" in found) == (kept, True)
            await stage.sim.sleep(RETENTION_MS / 1000 * 0.6)
        assert table_of(await stage.read()) == stage.expected

    with stage.sim:
        stage.sim.run(play)


def test_small_segments_become_one() -> None:
    stage = Stage(4)

    async def play() -> None:
        await stage.create()
        for number in range(200):
            stage.write([(b"k%d" % (number % 3), b"%d" % number)])
        before = len(stage.log.segments)
        await stage.clean()
        await stage.clean()
        stage.write([(b"x", b"y")])
        stage.log.roll()
        await stage.clean()
        assert before > 10 and len(stage.log.segments) <= 4

    with stage.sim:
        stage.sim.run(play)


def test_a_reader_of_the_old_segments_reads_on() -> None:
    stage = Stage(5, file_delete_delay_ms=1000)

    async def play() -> None:
        await stage.create()
        for number in range(40):
            stage.write([(b"k", b"%d" % number)])
        (held,) = stage.log.read(0, 4096, stage.log.log_end, True, lambda file, pos, n: file.read(pos, n))
        before = bytes(held.file.read(held.pos, held.size))
        await stage.clean()
        assert held.intact() and bytes(held.file.read(held.pos, held.size)) == before
        directory = stage.bench.partition_directory
        assert any(name.endswith(names.DELETED) for name in stage.world.disk.list(directory))
        await stage.sim.sleep(2)
        assert not any(name.endswith(names.DELETED) for name in stage.world.disk.list(directory))

    with stage.sim:
        stage.sim.run(play)


def test_a_cleaning_whose_segments_retention_takes_away_is_tried_again() -> None:
    """With compact,delete both are at work. That a file is gone says nothing about the disk then."""
    stage = Stage(5)

    async def play() -> None:
        log = await stage.create()
        for number in range(60):
            stage.write([(b"k", b"%d" % number)])
        gone = FileNotFoundError(errno.ENOENT, "No such file", str(log.segments[0].file.path))
        fault = stage.sim.storage(NAME).fail("read", "*/orders-0/*.log", error=gone)
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.until(lambda: fault.struck)
        stage.bench.store.retired.remove_files_later(log.drop_segments(1), 0.0)
        await stage.sim.until(lambda: stage.cleaner.account.cleanings > 0)
        stage.cleaner.stop()
        assert not stage.cleaner.account.setbacks

    with stage.sim:
        stage.sim.run(play)


def test_an_aborted_transaction_behind_what_may_be_cleaned_is_still_told_of() -> None:
    """An open transaction ends what may be cleaned amid a segment, and the other one lies behind its beginning."""
    stage = Stage(6)

    def transactional(pid: int) -> None:
        rows = [(stage.now_ms, b"k", b"in transaction", ())]
        data = records.build(rows, producer_id=pid, producer_epoch=0, base_sequence=0, transactional=True)
        append(stage.log, data)

    async def play() -> None:
        await stage.create()
        for number in range(20):
            stage.write([(b"k", b"%d" % number)])
        transactional(8)
        transactional(7)
        marker = records.build_marker(
            ControlType.ABORT, timestamp=stage.now_ms, producer_id=7, producer_epoch=0, coordinator_epoch=1
        )
        stage.log.append_as_leader(Validated(marker, records.read_header(marker), -1), 0, Origin.COORDINATOR)
        stage.log.high_watermark = stage.log.log_end
        stage.log.roll()
        before = stage.log.aborted_transactions(0, stage.log.log_end)
        assert [each.producer_id for each in before] == [7]
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.until(lambda: stage.cleaner.account.cleanings > 0)
        stage.cleaner.stop()
        assert len(stage.log.segments) < 5
        assert stage.log.aborted_transactions(0, stage.log.log_end) == before

    with stage.sim:
        stage.sim.run(play)
