"""A machine is what the partition's records make of it, however they are stored."""

from __future__ import annotations

import errno
import tracemalloc
from collections.abc import Generator
from typing import cast

import pytest

from highwater.coordinator import loading
from highwater.coordinator.tenure import TenureState
from highwater.errors import Code, KafkaError
from highwater.log.segment import Segment
from highwater.wire import records
from highwater.wire.compression import Codec
from highwater.wire.records import HEADER, HEADER_SIZE
from highwater.wire.records.control import ControlType, build_marker
from highwater.world import EXHAUSTED_SECONDS, Disk, Exhausted, Step
from highwater.world.jobs import finished
from tests.unit.coordinator.stage import ME, OTHER, Stage


def batch(*rows: tuple[bytes | None, bytes | None], codec: int = 0, producer_id: int = -1) -> bytearray:
    epoch, sequence = (0, 0) if producer_id >= 0 else (-1, -1)
    return records.build(
        [(1, key, value, ()) for key, value in rows],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=producer_id >= 0,
    )


def marker(kind: ControlType, producer_id: int) -> bytearray:
    return build_marker(kind, timestamp=1, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0)


def refusal(stage: Stage) -> Code:
    with pytest.raises(KafkaError) as refused:
        stage.coordinator.tenure(0)
    return refused.value.code


@pytest.mark.parametrize("codec", list(Codec))
def test_all_segments_are_loaded_and_the_last_value_of_a_key_counts(codec: Codec) -> None:
    with Stage(segment_bytes=1000) as stage:
        for number in range(60):
            stage.append(batch((b"k%d" % (number % 7), b"%d" % number * 20), codec=codec))
        assert len(stage.partition.log.segments) > 2
        stage.lead()
        values = stage.loaded().machine.values
        assert values == {b"k%d" % (number % 7): b"%d" % number * 20 for number in range(60)}


def test_a_load_begins_anew_if_the_segments_change_between_two_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction may have removed a tombstone of what the first piece has."""
    monkeypatch.setattr(loading, "PIECE", 1)
    monkeypatch.setattr(loading, "PIECES", 1)
    with Stage() as stage:
        for key in (b"a", b"b", b"c"):
            stage.append(batch((key, b"1")))
        starts: list[int] = []

        def counted(disk: Disk, segments: list[Segment], start: int, end: int) -> Generator[Step, None, object]:
            starts.append(start)
            found = yield from loading.read_records(disk, segments, start, end)
            if len(starts) == 2:
                stage.partition.log.reads.layout += 1
            return found

        monkeypatch.setattr("highwater.coordinator.tenure.read_records", counted)
        stage.lead()
        assert stage.loaded().machine.values == {b"a": b"1", b"b": b"1", b"c": b"1"}
        assert starts[:3] == [0, 1, 0]


def test_a_tombstone_removes_and_a_record_without_a_key_is_left_out() -> None:
    with Stage() as stage:
        stage.append(batch((b"a", b"1"), (b"b", b"1"), (None, b"x"), (b"a", None)))
        stage.lead()
        assert stage.loaded().machine.values == {b"b": b"1"}


def test_records_of_a_transaction_count_from_its_commit_marker_on() -> None:
    with Stage() as stage:
        for producer, kind in ((1, ControlType.COMMIT), (2, ControlType.ABORT)):
            stage.append(batch((b"t%d" % producer, b"1"), producer_id=producer))
            stage.append(marker(kind, producer))
        stage.append(batch((b"t3", b"1"), producer_id=3))
        stage.lead()
        machine = stage.loaded().machine
        assert machine.values == {b"t1": b"1"}
        assert machine.held == {3: {b"t3": b"1"}}


def test_a_marker_that_compaction_has_emptied_and_one_of_another_kind_end_nothing() -> None:
    with Stage() as stage:
        stage.append(batch((b"t1", b"1"), producer_id=1))
        emptied = marker(ControlType.COMMIT, 1)
        del emptied[HEADER_SIZE:]
        HEADER.pack_into(emptied, 0, *records.read_header(emptied)._replace(length=HEADER_SIZE - 12, record_count=0))
        records.seal(emptied, 0, HEADER_SIZE)
        stage.append(emptied)
        stage.append(marker(ControlType.LEADER_CHANGE, 1))
        stage.lead()
        assert stage.loaded().machine.held == {1: {b"t1": b"1"}}


def test_records_below_the_log_start_are_gone() -> None:
    with Stage() as stage:
        stage.append(batch((b"a", b"1"), (b"b", b"1"), (b"c", b"1")))
        stage.world.call(stage.partition.log.raise_log_start, 2)
        stage.lead()
        assert stage.loaded().machine.values == {b"c": b"1"}


def test_a_machine_gets_no_request_before_all_its_loaded_records_are_committed() -> None:
    with Stage() as stage:
        stage.append(batch((b"a", b"1")))
        stage.lead(isr=(ME, OTHER))
        stage.sim.advance(30)
        assert refusal(stage) is Code.COORDINATOR_LOAD_IN_PROGRESS
        assert stage.coordinator.is_loading
        stage.follower_has(1)
        assert stage.loaded().machine.events == ["loaded"]
        assert not stage.coordinator.is_loading


def test_a_tenure_that_ends_while_loading_takes_no_more_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PIECE", 1)
    with Stage() as stage:
        for number in range(50):
            stage.append(batch((b"k%d" % number, b"1")))
        stage.lead()
        tenure = stage.coordinator._tenures[0]
        stage.until(lambda: len(tenure.machine.values) > 3)
        stage.step_down(2)
        seen = len(tenure.machine.values)
        stage.sim.advance(10)
        assert len(tenure.machine.values) == seen < 50
        assert (tenure.state, tenure.machine.events) == (TenureState.OVER, [])
        assert refusal(stage) is Code.NOT_COORDINATOR


def test_a_new_epoch_loads_anew_and_an_isr_change_does_not() -> None:
    with Stage() as stage:
        stage.append(batch((b"a", b"1")))
        stage.lead()
        first = stage.loaded()
        stage.world.call(stage.partition.lead, ME, 1, 9, (ME,), (ME,), {})
        stage.world.call(stage.coordinator.role_changed, stage.partition)
        assert stage.loaded() is first
        stage.step_down(2)
        stage.append(batch((b"a", b"2")))
        stage.lead(3)
        second = stage.loaded()
        assert second is not first
        assert (first.machine.values, second.machine.values) == ({b"a": b"1"}, {b"a": b"2"})
        stage.lead(4)
        third = stage.loaded()
        assert (second.state, third.state) == (TenureState.OVER, TenureState.ACTIVE)


def test_a_record_that_cannot_be_read_ends_the_load_and_sends_callers_away() -> None:
    with Stage() as stage:
        stage.append(batch((b"unreadable", b"1")))
        stage.lead()
        stage.sim.advance(1)
        assert refusal(stage) is Code.NOT_COORDINATOR
        assert stage.coordinator._tenures[0].state is TenureState.FAILED


def test_a_mistake_amid_the_load_ends_it_and_sends_callers_away() -> None:
    """A machine without that piece would say of an offset that was committed that there is none."""
    with Stage() as stage:
        stage.sim.forgives = True
        stage.append(batch((b"a", b"1"), (b"mistaken", b"1"), (b"b", b"1")))
        stage.lead()
        stage.sim.advance(1)
        assert stage.coordinator._tenures[0].state is TenureState.FAILED
        assert refusal(stage) is Code.NOT_COORDINATOR
        assert stage.world.failures.counts["partition"] == 1


def test_a_disk_that_fails_takes_the_log_out_of_service() -> None:
    with Stage() as stage:
        stage.append(batch((b"a", b"1")))
        stage.sim.storage("n").fail("read", "*.log", errno.EIO)
        stage.lead()
        stage.until(lambda: stage.partition.log.offline is not None)
        assert refusal(stage) is Code.NOT_COORDINATOR


def test_records_that_cannot_be_read_because_segments_have_changed_are_loaded_again() -> None:
    """Compaction puts another segment in its place while the old one is read: that is no failure of the disk."""
    with Stage() as stage:
        stage.append(batch((b"a", b"1")))
        stage.append(batch((b"b", b"2")))
        stage.sim.storage("n").fail("read", "*.log", errno.EIO)
        stage.lead()
        stage.partition.log.reads.forget()
        assert stage.loaded().machine.values == {b"a": b"1", b"b": b"2"}
        assert stage.partition.log.trouble is None


def test_a_removed_partition_has_no_coordinator() -> None:
    with Stage() as stage:
        stage.lead(isr=(ME, OTHER))
        stage.loaded()
        stage.put(b"a")
        stage.world.call(stage.coordinator.removed, stage.partition)
        assert refusal(stage) is Code.NOT_COORDINATOR
        assert stage.answers == ["a resigned"]


def test_records_are_read_in_pieces_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PIECE", 2)
    with Stage() as stage:
        for number in range(5):
            stage.append(batch((b"k%d" % number, b"1")))
        pieces: list[list[bytes]] = []

        def note(step: Step) -> None:
            assert isinstance(step.progress, list)
            pieces.append([each.key for each in step.progress])

        log = stage.partition.log
        job = finished(stage.world, loading.read_records, log.segments, 0, log.log_end, step=note)
        assert stage.sim.run(stage.world.perform(job)) == (5, 5)
        assert pieces == [[b"k0", b"k1"], [b"k2", b"k3"], [b"k4"]]


def test_one_job_reads_a_few_pieces_and_the_next_one_reads_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amid a batch, too. Otherwise pieces would fill the memory while the event loop is busy."""
    monkeypatch.setattr(loading, "PIECE", 2)
    monkeypatch.setattr(loading, "PIECES", 3)
    with Stage(segment_bytes=200) as stage:
        for first in (0, 5, 10):
            stage.append(batch(*((b"k%d" % number, b"1") for number in range(first, first + 5))))
        log = stage.partition.log
        start, counts = 0, []
        while start < log.log_end:
            job = finished(stage.world, loading.read_records, log.segments, start, log.log_end)
            count, start = stage.sim.run(stage.world.perform(job))
            counts.append(count)
        assert (counts, start) == ([6, 6, 3], 15)
        stage.lead()
        assert list(stage.loaded().machine.values) == [b"k%d" % number for number in range(15)]


def test_a_piece_has_few_records_if_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PIECE_BYTES", 100)
    with Stage() as stage:
        for number in range(6):
            stage.append(batch((b"k%d" % number, bytes(50))))
        pieces: list[int] = []
        log = stage.partition.log
        job = finished(
            stage.world,
            loading.read_records,
            log.segments,
            0,
            log.log_end,
            step=lambda step: pieces.append(len(cast(list[object], step.progress))),
        )
        stage.sim.run(stage.world.perform(job))
        assert pieces == [2, 2, 2, 0]


def test_a_batch_of_very_many_records_is_not_in_memory_at_once() -> None:
    """Its records take two hundred bytes each as objects, and seven in the batch, which is compressed on top."""
    with Stage() as stage:
        stage.append(batch(*[(b"k", None)] * 120_000, codec=Codec.ZSTD))
        stage.lead()
        tracemalloc.start()
        try:
            assert stage.loaded().machine.values == {}
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()


def test_a_load_that_no_descriptor_was_left_for_begins_anew_a_little_later() -> None:
    """And with it the machine; and what time brings to it is not missed."""
    with Stage() as stage:
        stage.append(batch((b"a", b"1")))
        stage.sim.storage("n").fail("open", "*.log", error=Exhausted(errno.EMFILE, "none left"))
        stage.lead()
        (tenure,) = stage.coordinator
        first = tenure.machine
        stage.sim.advance(EXHAUSTED_SECONDS / 2)
        assert (tenure.state, tenure.machine) == (TenureState.LOADING, first)
        assert stage.loaded().machine.values == {b"a": b"1"}
        assert tenure.machine is not first
        assert stage.partition.log.trouble is None
        tenure.machine.alarm = stage.world.clock.monotonic() + 5
        stage.world.call(tenure.carry_out, [])
        stage.sim.advance(6)
        assert len(tenure.machine.events) == 2


def test_a_tenure_that_ends_before_its_load_is_committed_never_becomes_active() -> None:
    with Stage() as stage:
        stage.append(batch((b"a", b"1")))
        stage.lead(isr=(ME, OTHER))
        stage.sim.advance(5)
        (tenure,) = stage.coordinator
        stage.world.call(stage.partition.step_down, OTHER, 2, 2, (ME, OTHER))
        stage.sim.advance(5)
        assert (tenure.state, tenure.machine.events) == (TenureState.LOADING, [])


def test_a_machines_work_of_the_start_is_done_once_it_is_loaded() -> None:
    with Stage() as stage:
        stage.append(batch((b"due", b"x")))
        stage.lead()
        stage.loaded()
        stage.sim.advance(1)
        assert stage.answers == ["x committed"]


def test_work_for_a_machine_runs_once_it_is_loaded_and_never_after_its_end() -> None:
    with Stage() as stage:
        stage.append(batch((b"a", b"1")))
        stage.lead(isr=(ME, OTHER))
        (tenure,) = stage.coordinator
        stage.world.call(tenure.when_active, lambda machine: [machine.put(b"early", b"1")])
        stage.sim.advance(5)
        assert (tenure.state, stage.partition.log.log_end) == (TenureState.LOADING, 1)
        stage.follower_has(1)
        stage.world.call(tenure.when_active, lambda machine: [machine.put(b"at once", b"1")])
        assert stage.partition.log.log_end == 3
        stage.follower_has(3)
        assert stage.answers == ["early committed", "at once committed"]
        stage.step_down(2)
        stage.world.call(tenure.when_active, lambda machine: [machine.put(b"late", b"1")])
        assert (stage.partition.log.log_end, tenure.machine.open) == (3, {})


def test_a_role_change_returns_the_tenure_that_begins() -> None:
    with Stage() as stage:
        stage.world.call(stage.partition.lead, ME, 1, 1, (ME,), (ME,), {})
        begun = stage.world.call(stage.coordinator.role_changed, stage.partition)
        assert [begun] == list(stage.coordinator)
        assert stage.world.call(stage.coordinator.role_changed, stage.partition) is None


def test_a_tenure_that_ends_while_loading_reads_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PIECE", 1)
    with Stage(segment_bytes=200) as stage:
        for number in range(20):
            stage.append(batch((b"k%d" % number, b"1")))
        stage.lead()
        (tenure,) = stage.coordinator
        stage.until(lambda: len(tenure.machine.values) > 1)
        stage.step_down(2)
        fault = stage.sim.storage("n").fail("read", "*.log", errno.EIO, times=None)
        stage.sim.advance(10)
        assert fault.struck == 0


def test_loading_stops_at_a_record_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PIECE", 1)
    with Stage() as stage:
        for key in (b"a", b"unreadable", b"b"):
            stage.append(batch((key, b"1")))
        stage.lead()
        (tenure,) = stage.coordinator
        stage.sim.advance(5)
        assert (tenure.state, tenure.machine.values) == (TenureState.FAILED, {b"a": b"1"})


def test_records_appended_while_a_log_is_loaded_are_no_part_of_the_load() -> None:
    with Stage() as stage:
        for number in range(4):
            stage.append(batch((b"k%d" % number, b"1")))
        job = finished(stage.world, loading.read_records, stage.partition.log.segments, 0, 2)
        assert stage.sim.run(stage.world.perform(job)) == (2, 2)
