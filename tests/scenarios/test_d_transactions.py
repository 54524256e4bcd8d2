"""Group D, storage: transactions in a compacted log, whose aborted records never come back (D12)."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from highwater.log import names
from highwater.log.appended import Origin
from highwater.log.log import Log
from highwater.wire import records
from highwater.wire.records.append import Validated
from highwater.wire.records.control import ControlType
from tests.unit.log.bench import append, stored
from tests.unit.log.compaction.stage import RETENTION_MS, Stage

HISTORIES = 24
PRODUCERS = (1, 2, 3)


class Written(NamedTuple):
    offset: int
    key: bytes
    value: bytes | None
    pid: int


class Transactions:
    """Random transactions that overlap, and plain records between them; what of them counts is known."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.written: list[Written] = []
        self.aborted: list[Written] = []
        self.open: dict[int, list[Written]] = {}
        self.sequences = dict.fromkeys(PRODUCERS, 0)

    def write_some(self, batches: int) -> None:
        random = self.stage.random
        for _ in range(batches):
            pid = random.choice((*PRODUCERS, -1))
            if pid in self.open and random.random() < 0.4:
                self.decide(pid, aborted=random.random() < 0.5)
            else:
                self.write(pid, random.randint(1, 4))
        self.stage.log.move_high_watermark(self.stage.log.log_end)

    def write(self, pid: int, count: int) -> None:
        log, random, now = self.stage.log, self.stage.random, self.stage.now_ms
        rows = [
            (b"key-%d" % random.randrange(6), None if random.random() < 0.2 else b"%d" % random.getrandbits(30))
            for _ in range(count)
        ]
        of_producer = {"producer_id": pid, "producer_epoch": 0, "base_sequence": self.sequences.get(pid, 0)}
        data = records.build(
            [(now, key, value, ()) for key, value in rows],
            transactional=pid >= 0,
            **(of_producer if pid >= 0 else {}),
        )
        at = append(log, data).base_offset
        written = [Written(at + number, key, value, pid) for number, (key, value) in enumerate(rows)]
        self.written += written
        if pid >= 0:
            self.sequences[pid] += count
            self.open.setdefault(pid, []).extend(written)

    def decide(self, pid: int, aborted: bool) -> None:
        kind = ControlType.ABORT if aborted else ControlType.COMMIT
        marker = records.build_marker(
            kind, timestamp=self.stage.now_ms, producer_id=pid, producer_epoch=0, coordinator_epoch=1
        )
        self.stage.log.append_as_leader(Validated(marker, records.read_header(marker), -1), 0, Origin.COORDINATOR)
        decided = self.open.pop(pid)
        self.aborted += decided if aborted else []

    def expected(self) -> dict[bytes, bytes]:
        """As a committed reader has it who reads from the beginning up to the last stable offset."""
        hidden, table = set(self.aborted), {}
        for each in self.written:
            if each.offset >= self.stage.log.last_stable_offset or each in hidden:
                continue
            table.pop(each.key, None)
            if each.value is not None:
                table[each.key] = each.value
        return table


async def committed(stage: Stage, log: Log, start: int = 0) -> dict[bytes, bytes]:
    """What a client makes of the batches and of the list of aborted transactions that comes with them."""
    end, offset, pieces = log.last_stable_offset, max(start, log.log_start), []
    while offset < end:
        data = await stored(stage.world, log, offset, 4096)
        pieces.append(data)
        offset = records.end_offset(data) or end
    aborted = [(each.producer_id, each.first_offset) for each in log.aborted_transactions(start, end)]
    found = records.columns(pieces, end=end, aborted=aborted)
    table: dict[bytes, bytes] = {}
    for row in (row for batch in found for row in batch.to_pylist()):
        table.pop(row["key"], None)
        if row["value"] is not None:
            table[row["key"]] = row["value"]
    return table


@pytest.mark.parametrize("group", range(4))
def test_d12_read_committed_consumers_see_the_same_values_as_a_model_without_aborted_records(group: int) -> None:
    cleanings = 0
    for seed in range(group, HISTORIES, 4):
        stage = Stage(seed, segment_bytes=500)
        history = Transactions(stage)

        async def play(stage: Stage = stage, history: Transactions = history) -> None:
            nonlocal cleanings
            await stage.create()
            for _ in range(5):
                history.write_some(stage.random.randint(5, 40))
                stable = stage.log.last_stable_offset
                await stage.clean()
                assert await committed(stage, stage.log) == history.expected()
                assert stage.log.last_stable_offset == stable
                cleanings += stage.cleaner.account.cleanings
                if stage.random.random() < 0.4:
                    await stage.stop(clean=stage.random.random() < 0.5)
                    await stage.restart()
                    assert stage.log.last_stable_offset == stable
                    assert await committed(stage, stage.log) == history.expected()
                await stage.sim.sleep(stage.random.choice((1.0, RETENTION_MS / 1000 + 1)))

        with stage.sim:
            stage.sim.run(play)
    assert cleanings > HISTORIES / 4


def markers(found: list[bytes]) -> list[tuple[int, int]]:
    """Producer and kind of each marker that is left."""
    return [
        (header.producer_id, records.parse_control(memoryview(data)[position : position + size])[0].type)
        for data in found
        for position, size, header in records.walk(data)
        if header.is_control and header.record_count
    ]


async def batches(stage: Stage) -> list[bytes]:
    found, offset = [], stage.log.log_start
    while offset < stage.log.log_end:
        found.append(await stored(stage.world, stage.log, offset, 1))
        offset = records.end_offset(found[-1]) or stage.log.log_end
    return found


def test_d12_a_marker_stays_while_anything_of_its_transaction_does_and_then_until_its_horizon() -> None:
    stage = Stage(1)
    history = Transactions(stage)

    async def play() -> None:
        log = await stage.create()
        for pid, aborted in ((1, True), (2, False)):
            history.write(pid, 3)
            append(log, records.build([(stage.now_ms, b"key-0", b"between", ())]))
            log.roll()  # the marker lies in another segment than its data, which is not the last of its own
            history.decide(pid, aborted)
        for key in range(6):
            append(log, records.build([(stage.now_ms, b"key-%d" % key, b"last", ())]))
        log.roll()
        append(log, records.build([(stage.now_ms, b"other", b"1", ())]))
        log.move_high_watermark(log.log_end)
        both = [(1, ControlType.ABORT), (2, ControlType.COMMIT)]
        await stage.clean()
        assert markers(await batches(stage)) == both
        history.stage.log.producers.expire(stage.now_ms + 10**9, 1)
        for seconds, left in ((0.0, both), (1.0, both), (RETENTION_MS / 1000 + 1, [])):
            await stage.sim.sleep(seconds)
            append(log, records.build([(stage.now_ms, b"other", b"1", ())]))
            log.roll()
            append(log, records.build([(stage.now_ms, b"other", b"1", ())]))
            log.move_high_watermark(log.log_end)
            await stage.clean()
            assert markers(await batches(stage)) == left, seconds

    with stage.sim:
        stage.sim.run(play)


def test_d12_an_aborted_record_displaces_no_committed_one_though_its_marker_lies_beyond_what_is_cleaned() -> None:
    """Another transaction is open, so the last stable offset lies before the marker; so does what may be cleaned."""
    stage = Stage(2)

    async def play() -> None:
        log = await stage.create()
        history = Transactions(stage)
        append(log, records.build([(stage.now_ms, b"k", b"committed", ())]))
        of = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
        append(log, records.build([(stage.now_ms, b"k", b"aborted", ())], producer_id=1, **of))
        log.roll()
        append(log, records.build([(stage.now_ms, b"open", b"1", ())], producer_id=2, **of))
        append(log, records.build([(stage.now_ms, b"later", b"1", ())], producer_id=3, **of))
        history.open[1] = history.open[3] = []
        history.decide(1, aborted=True)
        history.decide(3, aborted=True)
        log.roll()
        append(log, records.build([(stage.now_ms, b"z", b"1", ())]))
        log.move_high_watermark(log.log_end)
        before = log.aborted_transactions(0, log.log_end)
        assert (log.last_stable_offset, len(before)) == (2, 2)
        await stage.clean()
        assert log.clean_end == 2
        assert await committed(stage, log) == {b"k": b"committed"}
        assert log.aborted_transactions(0, log.log_end) == before
        history.open[2] = []
        history.decide(2, aborted=False)
        log.roll()
        append(log, records.build([(stage.now_ms, b"z", b"2", ())]))
        log.move_high_watermark(log.log_end)
        await stage.clean()
        expected = {b"k": b"committed", b"open": b"1", b"z": b"2"}
        assert await committed(stage, log) == expected
        await stage.stop(clean=False)
        assert await committed(stage, await stage.restart()) == expected

    with stage.sim:
        stage.sim.run(play)


def test_d12_the_last_batch_of_a_producer_is_still_known_when_its_records_are_gone() -> None:
    stage = Stage(2)

    async def play() -> None:
        await stage.create()
        stage.write([(b"a", b"1")], pid=7)
        stage.write([(b"a", b"2")], pid=7)
        stage.write([(b"a", b"3")])
        stage.log.roll()
        stage.write([(b"b", b"1")])
        await stage.clean()
        directory = stage.bench.partition_directory
        for name in stage.world.disk.list(directory):
            if name.endswith(names.SNAPSHOT):
                stage.world.disk.unlink(directory / name)
        await stage.stop(clean=False)
        await stage.restart()
        last = stage.log.producers.producers[7].batches[-1]
        assert (last.last_sequence, stage.log.producers.producers[7].epoch) == (1, 0)

    with stage.sim:
        stage.sim.run(play)
