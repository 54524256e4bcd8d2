"""A store and its logs where files cannot be read, made, cut or removed at once."""

from __future__ import annotations

import asyncio
import errno
import gc
from weakref import ref

import pytest

from highwater.errors import Code, KafkaError
from highwater.log import names
from highwater.log.checkpoint import decode_offsets
from highwater.log.index import TransactionIndex
from highwater.log.loaded import LoadedLog, LoadRequest
from highwater.log.loader import load_log
from highwater.log.scan import BadBatch
from highwater.log.snapshots import ProducerSnapshots
from highwater.model import TopicPartition
from highwater.sim import Simulation
from highwater.world import Exhausted
from highwater.world.jobs import finished
from tests.unit.log.bench import TOPIC_ID, TP, create_log
from tests.unit.log.test_faults import DATA, QUICK, Machine
from tests.unit.log.test_recovery import abort_some


def rolled(machine: Machine, segments: int = 4) -> None:
    for number in range(segments - 1):
        machine.append(b"%d" % number)
        machine.world.call(machine.log.roll)


def test_a_log_begins_anew_and_its_start_is_durable() -> None:
    with Simulation(1, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        assert sim.run(machine.world.perform(machine.bench.store.restart(machine.log, 50)))
        assert (machine.log.log_start, machine.log.log_end) == (50, 50)
        written = machine.storage.durable_bytes(DATA / names.RECOVERY_POINTS)
        assert decode_offsets(written or b"")[TP] == 50
        assert machine.log.durability.log_start == 50
        machine.restart(power_loss=True)
        assert (machine.log.log_start, machine.log.log_end) == (50, 50)


def test_a_log_that_is_closed_begins_nothing_anew_in_its_store() -> None:
    with Simulation(2, QUICK) as sim:
        machine = Machine(sim)
        log = machine.log
        log.close()
        assert not sim.run(machine.world.perform(machine.bench.store.restart(log, 50)))


@pytest.mark.parametrize("meant", [0, 2, 9])
def test_retention_goes_on_as_long_as_it_is_meant(meant: int) -> None:
    with Simulation(3, QUICK) as sim:
        machine = Machine(sim, retention_bytes=0)
        rolled(machine)
        machine.log.move_high_watermark(machine.log.log_end)
        left = iter([True] * meant + [False])
        gone = sim.run(machine.world.perform(machine.bench.store.expiry.apply(machine.log, lambda: next(left))))
        assert gone == min(meant, 3)
        assert len(machine.log.segments) == 4 - gone
        assert machine.log.log_start == machine.log.segments[0].base_offset


def test_retention_makes_only_the_start_of_its_segments_durable() -> None:
    """DeleteRecords has raised the log start amid the segment that stays, and nobody has written that down yet."""
    with Simulation(3, QUICK) as sim:
        machine = Machine(sim)
        rolled(machine, 3)
        machine.append(b"x", b"y", b"z")
        log = machine.log
        log.move_high_watermark(log.log_end)
        machine.world.call(log.raise_log_start, 4)
        assert log.durability.log_start == 0
        assert sim.run(machine.world.perform(machine.bench.store.expiry.apply(log))) == 2
        assert (log.segments[0].base_offset, log.log_start) == (2, 4)
        assert log.durability.log_start == 2


def test_retention_leaves_a_log_alone_that_is_offline() -> None:
    with Simulation(4, QUICK) as sim:
        machine = Machine(sim, retention_bytes=0)
        rolled(machine)
        machine.log.move_high_watermark(machine.log.log_end)
        machine.world.call(machine.log.storage_failed, OSError(errno.EIO, "failed"))
        assert sim.run(machine.world.perform(machine.bench.store.expiry.apply(machine.log))) == 0
        assert len(machine.log.segments) == 4


def test_a_log_that_could_not_be_loaded_can_be_opened_later() -> None:
    with Simulation(5, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.close()
        fault = machine.storage.fail("read", "*/orders-0/*", errno.EIO, times=None)
        machine.restart(power_loss=False)
        store = machine.bench.store
        assert fault.struck
        assert (list(store.unloaded), list(store.logs)) == ([TP], [])
        assert sim.run(machine.world.perform(store.open_again(TP))) is None
        machine.storage.mend()
        log = sim.run(machine.world.perform(store.open_again(TP)))
        assert log is not None and log is store.logs[TP]
        assert (log.log_end, store.unloaded) == (1, {})


def test_a_log_that_cannot_be_made_is_refused_and_nothing_of_it_is_left() -> None:
    with Simulation(6, QUICK) as sim:
        machine = Machine(sim)
        other = TopicPartition("other", 3)
        machine.storage.fail("create", "*/other-3/*", errno.ENOSPC)
        with pytest.raises(KafkaError, match="other-3 cannot be created") as refused:
            sim.run(machine.world.perform(create_log(machine.bench.store, other, TOPIC_ID)))
        assert refused.value.code is Code.KAFKA_STORAGE_ERROR
        assert other not in machine.bench.store.logs
        log = sim.run(machine.world.perform(create_log(machine.bench.store, other, TOPIC_ID)))
        assert log.log_end == 0


def test_what_a_deletion_left_is_removed_at_the_next_start_and_what_was_put_aside_is_known() -> None:
    with Simulation(7, QUICK) as sim:
        machine = Machine(sim, file_delete_delay_ms=60_000)
        store = machine.bench.store
        other = TopicPartition("other", 3)
        sim.run(machine.world.perform(create_log(store, other, TOPIC_ID)))
        machine.append(b"a")
        machine.world.call(store.delete, TP)
        machine.world.call(store.put_aside, other, TOPIC_ID)
        sim.advance(1)
        machine.restart(power_loss=False)
        sim.advance(1)
        store = machine.bench.store
        left = [name for name in machine.world.disk.list(DATA) if names.is_deleted_directory(name)]
        assert (left, store.logs, store.retired.kept()) == ([], {}, [(TOPIC_ID, 3)])


def test_files_that_no_descriptor_was_left_to_remove_are_removed_later() -> None:
    with Simulation(8, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.storage.fail("unlink", "*", error=Exhausted(errno.EMFILE, "none left"), times=2)
        machine.world.call(machine.bench.store.delete, TP)
        sim.advance(10)
        assert not [name for name in machine.world.disk.list(DATA) if "orders" in name]


def test_a_cut_that_fails_takes_the_log_offline() -> None:
    with Simulation(9, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.append(b"b")
        machine.storage.fail("truncate", "*.log", errno.EIO)
        assert not sim.run(machine.world.perform(machine.bench.truncate(1)))
        assert machine.bench.offline == [machine.log]


def test_a_cut_reads_again_if_the_segments_changed_while_it_could_not_read() -> None:
    """The file may be gone, by retention or compaction: that says nothing about the disk."""
    with Simulation(9, QUICK) as sim:
        machine = Machine(sim)
        rolled(machine)
        sim.advance(5)
        log = machine.log
        fault = machine.storage.fail("read", str(log.segments[2].file.path), errno.ENOENT)

        async def play() -> bool:
            cut = asyncio.ensure_future(machine.bench.truncate(2))
            await asyncio.sleep(0)
            assert fault.struck < 1, "the job that looks for the place has only begun"
            log.drop_oldest()
            assert await cut
            return fault.struck == 1

        assert sim.run(machine.world.perform(play()))
        assert (log.log_start, log.log_end, log.offline) == (1, 2, None)


def test_a_log_that_fails_while_its_cut_waits_is_not_cut() -> None:
    with Simulation(9, QUICK) as sim:
        machine = Machine(sim)
        rolled(machine)
        log = machine.log

        async def play() -> bool:
            cut = asyncio.ensure_future(machine.bench.truncate(2))
            await asyncio.sleep(0)
            assert not cut.done(), "a snapshot of the producers is on its way"
            log.storage_failed(OSError(errno.EIO, "failed"))
            return await cut

        assert not sim.run(machine.world.perform(play()))
        assert log.log_end == 3


def test_a_snapshot_that_a_cut_cannot_read_is_removed() -> None:
    with Simulation(9, QUICK) as sim:
        machine = Machine(sim)
        rolled(machine)
        sim.advance(5)
        found = [each for each in machine.world.disk.list(machine.log.directory) if each.endswith(names.SNAPSHOT)]
        assert [names.base_offset_of(name) for name in found][-1] == 3
        first = found[0]
        machine.storage.damage(machine.log.directory / first, 2, b"\xff")
        assert sim.run(machine.world.perform(machine.bench.truncate(2)))
        assert first not in machine.world.disk.list(machine.log.directory)


def test_an_epoch_that_cannot_be_is_damage_where_it_begins() -> None:
    with Simulation(10, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a", epoch=1)
        machine.world.call(machine.log.roll)
        machine.append(b"b", epoch=9)
        machine.world.call(machine.log.contradicted, "leader epoch 9 where the highest is 5", 5)
        assert list(machine.log.reads.damage) == [1]
        assert machine.log.reads.damage[1].position == 0


def test_of_two_damages_of_one_segment_the_first_counts() -> None:
    with Simulation(11, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        path = machine.log.active.file.path
        for position, expected in ((50, 50), (70, 50), (20, 20)):
            machine.world.call(machine.log.found_damaged, BadBatch(path, position, "bad"))
            assert machine.log.reads.damage[0].position == expected
        elsewhere = path.with_name(f"{999:020}.log")
        machine.world.call(machine.log.found_damaged, BadBatch(elsewhere, 1, "bad"))
        assert list(machine.log.reads.damage) == [0], "of a segment that is gone"


def loaded(machine: Machine, **asked: int) -> LoadedLog:
    request = LoadRequest(
        machine.log.directory, **{"recovery_point": 0, "log_start": 0, **asked}, clean=False, index_interval=200
    )
    return machine.sim.run(machine.world.perform(finished(machine.world, load_log, request)))


def test_a_log_that_ended_before_its_start_is_emptied_and_begins_there() -> None:
    with Simulation(12, QUICK) as sim:
        machine = Machine(sim)
        rolled(machine)
        log = loaded(machine, log_start=500)
        assert ([segment.base_offset for segment in log.segments], log.log_start, log.log_end) == ([500], 500, 500)
        assert "the log ended at 3, before its start 500: emptied" in log.repairs
        assert [line for line in log.repairs if line.startswith("dropped")], (
            "and what lies before its start goes unsaid"
        )


def test_segments_behind_a_cut_are_dropped_and_logged() -> None:
    with Simulation(13, QUICK) as sim:
        machine = Machine(sim)
        rolled(machine)
        second = machine.log.segments[1].file
        machine.storage.damage(second.path, 65, b"\xff")
        log = loaded(machine)
        assert ([segment.base_offset for segment in log.segments], log.log_end) == ([0, 1], 1)
        dropped = [line for line in log.repairs if line.startswith("dropped")]
        assert dropped == [f"dropped {base:020}.log, which lies beyond the cut" for base in (3, 2)]


def test_a_snapshot_that_cannot_be_read_is_logged() -> None:
    with Simulation(14, QUICK) as sim:
        machine = Machine(sim)
        rolled(machine, 2)
        sim.advance(5)
        (name,) = (each for each in machine.world.disk.list(machine.log.directory) if each.endswith(names.SNAPSHOT))
        machine.storage.damage(machine.log.directory / name, 2, b"\xff")
        assert [line for line in loaded(machine).repairs if line.startswith(f"removed {name}: ")]


def test_a_checkpoint_that_was_renamed_just_before_a_kill_is_durable_after_the_start() -> None:
    """The page cache has its name, the disk does not. A start sends what it reads to others; a power cut may follow."""
    with Simulation(5, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a", b"b", b"c")
        machine.log.move_high_watermark(3)
        machine.world.call(machine.log.raise_log_start, 2)
        sim.crash_at("a", lambda event: event.kind == "sync_dir" and event.subject == str(DATA), power_loss=False)
        machine.world.call(machine.bench.store.log_starts.write)
        sim.loop.run_until(lambda: not sim.is_alive("a"))
        assert machine.storage.durable_bytes(DATA / names.LOG_STARTS) is None
        machine.restart(power_loss=False)
        assert machine.log.durability.log_start == 2
        machine.restart(power_loss=True)
        assert machine.log.log_start == 2


def test_a_mistake_while_logs_are_made_is_logged_for_each_and_counted() -> None:
    with Simulation(15, QUICK) as sim:
        machine = Machine(sim)
        others = [TopicPartition("other", index) for index in range(2)]
        machine.storage.fail("sync_dir", str(DATA), error=RuntimeError("a mistake"))
        sim.forgives = True
        made = sim.run(machine.world.perform(machine.bench.store.create_all([(each, TOPIC_ID) for each in others])))
        assert [each.code for each in made if isinstance(each, KafkaError)] == [Code.KAFKA_STORAGE_ERROR] * 2
        assert (list(machine.bench.store.logs), machine.world.failures.counts["job"]) == ([TP], 1)


def test_a_name_that_the_checkpoints_still_speak_of_is_not_given_to_a_new_log() -> None:
    """What they say of the deleted one would cut the new one, or empty it, at the next start."""
    with Simulation(16, QUICK) as sim:
        machine = Machine(sim)
        store = machine.bench.store
        machine.append(b"a")
        machine.world.call(machine.log.flush)
        machine.settle()
        sim.run(machine.world.perform(store.recovery_points.written()))
        machine.world.call(store.delete, TP)
        machine.storage.fail("sync", f"*{names.RECOVERY_POINTS}*", errno.EIO, times=None)
        with pytest.raises(KafkaError, match="cannot be created"):
            sim.run(machine.world.perform(create_log(store, TP, TOPIC_ID)))
        another = sim.run(machine.world.perform(create_log(store, TopicPartition("other", 3), TOPIC_ID)))
        assert another.log_end == 0, "of which they never spoke"
        machine.storage.mend()
        sim.run(machine.world.perform(create_log(store, TP, TOPIC_ID)))
        written = machine.storage.durable_bytes(DATA / names.RECOVERY_POINTS)
        assert TP not in decode_offsets(written or b"")


def test_nothing_of_a_deleted_log_is_remembered_once_its_last_job_has_ended() -> None:
    with Simulation(17, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.world.call(machine.log.roll)
        deleted = ref(machine.log)
        machine.world.call(machine.bench.store.delete, TP)
        sim.advance(10)
        gc.collect()
        assert deleted() is None


def test_a_store_that_is_closed_renames_nothing_any_more() -> None:
    with Simulation(18, QUICK) as sim:
        machine = Machine(sim)
        machine.storage.fail("rename", "*/orders-0", errno.EIO)
        machine.world.call(machine.bench.store.delete, TP)
        machine.close()
        sim.advance(10)
        assert [name for name in machine.world.disk.list(DATA) if "orders" in name] == ["orders-0"]


def test_a_log_start_is_durable_once_its_checkpoint_is() -> None:
    with Simulation(19, QUICK) as sim:
        machine = Machine(sim)
        log = machine.log
        for _ in range(3):
            machine.append(b"a")
        log.move_high_watermark(3)
        log.raise_log_start(2)
        kept: list[int] = []
        machine.world.call(machine.bench.store.keep_start, log, lambda: kept.append(log.durability.log_start))
        assert (kept, log.durability.log_start) == ([], 0)
        sim.run(sim.until(lambda: bool(kept)))
        assert kept == [2]
        written = machine.storage.durable_bytes(DATA / names.LOG_STARTS)
        assert decode_offsets(written or b"")[TP] == 2


def test_of_the_snapshots_that_wait_none_is_begun_once_their_log_is_closed() -> None:
    """Its directory may be another log's by then."""
    with Simulation(20, QUICK) as sim:
        machine = Machine(sim)
        snapshots = ProducerSnapshots(machine.world, DATA)
        called: list[str] = []
        for offset in (1, 2):
            machine.world.call(snapshots.write, offset, [], lambda result: called.append("written"))
        machine.world.call(snapshots.when_idle, lambda: called.append("idle"))
        snapshots.stop()
        sim.advance(10)
        assert called == ["idle", "written"]
        assert [name for name in machine.world.disk.list(DATA) if name.endswith(names.SNAPSHOT)] == [
            f"{1:020}{names.SNAPSHOT}"
        ]


def test_a_mistake_in_an_append_takes_the_log_offline() -> None:
    """Who knows what was written."""
    with Simulation(21, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.storage.fail("append", "*.log", error=RuntimeError("a mistake"))
        sim.forgives = True
        assert machine.refused(b"b") is Code.KAFKA_STORAGE_ERROR
        assert (machine.bench.offline, machine.log.log_end) == ([machine.log], 1)
        assert machine.refused(b"c") is Code.KAFKA_STORAGE_ERROR


def test_of_a_log_that_failed_nothing_becomes_durable() -> None:
    """A sync that was begun before may succeed, and yet nobody may build on it."""
    with Simulation(22, QUICK) as sim:
        machine = Machine(sim)
        called: list[int] = []
        machine.log.durable_listener = lambda: called.append(machine.log.durable_end)
        machine.append(b"a")
        machine.world.call(machine.log.flush)
        assert machine.log.durability.under_way
        machine.world.call(machine.log.storage_failed, OSError(errno.EIO, "failed"))
        sim.advance(10)
        assert (called, machine.log.durable_end) == ([], 0)


def test_a_log_that_began_anew_waits_for_room_in_which_its_start_can_be_written() -> None:
    with Simulation(23, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        fault = machine.storage.fail("append", f"*{names.LOG_STARTS}*", errno.ENOSPC, times=3)
        assert sim.run(machine.world.perform(machine.bench.store.restart(machine.log, 50)))
        assert (fault.struck, machine.log.offline) == (3, None)


def test_epochs_that_a_broken_disk_refused_take_the_log_offline_and_are_not_written_again() -> None:
    with Simulation(24, QUICK) as sim:
        machine = Machine(sim)
        fault = machine.storage.fail("append", f"*{names.EPOCH_CHECKPOINT}*", errno.EIO, times=None)
        machine.append(b"a", epoch=4)
        sim.advance(10)
        assert (machine.bench.offline, fault.struck) == ([machine.log], 1)


def test_an_aborted_transaction_for_which_there_was_no_room_is_indexed_when_its_segment_ends() -> None:
    with Simulation(5, QUICK) as sim:
        machine = Machine(sim)
        machine.storage.fail("append", f"*{names.TXN_INDEX}", errno.ENOSPC)
        machine.world.call(abort_some, machine.log, 10)
        (aborted,) = machine.log.aborted_transactions(0, machine.log.log_end)
        machine.world.call(machine.log.roll)
        index = machine.storage.file(names.segment_file(machine.log.directory, 0, names.TXN_INDEX))
        assert TransactionIndex.decode(bytes(index.data)) == [aborted]
