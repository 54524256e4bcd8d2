"""A simulated disk that fails: nothing acknowledged is lost, nothing is claimed that is not so, and it goes on."""

from __future__ import annotations

import errno
from pathlib import PurePath

import pytest

from highwater.errors import Code, KafkaError
from highwater.log import names, peek
from highwater.log.log import Log
from highwater.log.truncation import restart
from highwater.sim import Knobs, Simulation, SimWorld
from highwater.world import Exhausted, Poisoned, gravest
from tests.unit.log.bench import TOPIC_ID, TP, Bench, all_records, append, batch, create_log, settings
from tests.unit.log.test_recovery import abort_some

DATA = PurePath("/data")
QUICK = Knobs(cold_read=0.0)


class Machine:
    """A node's disk in a simulation, with one log on it."""

    def __init__(self, sim: Simulation, **changes: object) -> None:
        self.sim = sim
        self.world: SimWorld = sim.world("a")
        self.storage = sim.storage("a")
        self.storage.provide(DATA)
        self.bench = Bench(self.world, DATA, settings(**changes))
        sim.run(self.world.perform(self.bench.create()))

    @property
    def log(self) -> Log:
        return self.bench.log

    def append(self, *values: bytes, epoch: int = 0) -> int:
        return self.world.call(append, self.log, batch(values), epoch).base_offset

    def refused(self, *values: bytes) -> Code:
        with pytest.raises(KafkaError) as refusal:
            self.append(*values)
        return refusal.value.code

    def settle(self) -> None:
        self.sim.run(self.sim.until(lambda: self.log.durable_end == self.log.log_end or self.log.offline is not None))

    def values(self) -> list[bytes]:
        found = self.sim.run(self.world.perform(all_records(self.world, self.log)))
        assert [offset for offset, _ in found] == list(range(self.log.log_start, self.log.log_end))
        return [value for _, value in found]

    def restart(self, power_loss: bool) -> None:
        self.sim.crash("a", power_loss)
        self.world = self.sim.restart("a")
        self.bench = Bench(self.world, DATA, self.bench.config)
        self.sim.run(self.world.perform(self.bench.store.open()))

    def close(self) -> None:
        self.sim.run(self.world.perform(self.bench.store.close(1)))


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC])
@pytest.mark.parametrize("pattern", ["*.log", "*.index", "*.timeindex"])
def test_an_append_that_fails_in_any_file_leaves_nothing_behind(pattern: str, code: int) -> None:
    with Simulation(1, QUICK) as sim:
        machine = Machine(sim, index_interval_bytes=0)
        stored: list[bytes] = []
        for number in range(6):
            machine.storage.fail("append", pattern, code)
            for _ in range(3):
                value = b"%d" % len(stored)
                try:
                    assert machine.append(value) == len(stored)
                    stored.append(value)
                except KafkaError as refused:
                    assert refused.code is Code.KAFKA_STORAGE_ERROR
            machine.storage.mend()
            assert machine.values() == stored
            assert number < len(stored)
            assert machine.log.active.offset_index.entries == len(stored) - 1
        assert machine.log.offline is None
        machine.restart(power_loss=False)
        assert machine.values() == stored


def test_retention_frees_a_full_disk_though_no_segment_can_be_begun() -> None:
    with Simulation(5) as sim:
        machine = Machine(sim, segment_bytes=300, retention_bytes=0, cleanup_policy=("delete",))
        for _ in range(10):
            machine.append(b"value")
        machine.log.move_high_watermark(machine.log.log_end)
        machine.storage.fail("create", "*.log", errno.ENOSPC)
        segments = len(machine.log.segments)
        assert sim.run(machine.world.perform(machine.bench.store.expiry.apply(machine.log))) == segments - 1
        assert machine.log.offline is None
        assert machine.append(b"next") == 10


def test_a_full_disk_at_a_roll_leaves_no_half_made_segment() -> None:
    for pattern in ("*.log", "*.index", "*.timeindex"):
        with Simulation(6, QUICK) as sim:
            machine = Machine(sim, segment_bytes=300)
            while len(machine.log.segments) == 1:
                machine.append(b"value")
            while machine.log.active.size < 200:
                machine.append(b"value")
            machine.storage.fail("create", f"*{machine.log.log_end:020d}{pattern[1:]}", errno.ENOSPC)
            end = machine.log.log_end
            assert machine.refused(b"x" * 90) is Code.KAFKA_STORAGE_ERROR
            machine.log.config = settings(segment_bytes=10_000)
            assert machine.append(b"x" * 90) == end
            machine.close()
            machine.restart(power_loss=False)
            assert machine.log.log_end == end + 1
            assert machine.values()[-1] == b"x" * 90


def test_a_stop_on_a_full_disk_ends_and_claims_nothing() -> None:
    with Simulation(7, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.storage.fail("append", "*.tmp", errno.ENOSPC, times=None)
        machine.close()
        assert machine.world.disk.stat(DATA / ".kafka_cleanshutdown") is None
        machine.storage.mend()
        machine.restart(power_loss=False)
        assert machine.values() == [b"a"]


def test_in_flush_mode_a_power_cut_costs_nothing_that_was_durable() -> None:
    for seed in range(40):
        with Simulation(seed, QUICK) as sim:
            machine = Machine(sim, flush_messages=1, segment_bytes=400)
            point = sim.crash_at("a", lambda event: "orders-0" in event.subject, nth=5 + seed * 3)
            stored: list[bytes] = []
            durable = 0
            while point.hit is None and len(stored) < 60:
                value = b"%d" % len(stored)
                try:
                    machine.append(value)
                    stored.append(value)
                    durable = max(durable, machine.log.durable_end)
                    sim.advance(0.003)
                    durable = max(durable, machine.log.durable_end)
                except BaseException:  # the crash itself, wherever it fell
                    if point.hit is None:
                        raise
            machine.restart(power_loss=True)
            found = machine.values()
            assert len(found) >= durable
            assert found[:durable] == stored[:durable]


def test_the_epochs_are_written_once_there_is_room() -> None:
    with Simulation(9) as sim:
        machine = Machine(sim)
        sim.advance(1)
        machine.storage.fail("append", "*checkpoint.tmp", errno.ENOSPC, times=3)
        machine.world.call(machine.log.assign_epoch, 4, 0)
        machine.append(b"a", epoch=4)
        machine.world.call(machine.log.flush)
        machine.settle()
        assert machine.log.recovery_point == 0, "recovery would find no trace of the epoch beyond it"
        sim.advance(10)
        assert machine.log.recovery_point == 1
        assert machine.storage.durable_bytes(DATA / "orders-0" / "leader-epoch-checkpoint") == b"0\n1\n4 0\n"


def test_a_new_segments_name_is_durable_before_what_is_in_it_counts() -> None:
    for seed in range(10):
        with Simulation(seed, QUICK) as sim:
            machine = Machine(sim, flush_messages=1, segment_bytes=300)
            # Without them nothing else syncs the directory.
            machine.storage.fail("append", "*.snapshot.tmp", errno.ENOSPC, times=None)
            for number in range(8):
                machine.append(b"%d" % number)
                machine.settle()
            assert len(machine.log.segments) > 1
            machine.restart(power_loss=True)
            assert machine.values() == [b"%d" % number for number in range(8)]


def test_a_sync_that_ends_after_the_log_went_offline_makes_nothing_durable() -> None:
    with Simulation(12, QUICK) as sim:
        machine = Machine(sim)
        moved: list[int] = []
        machine.log.durable_listener = lambda: moved.append(machine.log.durable_end)
        machine.append(b"value")
        machine.world.call(machine.log.flush)
        assert machine.log.durability.under_way
        machine.world.call(machine.log.storage_failed, OSError(errno.EIO, "a file beside the log failed"))
        sim.advance(60)
        assert (machine.log.durable_end, moved) == (0, [])


def test_the_indexes_of_a_closed_segment_are_durable_below_the_recovery_point() -> None:
    """In flush mode all of it was synced but its indexes when it was rolled."""
    with Simulation(11, QUICK) as sim:
        machine = Machine(sim, flush_messages=1, segment_bytes=300, index_interval_bytes=0)
        while len(machine.log.segments) < 3:
            machine.append(b"value")
            machine.settle()
        assert machine.log.recovery_point > machine.log.active.base_offset
        sim.advance(1)
        snapshots = [name for name in machine.world.disk.list(DATA / "orders-0") if name.endswith(".snapshot")]
        assert snapshots == [f"{segment.base_offset:020d}.snapshot" for segment in machine.log.segments[1:]]
        for segment in machine.log.segments[:-1]:
            for file in segment.files:
                assert file.size > 0
                assert machine.storage.durable_bytes(file.path) == bytes(machine.storage.file(file.path).data)


def test_a_sync_for_which_no_descriptor_was_left_is_tried_until_it_is_done() -> None:
    with Simulation(9, QUICK) as sim:
        machine = Machine(sim, flush_messages=1)
        machine.append(b"a")
        machine.settle()
        fault = machine.storage.fail("open", "*.log", errno.EMFILE, nth=2, times=3)  # the append's own comes first
        machine.append(b"b")
        sim.run(sim.until(lambda: fault.struck == 2))
        assert machine.log.offline is None
        assert machine.log.durable_end == 1, "what was not synced does not count"
        machine.settle()
        assert (machine.log.durable_end, fault.struck) == (2, 3)
        machine.restart(power_loss=True)
        assert machine.values() == [b"a", b"b"]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC])
def test_whatever_a_sync_returns_is_final_for_its_log(code: int) -> None:
    with Simulation(10, QUICK) as sim:
        machine = Machine(sim, flush_messages=1)
        machine.storage.fail("sync", "*.log", code)
        machine.append(b"a")
        machine.settle()
        assert machine.log.offline is not None
        assert machine.log.durable_end == 0


def test_a_new_segment_whose_directory_could_not_be_opened_is_synced_with_it_later() -> None:
    with Simulation(11, QUICK) as sim:
        machine = Machine(sim, flush_messages=1, segment_bytes=300)
        machine.settle()
        machine.storage.fail("open", "*/orders-0", errno.EMFILE, times=2)
        while len(machine.log.segments) == 1:
            machine.append(b"value")
            machine.settle()
        assert machine.log.offline is None
        assert machine.log.durability.directory_in_step
        for segment in machine.log.segments:
            assert machine.storage.durable_bytes(segment.file.path) is not None, "its name may be gone"
        end = machine.log.log_end
        machine.restart(power_loss=True)
        assert machine.log.log_end == end


def test_a_deletion_whose_directory_could_not_be_opened_is_synced_later() -> None:
    """Until then a power cut may bring the segment back, and its log start must be written elsewhere."""
    with Simulation(11, QUICK) as sim:
        machine = Machine(sim, flush_messages=1, segment_bytes=300)
        while len(machine.log.segments) < 3:
            machine.append(b"value")
        machine.settle()
        sim.run(sim.until(lambda: machine.log.durability.directory_in_step))
        path = machine.log.segments[0].file.path
        assert machine.storage.durable_bytes(path) is not None
        machine.log.move_high_watermark(machine.log.log_end)
        fault = machine.storage.fail("open", "*/orders-0", errno.EMFILE, times=2)
        machine.world.call(machine.log.drop_oldest)
        machine.world.call(machine.log.flush)
        sim.run(sim.until(lambda: machine.log.durability.directory_in_step))
        assert fault.struck == 2
        assert machine.storage.durable_bytes(path) is None


def test_an_error_of_one_file_outweighs_a_missing_descriptor_of_another() -> None:
    short, broken = Exhausted(errno.EMFILE, "none left"), OSError(errno.EIO, "broken")
    assert gravest([short, broken]) is gravest([broken, short]) is broken
    assert gravest([short]) is short
    assert gravest([]) is None


def test_a_look_up_for_which_no_descriptor_was_left_takes_nothing_offline() -> None:
    with Simulation(12, Knobs(cold_read=1.0, warm_tail=0)) as sim:
        machine = Machine(sim)
        for number in range(5):
            machine.append(b"%d" % number)
        machine.restart(power_loss=False)
        fault = machine.storage.fail("open", "*", errno.EMFILE, times=2)
        located: list[bool] = []
        machine.world.call(machine.log.reads.locate_later, 2, lambda: located.append(True))
        sim.run(sim.until(lambda: bool(located)))
        machine.storage.mend()
        assert fault.struck
        assert machine.log.offline is None
        assert machine.values() == [b"%d" % number for number in range(5)]


def test_a_late_write_of_a_deleted_log_does_not_reach_the_next_log_of_its_name() -> None:
    """Its producers would be taken for those of the new log, and what they send for repeated."""
    for seed in range(30):
        with Simulation(seed) as sim:
            machine = Machine(sim, flush_messages=1)
            machine.append(b"a")
            machine.settle()
            log = machine.log
            machine.world.call(log.assign_epoch, 7, 1)
            machine.storage.drag = 100.0  # so that the write is under way for long
            machine.world.call(log.snapshots.write, 1, log.producers.snapshot(), lambda result: None)
            machine.storage.drag = 1.0
            machine.world.call(machine.bench.store.delete, TP)
            machine.world.call(log.epoch_file.write)
            sim.run(machine.world.perform(create_log(machine.bench.store, TP, TOPIC_ID)))
            sim.advance(5)
            found = machine.world.disk.list(machine.bench.partition_directory)
            assert not [name for name in found if not name.startswith(f"{0:020d}.") and name != "partition.metadata"]


def test_a_log_that_began_anew_does_so_after_a_power_cut_too() -> None:
    """The old one would be whole, and its end beyond what the leader has now."""
    for seed in range(20):
        with Simulation(seed, QUICK) as sim:
            machine = Machine(sim, segment_bytes=300, flush_messages=1)
            for number in range(6):
                machine.append(b"%d" % number)
            machine.settle()
            # What is synced in the background, and the directory beside the epochs, has to wait.
            fault = machine.storage.fail("open", f"*/{10:020d}.log", errno.EMFILE, nth=2)
            machine.storage.fail("append", "*/leader-epoch-checkpoint*", errno.ENOSPC, times=None)
            assert sim.run(machine.world.perform(restart(machine.world, machine.log, 10)))
            assert fault.struck
            machine.storage.mend()
            machine.restart(power_loss=True)
            assert (machine.log.log_start, machine.log.log_end) == (10, 10)


def test_a_cut_that_is_obsolete_is_not_made() -> None:
    with Simulation(1, QUICK) as sim:
        machine = Machine(sim)
        for number in range(3):
            machine.append(b"%d" % number)
        cut = machine.bench.store.truncate(machine.log, 1, still_meant=lambda: False)
        assert not sim.run(machine.world.perform(cut))
        assert machine.values() == [b"0", b"1", b"2"]


@pytest.mark.parametrize("offset", [0, 2, 10])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_log_begins_anew_once_there_are_descriptors_again(offset: int, nth: int) -> None:
    """Wherever it begins: until the new segment is there the log is as it was."""
    with Simulation(5) as sim:
        machine = Machine(sim, flush_messages=1)
        machine.append(b"a", b"b", b"c")
        machine.settle()
        fault = machine.storage.fail("create", "*/orders-0/*", errno.EMFILE, nth=nth)
        assert sim.run(machine.world.perform(restart(machine.world, machine.log, offset)))
        assert fault.struck
        assert machine.log.offline is None
        assert (machine.log.log_start, machine.log.log_end) == (offset, offset)
        assert machine.append(b"d") == offset
        machine.settle()
        machine.restart(power_loss=True)
        assert machine.log.log_end == offset + 1


def test_a_snapshot_that_was_on_its_way_is_gone_when_a_log_has_begun_anew() -> None:
    """It would be taken for the producers of the new one."""
    for seed in range(10):
        with Simulation(seed) as sim:
            machine = Machine(sim)
            machine.append(b"a", b"b", b"c")
            machine.world.call(machine.log.roll)
            assert sim.run(machine.world.perform(restart(machine.world, machine.log, 2)))
            sim.advance(5)
            found = machine.world.disk.list(machine.bench.partition_directory)
            assert not [name for name in found if name.endswith(names.SNAPSHOT)]


def test_a_log_whose_old_segments_are_gone_and_whose_new_one_cannot_be_named_is_offline() -> None:
    """There is nothing left that it could be until there is room."""
    with Simulation(5, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a", b"b", b"c")
        machine.storage.fail("rename", f"*{names.ASIDE}", errno.ENOSPC)
        assert not sim.run(machine.world.perform(restart(machine.world, machine.log, 10)))
        assert machine.log.offline is not None


@pytest.mark.parametrize("poisoned", [False, True])
def test_an_index_of_aborted_transactions_whose_end_is_unknown_takes_its_log_offline(poisoned: bool) -> None:
    """Room that is short comes back. What a failed write left in the file does not go by itself."""
    with Simulation(5, QUICK) as sim:
        machine = Machine(sim)
        error = (Poisoned if poisoned else OSError)(errno.ENOSPC, "no room")
        machine.storage.fail("append", f"*{names.TXN_INDEX}", error=error)
        machine.world.call(abort_some, machine.log, 10)
        assert (machine.log.offline is not None) is poisoned


def test_a_log_is_not_made_in_the_directory_of_a_deleted_one() -> None:
    """It would go with it, once that can be renamed."""
    with Simulation(5, QUICK) as sim:
        machine = Machine(sim)
        store = machine.bench.store
        machine.storage.fail("rename", "*/orders-0", errno.EIO)
        machine.world.call(store.delete, TP)
        with pytest.raises(KafkaError, match="still that of a deleted log"):
            sim.run(machine.world.perform(create_log(store, TP, TOPIC_ID)))
        sim.run(sim.until(lambda: not store.retired.pending))
        sim.run(machine.world.perform(create_log(store, TP, TOPIC_ID)))
        sim.advance(100)
        assert machine.append(b"a") == 0
        assert machine.values() == [b"a"]


def test_slices_given_to_readers_are_invalid_once_the_log_is_deleted() -> None:
    with Simulation(5, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        (part,) = machine.world.call(machine.log.read, 0, 100, 1, True, peek.cached)
        assert part.intact()
        machine.world.call(machine.bench.store.delete, TP)
        assert not part.intact()


def test_a_log_start_is_in_its_checkpoint_until_the_deletions_below_it_are_durable() -> None:
    """A power cut may bring the segment back until then."""
    with Simulation(11, QUICK) as sim:
        machine = Machine(sim, segment_bytes=300)
        while len(machine.log.segments) < 3:
            machine.append(b"value")
        sim.run(sim.until(lambda: machine.log.durability.directory_in_step))
        machine.log.move_high_watermark(machine.log.log_end)
        machine.world.call(machine.log.drop_oldest)
        starts = machine.bench.store.log_starts
        assert not machine.log.durability.directory_in_step
        sim.run(machine.world.perform(starts.written()))
        path = DATA / names.LOG_STARTS
        assert f"orders 0 {machine.log.log_start}\n".encode() in (machine.storage.durable_bytes(path) or b"")
        machine.world.call(machine.log.flush)
        sim.run(sim.until(lambda: machine.log.durability.directory_in_step))
        sim.run(machine.world.perform(starts.written()))
        assert b"orders" not in (machine.storage.durable_bytes(path) or b"")
