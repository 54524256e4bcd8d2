"""Mistakes of the program, and disks that break at a bad moment: what failed ends, and nothing more."""

from __future__ import annotations

import errno

import pytest

from highwater.errors import Code, KafkaError
from highwater.log import names
from highwater.log.checkpoint import decode_offsets
from highwater.log.peek import cached
from highwater.log.segment import MAX_RELATIVE_OFFSET
from highwater.log.truncation import restart
from highwater.model import TopicPartition
from highwater.sim import Simulation
from highwater.wire.records import HEADER_SIZE
from tests.unit.log.bench import TOPIC_ID, TP, batch, create_log
from tests.unit.log.test_faults import DATA, QUICK, Machine
from tests.unit.log.test_mishaps import rolled

OTHER = TopicPartition("other", 3)
MISTAKE = RuntimeError("a mistake")


def test_a_mistake_in_the_writing_of_a_checkpoint_is_counted_and_it_is_written_later() -> None:
    with Simulation(1, QUICK) as sim:
        sim.forgives = True
        machine = Machine(sim)
        machine.storage.fail("append", f"*{names.RECOVERY_POINTS}*", error=MISTAKE)
        written: list[bool] = []
        machine.world.call(machine.bench.store.recovery_points.write, lambda: written.append(True))
        sim.run(sim.until(lambda: bool(written)))
        assert machine.world.failures.counts["job"] == 1
        assert decode_offsets(machine.storage.durable_bytes(DATA / names.RECOVERY_POINTS) or b"") == {TP: 0}


def test_a_log_that_a_mistake_keeps_from_being_loaded_is_left_as_it_is_and_the_others_are_loaded() -> None:
    with Simulation(2, QUICK) as sim:
        sim.forgives = True
        machine = Machine(sim)
        sim.run(machine.world.perform(create_log(machine.bench.store, OTHER, TOPIC_ID)))
        machine.append(b"a")
        machine.close()
        machine.storage.fail("read", f"*/{TP}/*", error=MISTAKE)
        machine.restart(power_loss=False)
        store = machine.bench.store
        assert (store.unloaded, list(store.logs)) == ({TP: MISTAKE}, [OTHER])
        log = sim.run(machine.world.perform(store.open_again(TP)))
        assert log is not None and log.log_end == 1


def test_a_mistake_while_one_of_several_logs_is_made_ends_that_one_alone() -> None:
    with Simulation(3, QUICK) as sim:
        sim.forgives = True
        machine = Machine(sim)
        both = [OTHER, TopicPartition("another", 0)]
        machine.storage.fail("create", f"*/{OTHER}/*", error=MISTAKE)
        store = machine.bench.store
        first, second = sim.run(machine.world.perform(store.create_all([(each, TOPIC_ID) for each in both])))
        assert isinstance(first, KafkaError) and first.code is Code.KAFKA_STORAGE_ERROR
        assert second is store.logs[both[1]]
        assert machine.world.failures.counts["partition"] == 1


@pytest.mark.parametrize(("code", "is_cut"), [(errno.EIO, False), (errno.ENOSPC, True)])
def test_a_cut_whose_recovery_point_is_not_lowered_is_made_only_if_room_was_short(code: int, is_cut: bool) -> None:
    with Simulation(4, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.append(b"b")
        machine.storage.fail("append", f"*{names.RECOVERY_POINTS}*", code)
        log, store = machine.log, machine.bench.store
        meant = iter([False] + [True] * 9)
        assert sim.run(machine.world.perform(store.truncate(log, 1, lambda: next(meant)))) is is_cut
        assert (log.log_end, log.offline is None) == ((1, True) if is_cut else (2, False))


def test_a_log_that_began_anew_and_whose_start_cannot_be_written_is_offline() -> None:
    """A later start would believe what the checkpoints still say."""
    with Simulation(5, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.storage.fail("append", f"*{names.LOG_STARTS}*", errno.EIO)
        assert not sim.run(machine.world.perform(machine.bench.store.restart(machine.log, 50)))
        assert machine.bench.offline == [machine.log]


def test_a_log_whose_segments_cannot_be_renamed_away_is_offline() -> None:
    with Simulation(6, QUICK) as sim:
        machine = Machine(sim)
        rolled(machine)
        sim.advance(5)
        machine.storage.fail("rename", f"*/{3:020}.log*", errno.EIO)
        assert not sim.run(machine.world.perform(machine.bench.truncate(2)))
        assert machine.bench.offline == [machine.log]


def test_expired_segments_are_due_until_they_are_deleted_or_the_log_has_failed() -> None:
    with Simulation(7, QUICK) as sim:
        machine = Machine(sim, retention_bytes=0)
        expiry = machine.bench.store.expiry
        assert not expiry.is_due(machine.log)
        rolled(machine)
        machine.log.move_high_watermark(machine.log.log_end)
        assert expiry.is_due(machine.log)
        assert sim.run(machine.world.perform(expiry.apply(machine.log))) == 3
        assert not expiry.is_due(machine.log)
        machine.append(b"a")
        machine.log.move_high_watermark(machine.log.log_end)
        assert expiry.is_due(machine.log)
        machine.world.call(machine.log.storage_failed, OSError(errno.EIO, "failed"))
        assert not expiry.is_due(machine.log)


@pytest.mark.parametrize("changed", [False, True])
def test_damage_that_is_met_on_the_way_out_is_reported_unless_the_segments_have_changed(changed: bool) -> None:
    with Simulation(8, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.close()
        machine.restart(power_loss=False)
        log = machine.log
        (part,) = machine.world.call(log.read, 0, 1000, 1, True, cached)
        machine.storage.damage(log.active.file.path, HEADER_SIZE + 2, b"\xff")
        if changed:
            log.reads.forget()
        assert part.check is not None
        assert not part.check.passes(machine.world.call(part.file.read_cached, part.pos, part.size) or b"")
        assert list(log.reads.damage) == ([] if changed else [0])


def test_nothing_is_read_behind_the_last_batch() -> None:
    with Simulation(9, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.log.log_end = 3  # compaction took what lay behind
        assert machine.world.call(machine.log.read, 1, 1000, 3, True, cached) == []


def test_records_dropped_at_a_start_do_not_come_back_after_a_power_cut() -> None:
    with Simulation(10, QUICK) as sim:
        machine = Machine(sim)
        rolled(machine)
        machine.world.call(machine.log.flush)
        machine.settle()
        dropped = [segment.file.path for segment in machine.log.segments[2:]]
        assert all(machine.storage.durable_bytes(path) is not None for path in dropped)
        machine.storage.damage(machine.log.segments[1].file.path, HEADER_SIZE + 2, b"\xff")
        machine.restart(power_loss=False)
        assert (machine.log.log_end, len(machine.log.segments)) == (1, 2)
        assert all(machine.storage.durable_bytes(path) is None for path in dropped)


def test_a_copy_put_aside_without_a_topic_id_stays_and_counts_for_no_partition() -> None:
    with Simulation(11, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.world.call(machine.bench.store.put_aside, TP, TOPIC_ID)
        (aside,) = (name for name in machine.world.disk.list(DATA) if names.stray_partition(name) is not None)
        machine.world.call(machine.world.disk.unlink, DATA / aside / names.PARTITION_METADATA)
        machine.restart(power_loss=False)
        sim.advance(10)
        assert machine.bench.store.retired.kept() == []
        assert aside in machine.world.disk.list(DATA)


@pytest.mark.parametrize("kinds", [("log", "index", "timeindex"), ("index",), ("timeindex",)])
def test_files_that_are_missing_are_made_anew(kinds: tuple[str, ...]) -> None:
    with Simulation(12, QUICK) as sim:
        machine = Machine(sim)
        directory = machine.log.directory
        machine.close()
        for kind in kinds:
            machine.world.call(machine.world.disk.unlink, directory / f"{0:020}.{kind}")
        machine.restart(power_loss=False)
        assert machine.append(b"a") == 0
        assert machine.values() == [b"a"]


@pytest.mark.parametrize(("beyond", "bases"), [(0, [0, 1]), (1, [0, 2 + MAX_RELATIVE_OFFSET])])
def test_a_segment_begins_at_the_log_end_if_its_index_can_hold_the_batch(beyond: int, bases: list[int]) -> None:
    """Then a gap between segments is a loss."""
    with Simulation(13, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        far = batch([b"b"])
        far[:8] = (1 + MAX_RELATIVE_OFFSET + beyond).to_bytes(8, "big")
        machine.world.call(machine.log.append_as_follower, memoryview(far))
        assert [segment.base_offset for segment in machine.log.segments] == bases


def test_records_appended_after_a_cut_are_looked_for_in_the_segments_that_are_left() -> None:
    with Simulation(25, QUICK) as sim:
        machine = Machine(sim)
        rolled(machine)
        assert sim.run(machine.world.perform(machine.bench.truncate(1)))
        machine.append(b"a", b"b", b"c")
        assert [segment.base_offset for segment in machine.log.segments] == [0, 1]
        assert [machine.log.segment_of(offset) for offset in range(4)] == [0, 1, 1, 1]
        assert [machine.log.end_of(at) for at in range(2)] == [1, 4]


@pytest.mark.parametrize(("alone", "code"), [(True, Code.CORRUPT_MESSAGE), (False, Code.KAFKA_STORAGE_ERROR)])
def test_damage_that_a_reader_finds_is_reported_to_the_owner_of_the_log(alone: bool, code: Code) -> None:
    with Simulation(26, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.close()
        machine.restart(power_loss=False)
        log = machine.log
        log.is_only_copy = lambda: alone
        machine.storage.damage(log.active.file.path, 8, b"\xff\xff\xff\xff")
        with pytest.raises(KafkaError) as refused:
            machine.world.call(log.read, 0, 1000, 1, True, cached)
        assert refused.value.code is code
        assert (list(log.reads.damage), log.offline) == ([0], None)
        sim.run(sim.until(lambda: machine.bench.offline == [log]))
        mark = machine.storage.durable_bytes(log.directory / names.DAMAGE_MARK)
        assert mark is not None, "it is reported once it is written down"
        assert b"damaged at 0" in mark


def test_a_restart_of_a_log_is_announced_with_offset_zero_first() -> None:
    with Simulation(27, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        announced: list[tuple[int, int]] = []

        async def announce(end: int) -> None:
            announced.append((end, machine.log.log_end))

        assert sim.run(machine.world.perform(restart(machine.world, machine.log, 5, announce=announce)))
        assert announced == [(0, 1)]


def test_the_epochs_of_what_replaces_a_cut_are_known_after_a_kill_though_there_was_no_room_for_their_file() -> None:
    """Recovery does not read segments below the recovery point. With an old file of epochs, it would take the new
    records for those of the old epoch, and a follower that still has the old ones would keep them."""
    with Simulation(9, QUICK) as sim:
        machine = Machine(sim, segment_bytes=80)
        for _ in range(8):
            machine.append(b"old", epoch=1)
        machine.world.call(machine.log.flush)
        machine.settle()
        sim.advance(1)
        store = machine.bench.store
        sim.run(machine.world.perform(store.recovery_points.written()))
        machine.storage.fail("append", f"*{names.EPOCH_CHECKPOINT}.tmp", errno.ENOSPC, times=None)
        assert sim.run(machine.world.perform(store.truncate(machine.log, 2)))
        for _ in range(10):
            machine.append(b"new", epoch=2)
        machine.world.call(machine.log.flush)
        machine.settle()
        sim.run(machine.world.perform(store.recovery_points.written()))
        epochs = machine.log.epoch_cache.entries
        machine.storage.mend()
        machine.restart(power_loss=False)
        assert machine.log.epoch_cache.entries == epochs == [(1, 0), (2, 2)]
