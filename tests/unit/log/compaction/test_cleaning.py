"""A compacted log keeps the last value of every key, whatever was written, and its tombstones as long as promised."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter

import pytest

from highwater.log import names
from highwater.log.appended import Origin
from highwater.log.compaction import cleaner
from highwater.log.compaction.account import Cleaning
from highwater.log.scan import scan
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


def test_producers_are_kept_where_a_segment_begins_and_nowhere_else() -> None:
    stage = Stage(8, segment_bytes=2_000)

    async def play() -> None:
        await stage.create()
        for number in range(200):
            stage.write([(b"k%d" % (number % 70), b"%d" % number)], pid=7)
            await stage.sim.sleep(0.1)  # or only the newest of several would be written
        stage.log.roll()
        await stage.clean()
        await stage.sim.sleep(5)
        found = stage.world.disk.list(stage.bench.partition_directory)
        snapshots = sorted(names.base_offset_of(name) for name in found if name.endswith(names.SNAPSHOT))
        bases = [segment.base_offset for segment in stage.log.segments]
        assert len(bases) > 2
        assert snapshots == bases[1:], "before the first record there was no producer"

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
        stage.bench.store.retired.remove_files_later(log.drop_oldest(), 0.0)
        await stage.sim.until(lambda: stage.cleaner.account.cleanings > 0)
        stage.cleaner.stop()
        assert not stage.cleaner.account.setbacks

    with stage.sim:
        stage.sim.run(play)


def test_damage_that_is_met_behind_segments_that_were_put_in_place_is_reported_and_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They change the log, too; but that is the cleaner's own work, and no reason to look again."""
    stage = Stage(6)
    tries: list[Cleaning] = []

    async def play() -> None:
        log = await stage.create()
        for number in range(60):
            stage.write([(b"k%d" % number, b"x" * 60)])
        await stage.clean()
        victim = log.segments[2]
        assert log.clean_end is not None and victim.base_offset < log.clean_end
        stage.sim.storage(NAME).damage(victim.file.path, victim.size - 3, b"!")
        for number in range(60, 90):
            stage.write([(b"k%d" % number, b"x" * 60)])
        first = log.segments[0]
        rewrite = stage.cleaner._rewrite
        monkeypatch.setattr(stage.cleaner, "_rewrite", lambda each: tries.append(each) or rewrite(each))
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.sleep(60)
        stage.cleaner.stop()
        assert len(tries) == 1
        assert first not in log.segments, "a segment was put in its place before the damage was met"
        assert list(log.reads.damage) == [victim.base_offset]
        assert stage.cleaner.account.uncleanable(log.partition)

    with stage.sim:
        stage.sim.run(play)


def transactional(stage: Stage, pid: int) -> None:
    rows = [(stage.now_ms, b"k", b"in transaction", ())]
    data = records.build(rows, producer_id=pid, producer_epoch=0, base_sequence=0, transactional=True)
    append(stage.log, data)


def ended(stage: Stage, pid: int, kind: ControlType) -> None:
    marker = records.build_marker(kind, timestamp=stage.now_ms, producer_id=pid, producer_epoch=0, coordinator_epoch=1)
    stage.log.append_as_leader(Validated(marker, records.read_header(marker), -1), 0, Origin.COORDINATOR)
    stage.log.high_watermark = stage.log.log_end


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_an_aborted_record_replaces_no_earlier_value(kind: ControlType) -> None:
    stage = Stage(7)

    async def play() -> None:
        await stage.create()
        stage.write([(b"k", b"kept")])
        stage.log.roll()
        transactional(stage, 7)
        ended(stage, 7, kind)
        stage.log.roll()
        stage.write([(b"other", b"1")])
        stage.log.roll()
        await stage.clean()
        values = [record.value for record in await stage.read() if record.key == b"k"]
        assert values == ([b"kept"] if kind is ControlType.ABORT else [b"in transaction"])

    with stage.sim:
        stage.sim.run(play)


def test_an_aborted_transaction_behind_what_may_be_cleaned_is_still_named() -> None:
    """An open transaction ends what may be cleaned amid a segment, and the other one lies behind its beginning."""
    stage = Stage(6)

    async def play() -> None:
        await stage.create()
        for number in range(20):
            stage.write([(b"k", b"%d" % number)])
        transactional(stage, 8)
        transactional(stage, 7)
        ended(stage, 7, ControlType.ABORT)
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


def test_an_uncommitted_record_replaces_nothing() -> None:
    """It may be cut off again, and then the record before it is the key's only one."""
    stage = Stage(6)

    async def play() -> None:
        await stage.create()
        stage.write([(b"k", b"committed")])
        stage.log.roll()
        stage.write([(b"other", b"1")])
        append(stage.log, records.build([(stage.now_ms, b"k", b"not yet", ())]))
        stage.log.roll()
        assert stage.log.high_watermark == 2, "amid the second segment"
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.until(lambda: stage.cleaner.account.cleanings > 0)
        stage.cleaner.stop()
        assert await stage.bench.truncate(2)
        assert table_of(await stage.read()) == stage.expected

    with stage.sim:
        stage.sim.run(play)


def test_the_last_batch_of_a_producer_stays_without_its_records() -> None:
    """It holds the producer's sequence, where no snapshot does."""
    stage = Stage(6)

    async def play() -> None:
        log = await stage.create()
        stage.write([(b"k", b"first")], pid=7)
        stage.write([(b"k", b"second")], pid=7)
        stage.write([(b"k", b"last")])
        log.roll()
        await stage.clean()
        left = [each.header for segment in log.segments for each in scan(segment.file, 0, 0)]
        assert [(each.base_offset, each.base_sequence, each.record_count) for each in left] == [(1, 1, 0), (2, -1, 1)]

    with stage.sim:
        stage.sim.run(play)


def test_a_cleaner_that_is_stopped_does_not_look_any_more() -> None:
    stage = Stage(1)

    async def play() -> None:
        await stage.create()
        stage.cleaner.stop()
        stage.cleaner.start()
        stage.cleaner.stop()
        await stage.sim.sleep(60)
        assert stage.cleaner.account.looked_at is None

    with stage.sim:
        stage.sim.run(play)


def test_the_cleaner_looks_at_few_segments_in_a_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be tens of thousands, and clients wait meanwhile. A log that has changed by then is left for later."""
    monkeypatch.setattr(cleaner, "PER_TURN", 2)
    stage = Stage(7)

    async def play() -> None:
        log = await stage.create()
        for number in range(60):
            stage.write([(b"k", b"%d" % number)])
        assert len(log.segments) > 6
        turns, under_way = 0, stage.cleaner.account.under_way
        stage.cleaner.start()
        stage.cleaner._look()
        stage.cleaner._look()  # one look is enough at a time
        while not under_way:
            turns += 1
            await asyncio.sleep(0)
        assert turns >= len(log.segments) // 2
        await stage.sim.until(lambda: stage.cleaner.account.cleanings == 1)
        for number in range(60):
            stage.write([(b"k", b"%d" % number)])
        stage.cleaner._look()
        stage.bench.store.retired.remove_files_later(log.drop_oldest(), 0.0)
        await asyncio.sleep(0)
        for _ in log.segments:
            assert not under_way, "the segments have changed since"
            await asyncio.sleep(0)
        await stage.sim.until(lambda: stage.cleaner.account.cleanings == 2)
        stage.cleaner._look()
        stage.cleaner.stop()
        assert not stage.cleaner.account.setbacks

    with stage.sim:
        stage.sim.run(play)
