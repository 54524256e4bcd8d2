"""Which segments go: by time, by size, by log start; never what is not committed, never for a clock that leaps."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.log.retention import RetentionClock, SegmentFacts, expired
from tests.unit.log.bench import Bench, all_records, append, batch, on_real_disk, settings, until

DAY = 86_400_000
YEAR = 365 * DAY
NOW = 1_800_000_000_000


def segments(*newest: int) -> list[SegmentFacts]:
    """Of ten records and 100 bytes each; the last is the active one."""
    return [SegmentFacts(10 * at, 10 * at + 10, 100, stamp) for at, stamp in enumerate(newest)]


def gone(facts: list[SegmentFacts], high_watermark: int = 1000, log_start: int = 0, **changes: object) -> int:
    config = settings(**{"retention_ms": -1, "retention_bytes": -1, "cleanup_policy": ("delete",), **changes})
    return expired(facts, config, NOW, high_watermark, log_start)


def test_time_takes_the_oldest_until_one_is_young_enough() -> None:
    facts = segments(NOW - 3 * DAY, NOW - 2 * DAY, NOW - DAY, NOW - 2 * DAY)
    assert gone(facts, retention_ms=DAY) == 2
    assert gone(facts, retention_ms=DAY - 1) == 4
    assert gone(facts, retention_ms=0) == 4
    assert gone(facts, retention_ms=-1) == 0
    assert gone(facts, retention_ms=5 * DAY) == 0


def test_one_time_in_the_future_pins_its_segment_and_all_behind_it() -> None:
    assert gone(segments(NOW - 3 * DAY, NOW + YEAR, NOW - 3 * DAY), retention_ms=DAY) == 1


def test_size_takes_the_oldest_while_enough_stays() -> None:
    facts = segments(NOW, NOW, NOW, NOW)
    assert gone(facts, retention_bytes=400) == 0
    assert gone(facts, retention_bytes=301) == 0
    assert gone(facts, retention_bytes=300) == 1
    assert gone(facts, retention_bytes=1) == 3
    assert gone(facts, retention_bytes=0) == 4


def test_the_log_start_takes_whole_segments_under_every_policy() -> None:
    facts = segments(NOW, NOW, NOW)
    for policy in (("delete",), ("compact",), ("compact", "delete")):
        assert gone(facts, log_start=19, cleanup_policy=policy) == 1
        assert gone(facts, log_start=20, cleanup_policy=policy) == 2
        assert gone(facts, log_start=30, cleanup_policy=policy) == 2  # the active one stays for its name's sake
    assert gone(segments(0, 0, 0), retention_ms=0, retention_bytes=0, cleanup_policy=("compact",)) == 0


@pytest.mark.parametrize(("high_watermark", "count"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3)])
def test_nothing_at_or_above_the_high_watermark_goes(high_watermark: int, count: int) -> None:
    assert gone(segments(0, 0, 0), high_watermark, retention_ms=0) == count


def test_an_empty_active_segment_stays() -> None:
    facts = [*segments(0), SegmentFacts(10, 10, 0, 0)]
    assert gone(facts, retention_ms=0) == 1


def test_a_clock_that_leaps_ahead_is_followed_slowly_and_one_that_falls_back_at_once() -> None:
    clock = RetentionClock(NOW, 0.0)
    hour = 3_600_000
    assert clock.now_ms(NOW + 300_000, 300.0) == NOW + 300_000
    leap = clock.now_ms(NOW + YEAR, 600.0)
    assert leap <= NOW + 600_000 + 24 * 300_000 + hour
    assert clock.now_ms(NOW - YEAR, 900.0) == NOW - YEAR
    for minute in range(20, 60):  # strobing
        assert clock.now_ms(NOW + (YEAR if minute % 2 else -YEAR), minute * 60.0) < NOW + DAY
    assert clock.now_ms(NOW + 7200_000, 7200.0) == NOW + 7200_000
    suspended = RetentionClock(NOW, 0.0)  # a day asleep, of which the monotonic clock knows nothing
    assert suspended.now_ms(NOW + DAY, 1.0) < NOW + 2 * hour
    assert suspended.now_ms(NOW + DAY + hour, 3601.0) == NOW + DAY + hour


def test_expired_segments_are_gone_for_readers_at_once_and_from_disk_later(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        for number in range(20):
            append(log, batch([b"%d" % number]))
        log.move_high_watermark(15)
        kept = next(base for base in reversed([segment.base_offset for segment in log.segments]) if base <= 15)
        went = await bench.store.expiry.apply(log)
        assert went > 1
        assert (log.log_start, log.segments[0].base_offset) == (kept, kept)
        assert [offset for offset, _ in await all_records(bench.world, log)] == list(range(kept, 20))
        await until(lambda: not list(Path(bench.partition_directory).glob("*.deleted")))
        names = {path.name for path in Path(bench.partition_directory).glob("*.log")}
        assert names == {f"{segment.base_offset:020d}.log" for segment in log.segments}
        log.move_high_watermark(20)
        await bench.store.expiry.apply(log)
        assert (log.log_start, log.log_end, log.active.base_offset, len(log.segments)) == (20, 20, 20, 1)
        assert append(log, batch()).base_offset == 20
        for clean in (False, True):
            log = await bench.reopen(clean)
            assert (log.log_start, log.log_end) == (20, 21)

    on_real_disk(tmp_path, play, segment_bytes=300, retention_ms=0)


def test_records_without_a_time_are_as_old_as_their_writing(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        log.active.created_ms = log.active.modified_ms = 0
        append(log, batch(timestamps=[-1]))
        log.move_high_watermark(1)
        assert await bench.store.expiry.apply(log) == 0
        log.active.modified_ms = 0
        assert await bench.store.expiry.apply(log) == 1

    on_real_disk(tmp_path, play, retention_ms=DAY)


def test_a_clock_is_followed_to_the_millisecond() -> None:
    assert RetentionClock(NOW, 0.0).now_ms(NOW + YEAR, 10.0) == NOW + 24 * 10_000 + 3_600_000
    assert RetentionClock(NOW, 5.0).now_ms(NOW - 1, 5.0) == NOW - 1
