"""Group D, storage: disks that fail while a log is written, synced or deleted (D6 to D9, D13)."""

from __future__ import annotations

import errno

import pytest

from highwater.errors import Code, KafkaError
from highwater.log.appended import Origin
from highwater.log.index import TransactionIndex
from highwater.log.log import Log
from highwater.log.names import TXN_INDEX, segment_file
from highwater.model import TopicPartition
from highwater.sim import Simulation
from highwater.sim.storage import Operation
from highwater.wire import records
from highwater.wire.records import ControlType
from highwater.wire.records.append import Validated
from tests.unit.log.bench import START_MS, TOPIC_ID, TP, append, create_log
from tests.unit.log.test_faults import DATA, QUICK, Machine


def test_d6_after_an_append_that_failed_halfway_nothing_is_appended_before_the_log_is_opened_again() -> None:
    with Simulation(2) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.storage.fail("append", "*.log", errno.ENOSPC)
        machine.storage.fail("trim", "*.log", errno.ENOSPC)
        assert machine.refused(b"lost") is Code.KAFKA_STORAGE_ERROR
        assert machine.bench.offline == [machine.log]
        assert machine.refused(b"refused") is Code.KAFKA_STORAGE_ERROR
        machine.close()
        assert machine.world.disk.stat(DATA / ".kafka_cleanshutdown") is None
        machine.restart(power_loss=False)
        assert machine.values() == [b"a"]


@pytest.mark.parametrize("operation", ["sync", "sync_dir"])
def test_d7_a_sync_that_failed_once_is_final_though_the_next_would_succeed(operation: str) -> None:
    with Simulation(3) as sim:
        machine = Machine(sim, flush_messages=1, segment_bytes=250)
        machine.append(b"a")
        machine.settle()
        pattern = "*.log" if operation == "sync" else "*/orders-0"
        machine.storage.fail(operation, pattern)  # type: ignore[arg-type]
        for number in range(4):
            try:
                machine.append(b"%d" % number)
            except KafkaError as refused:
                assert refused.code is Code.KAFKA_STORAGE_ERROR
            machine.settle()
        assert machine.log.offline is not None
        assert machine.log.durable_end < machine.log.log_end
        before = machine.log.durable_end
        sim.advance(5)
        assert machine.log.durable_end == before
        machine.close()
        assert machine.world.disk.stat(DATA / ".kafka_cleanshutdown") is None


def test_d8_a_full_disk_can_be_read_and_written_again_once_there_is_room() -> None:
    with Simulation(4, QUICK) as sim:
        machine = Machine(sim, segment_bytes=2000, segment_jitter_ms=0)
        machine.storage.capacity = 5000
        stored: list[bytes] = []
        failures = 0
        while failures < 5:
            value = b"%d" % len(stored) * 20
            try:
                assert machine.append(value) == len(stored)
                stored.append(value)
            except KafkaError as refused:
                assert refused.code is Code.KAFKA_STORAGE_ERROR
                failures += 1
        sim.advance(3)
        assert machine.values() == stored
        machine.storage.capacity = None
        for _ in range(30):
            value = b"%d" % len(stored) * 20
            assert machine.append(value) == len(stored)
            stored.append(value)
        sim.advance(3)
        assert machine.log.offline is None
        assert machine.values() == stored
        machine.close()
        machine.restart(power_loss=True)
        assert machine.values() == stored


def abort(machine: Machine, pid: int) -> None:
    """A transaction of one record, and its marker."""
    in_transaction = {"producer_id": pid, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    machine.world.call(append, machine.log, records.build([(START_MS, b"k", b"aborted", ())], **in_transaction))
    marker = records.build_marker(
        ControlType.ABORT, timestamp=START_MS, producer_id=pid, producer_epoch=0, coordinator_epoch=1
    )
    validated = Validated(marker, records.read_header(marker), -1)
    machine.world.call(machine.log.append_as_leader, validated, 0, Origin.COORDINATOR)


def aborted_producers(log: Log) -> list[int]:
    return [each.producer_id for each in log.aborted_transactions(0, log.log_end)]


@pytest.mark.parametrize("end", ["kill", "power", "close"])
@pytest.mark.parametrize(
    ("operation", "code"), [("create", errno.EMFILE), ("create", errno.ENOSPC), ("append", errno.ENOSPC)]
)
def test_d9_an_index_of_aborted_transactions_for_which_room_was_short_is_written_later(
    operation: Operation, code: int, end: str
) -> None:
    """In memory it is whole, and of the last segment recovery makes it anew: that one may wait for its file."""
    with Simulation(1, QUICK) as sim:
        machine = Machine(sim, flush_messages=1)
        machine.storage.fail(operation, "*.txnindex", code, times=2)
        for pid in (7, 8):
            abort(machine, pid)
        assert machine.log.offline is None
        assert aborted_producers(machine.log) == [7, 8]
        machine.settle()
        if end == "close":
            machine.close()
        machine.storage.mend()
        machine.restart(power_loss=end == "power")
        assert aborted_producers(machine.log) == [7, 8]
        abort(machine, 9)
        machine.close()
        assert machine.world.disk.stat(DATA / ".kafka_cleanshutdown") is not None
        machine.restart(power_loss=True)
        assert aborted_producers(machine.log) == [7, 8, 9]


def test_d9_a_segment_is_closed_only_with_its_index_of_aborted_transactions() -> None:
    with Simulation(1, QUICK) as sim:
        machine = Machine(sim, flush_messages=1)
        machine.storage.fail("append", "*.txnindex", errno.ENOSPC, times=None)
        abort(machine, 7)
        with pytest.raises(OSError, match="No space left"):
            machine.world.call(machine.log.roll)
        assert len(machine.log.segments) == 1
        machine.storage.mend()
        machine.world.call(machine.log.roll)
        machine.append(b"next")
        machine.settle()
        machine.world.call(machine.bench.store.recovery_points.write)
        sim.run(sim.until(lambda: machine.bench.store.recovery_points.in_step))
        machine.restart(power_loss=True)
        assert aborted_producers(machine.log) == [7]


def test_d9_a_cut_forgets_entries_that_no_file_has() -> None:
    with Simulation(1, QUICK) as sim:
        machine = Machine(sim, flush_messages=1)
        abort(machine, 7)
        machine.storage.fail("append", "*.txnindex", errno.ENOSPC, times=None)
        for pid in (8, 9):
            abort(machine, pid)
        machine.sim.run(machine.world.perform(machine.bench.truncate(4)))
        assert aborted_producers(machine.log) == [7, 8]
        machine.storage.mend()
        abort(machine, 10)
        path = segment_file(machine.bench.partition_directory, 0, TXN_INDEX)
        stored = TransactionIndex.decode(bytes(machine.storage.file(path).data))
        assert [entry.producer_id for entry in stored] == [7, 8, 10]
        machine.close()
        machine.restart(power_loss=True)
        assert aborted_producers(machine.log) == [7, 8, 10]


@pytest.mark.parametrize("operation", ["create", "append"])
def test_d9_no_reader_passes_a_transaction_whose_abort_index_cannot_be_written(
    operation: str,
) -> None:
    """The marker is in the log, its entry is not: readers would be shown what was aborted (KAFKA-7866)."""
    with Simulation(1, QUICK) as sim:
        machine = Machine(sim)
        log = machine.log
        machine.storage.fail(operation, "*.txnindex")  # type: ignore[arg-type]
        abort(machine, 7)
        assert machine.bench.offline == [log]
        with pytest.raises(KafkaError) as refused:
            log.read(0, 1000, log.log_end, True, lambda file, pos, n: file.read(pos, n))
        assert refused.value.code is Code.KAFKA_STORAGE_ERROR
        assert machine.refused(b"next") is Code.KAFKA_STORAGE_ERROR
        machine.close()
        assert machine.world.disk.stat(DATA / ".kafka_cleanshutdown") is None
        machine.storage.mend()
        machine.restart(power_loss=False)
        log = machine.log
        log.move_high_watermark(log.log_end)
        assert (log.log_end, log.last_stable_offset) == (2, 2)
        assert [(each.producer_id, each.first_offset) for each in log.aborted_transactions(0, 2)] == [(7, 0)]
        assert machine.append(b"next") == 2


def test_d13_a_directory_with_the_name_of_a_deleted_log_is_not_taken_for_whole_at_the_next_start() -> None:
    """It may be one that was given up for its damage, which a clean stop would be trusted not to have."""
    with Simulation(1, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.storage.fail("rename", "*/orders-0", times=None)
        machine.world.call(machine.bench.store.delete, TP)
        machine.close()
        assert machine.world.disk.stat(DATA / ".kafka_cleanshutdown") is None


def test_d13_a_deletion_that_races_with_a_sync_takes_nothing_offline() -> None:
    for seed in range(10):
        with Simulation(seed) as sim:
            machine = Machine(sim, flush_messages=1, segment_bytes=200)
            for _ in range(4):
                machine.append(b"value")
            log = machine.log
            machine.world.call(machine.bench.store.delete, TP)
            again = sim.run(machine.world.perform(create_log(machine.bench.store, TP, TOPIC_ID)))
            sim.advance(5)
            assert (log.offline, again.offline, machine.bench.offline) == (None, None, [])
            other = TopicPartition("other", 0)
            assert sim.run(machine.world.perform(create_log(machine.bench.store, other, TOPIC_ID))).offline is None
