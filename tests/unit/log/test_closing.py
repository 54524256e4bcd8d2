"""What a stop makes durable and what it may claim; and what is kept of logs that others replaced."""

from __future__ import annotations

import asyncio
import errno
from pathlib import PurePath

import pytest

from highwater.log import names
from highwater.log.checkpoint import decode_epochs
from highwater.log.clean_stop import PATIENCE_SECONDS
from highwater.log.scan import BadBatch
from highwater.log.truncation import PASSING_SECONDS, restart
from highwater.sim import Simulation
from tests.unit.log.bench import TOPIC_ID, TP, append, batch
from tests.unit.log.test_faults import DATA, QUICK, Machine


def is_marked(machine: Machine) -> bool:
    return names.CLEAN_SHUTDOWN in machine.world.disk.list(DATA)


def test_a_stop_in_order_is_marked() -> None:
    with Simulation(1, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.close()
        assert is_marked(machine)
        assert machine.storage.durable_bytes(DATA / names.CLEAN_SHUTDOWN) == b'{"version":0,"brokerEpoch":1}'


def test_a_store_that_is_closed_writes_no_checkpoint_any_more() -> None:
    """The next life may be at work in its directory."""
    with Simulation(1, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.close()
        store, called = machine.bench.store, []
        before = machine.storage.durable_bytes(DATA / names.HIGH_WATERMARKS)
        machine.log.high_watermark = 1
        machine.world.call(store.high_watermarks.write, lambda: called.append("written"))
        sim.advance(5)
        assert (called, machine.storage.durable_bytes(DATA / names.HIGH_WATERMARKS)) == ([], before)


@pytest.mark.parametrize(
    ("operation", "pattern"),
    [
        ("sync", "*.log"),
        ("sync", "*.index"),
        ("sync", "*.timeindex"),
        ("sync", "*.snapshot*"),
        ("append", "*.snapshot*"),
    ],
)
def test_a_stop_that_could_not_make_all_durable_is_not_marked(operation: str, pattern: str) -> None:
    with Simulation(2, QUICK) as sim:
        machine = Machine(sim)
        machine.world.call(append, machine.log, batch([b"a"], pid=7, epoch=0, sequence=0))
        machine.storage.fail(operation, pattern, times=None)  # type: ignore[arg-type]
        machine.close()
        assert machine.bench.offline == [machine.log]
        assert not is_marked(machine)


BESIDE_THE_LOG = ["*.timeindex", "*.snapshot*", f"*{names.HIGH_WATERMARKS}*", f"*{names.CLEAN_SHUTDOWN}*"]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC])
@pytest.mark.parametrize("pattern", BESIDE_THE_LOG)
def test_a_stop_waits_a_moment_for_descriptors_and_disk_space(pattern: str, code: int) -> None:
    with Simulation(2, QUICK) as sim:
        machine = Machine(sim)
        machine.world.call(append, machine.log, batch([b"a"], pid=7, epoch=0, sequence=0))
        machine.storage.fail("append", pattern, code, times=4)
        machine.close()
        assert machine.bench.offline == []
        assert is_marked(machine)


@pytest.mark.parametrize("pattern", BESIDE_THE_LOG)
def test_a_stop_without_disk_space_ends_soon_and_is_not_marked(pattern: str) -> None:
    """Nothing is wrong with the disk, so no log goes offline. The next start scans the logs."""
    with Simulation(2, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.storage.fail("append", pattern, errno.ENOSPC, times=None)
        begun = sim.now
        machine.close()
        assert machine.bench.offline == []
        assert not is_marked(machine)
        assert sim.now - begun < 2 * PATIENCE_SECONDS


def test_a_stop_with_known_damage_is_not_marked() -> None:
    """Only this process knows of the damage, and after a marked stop the broker may be elected."""
    with Simulation(2, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.world.call(machine.log.found_damaged, BadBatch(machine.log.active.file.path, 0, "rotten"))
        machine.close()
        assert not is_marked(machine)


def test_a_log_without_its_first_segment_is_incomplete_after_every_later_stop() -> None:
    with Simulation(2, QUICK) as sim:
        machine = Machine(sim, segment_bytes=70)
        for value in (b"a", b"b", b"c"):
            machine.append(value)
        machine.close()
        entries = machine.storage.directory(machine.log.directory).entries
        for name in [name for name in entries if name.startswith(f"{0:020d}.")]:
            del entries[name]
        for stop in (machine.close, lambda: None, machine.close):
            machine.restart(power_loss=False)
            assert "begins at 1, but began at 0" in str(machine.log.incomplete)
            stop()


def test_a_full_disk_that_a_sync_reports_at_a_stop_takes_the_log_offline() -> None:
    with Simulation(2, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.storage.fail("sync", "*.log", errno.ENOSPC)
        machine.close()
        assert machine.bench.offline == [machine.log]
        assert not is_marked(machine)


def test_epochs_that_a_full_disk_refused_are_written_by_the_stop() -> None:
    with Simulation(3, QUICK) as sim:
        machine = Machine(sim)
        fault = machine.storage.fail("append", f"*{names.EPOCH_CHECKPOINT}*", errno.ENOSPC)
        machine.append(b"a", epoch=4)
        sim.run(sim.until(lambda: fault.struck > 0))
        assert not machine.log.epoch_file.in_step
        machine.close()
        assert is_marked(machine)
        written = machine.storage.durable_bytes(machine.log.directory / names.EPOCH_CHECKPOINT)
        assert decode_epochs(written or b"") == [(4, 0)]


@pytest.mark.parametrize(("code", "is_offline"), [(errno.EIO, True), (errno.ENOSPC, False)])
def test_a_snapshot_of_producers_that_is_not_written_ends_the_log_unless_room_is_short(
    code: int, is_offline: bool
) -> None:
    with Simulation(4, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        fault = machine.storage.fail("append", "*.snapshot*", code)
        machine.world.call(machine.log.roll)
        sim.run(sim.until(lambda: fault.struck > 0))
        sim.advance(5)
        assert (machine.log.offline is not None) is is_offline


@pytest.mark.parametrize(("end", "is_kept"), [(9, True), (10, False), (11, False), (None, False)])
def test_a_log_put_aside_is_deleted_once_another_log_has_its_committed_records(end: int | None, is_kept: bool) -> None:
    with Simulation(5, QUICK) as sim:
        machine = Machine(sim)
        store = machine.bench.store
        for number in range(10):
            machine.append(b"%d" % number)
        machine.log.high_watermark = 10
        machine.world.call(store.put_aside, TP, TOPIC_ID)
        (aside,) = (name for name in machine.world.disk.list(DATA) if names.stray_partition(name) is not None)
        assert names.stray_high_watermark(PurePath(aside).name) == 10
        machine.world.call(store.replaced, TP, TOPIC_ID, end)
        sim.advance(5)
        assert (aside in machine.world.disk.list(DATA)) is is_kept
        assert store.retired.keeps(TOPIC_ID, TP.partition) is is_kept


@pytest.mark.parametrize("committed", [None, 2])
def test_a_log_that_could_not_be_loaded_is_put_aside_with_what_the_checkpoint_says_of_it(committed: int | None) -> None:
    with Simulation(6, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a", b"b")
        machine.close()
        machine.restart(power_loss=False)
        store = machine.bench.store
        store.unloaded[TP] = OSError("damaged")
        store.logs.pop(TP).close()
        store.found.high_watermarks = {} if committed is None else {TP: committed}
        machine.world.call(store.put_aside, TP, TOPIC_ID)
        (aside,) = (name for name in machine.world.disk.list(DATA) if names.stray_partition(name) is not None)
        assert names.stray_high_watermark(aside) == (committed or 0)
        assert store.unloaded == {}


def test_the_topic_of_a_log_that_could_not_be_loaded_is_known() -> None:
    with Simulation(7, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.close()
        machine.restart(power_loss=False)
        store = machine.bench.store
        assert sim.run(machine.world.perform(store.topic_of_unloaded(TP))) == TOPIC_ID


def test_the_jitter_is_drawn_anew_for_each_segment() -> None:
    with Simulation(8, QUICK) as sim:
        machine = Machine(sim, segment_jitter_ms=1_000_000, segment_ms=10_000_000)
        drawn = set()
        for _ in range(5):
            machine.append(b"a")
            machine.world.call(machine.log.roll)
            drawn.add(machine.log._roll_jitter_ms)
        assert len(drawn) > 1


def test_a_log_that_is_closed_does_not_begin_anew() -> None:
    with Simulation(9, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        log = machine.log
        log.close()
        assert sim.run(machine.world.perform(restart(machine.world, log, 5))) is False
        assert log.log_end == 1


def test_a_log_begins_anew_once_there_is_room_and_waits_for_it() -> None:
    with Simulation(10, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        machine.storage.fail("create", "*.log*", errno.ENOSPC, times=3)
        begun = machine.world.clock.monotonic()
        assert sim.run(machine.world.perform(restart(machine.world, machine.log, 5)))
        assert machine.world.clock.monotonic() - begun >= 3 * PASSING_SECONDS
        assert (machine.log.log_start, machine.log.log_end, machine.log.offline) == (5, 5, None)


def test_each_attempt_to_begin_anew_waits_for_a_segment_swap() -> None:
    """The swap would bring an old segment back beside the new one."""
    with Simulation(13, QUICK) as sim:
        machine = Machine(sim)
        machine.append(b"a")
        log = machine.log
        fault = machine.storage.fail("create", "*.log*", errno.ENOSPC)
        machine.world.call(machine.world.spawn, "restart", restart(machine.world, log, 5), None)
        sim.run(sim.until(lambda: fault.struck))

        async def swap() -> None:
            log.swapping = asyncio.get_running_loop().create_future()

        async def swapped() -> None:
            assert log.swapping is not None
            log.swapping.set_result(None)
            log.swapping = None

        sim.run(swap())
        sim.advance(3 * PASSING_SECONDS)
        assert (log.log_start, log.log_end) == (0, 1)
        sim.run(swapped())
        sim.run(sim.until(lambda: log.log_start == 5))


def test_a_snapshot_of_producers_that_cannot_be_read_is_removed() -> None:
    with Simulation(11, QUICK) as sim:
        machine = Machine(sim)
        machine.world.call(append, machine.log, batch([b"a"], pid=7, epoch=0, sequence=0))
        machine.close()
        (name,) = (each for each in machine.world.disk.list(machine.log.directory) if each.endswith(names.SNAPSHOT))
        path = machine.log.directory / name
        machine.storage.damage(path, 8, b"\xff")
        machine.restart(power_loss=False)
        assert list(machine.log.producers.producers) == [7]
        assert name not in machine.world.disk.list(machine.log.directory)


def test_epochs_that_a_cut_ended_are_written_no_more() -> None:
    with Simulation(12, QUICK) as sim:
        machine = Machine(sim)
        for epoch in range(3):
            machine.append(b"a", epoch=epoch)
        sim.run(sim.until(lambda: machine.log.epoch_file.in_step))
        assert sim.run(machine.world.perform(machine.bench.truncate(1)))
        sim.run(sim.until(lambda: machine.log.epoch_file.in_step))
        written = machine.storage.durable_bytes(machine.log.directory / names.EPOCH_CHECKPOINT)
        assert decode_epochs(written or b"") == [(0, 0)]


def a_log_whose_oldest_segment_has_expired(sim: Simulation) -> Machine:
    machine = Machine(sim, retention_bytes=1, segment_bytes=300)
    while len(machine.log.segments) < 3:
        machine.append(b"value")
    machine.log.move_high_watermark(machine.log.log_end)
    return machine


def test_a_log_whose_old_segments_cannot_be_renamed_is_offline() -> None:
    with Simulation(13, QUICK) as sim:
        machine = a_log_whose_oldest_segment_has_expired(sim)
        machine.storage.fail("rename", "*.log*", errno.EIO)
        sim.run(machine.world.perform(machine.bench.store.expiry.apply(machine.log)))
        assert machine.log.offline is not None


@pytest.mark.parametrize("kind", ["log", "index", "timeindex"])
def test_a_segment_that_a_full_disk_has_no_name_for_stays_until_there_is_room(kind: str) -> None:
    """Retention is what makes room: it must not take the log offline."""
    with Simulation(13, QUICK) as sim:
        machine = a_log_whose_oldest_segment_has_expired(sim)
        files = sorted(machine.world.disk.list(machine.log.directory))
        machine.storage.fail("rename", f"*.{kind}*", errno.ENOSPC)
        expiry = machine.bench.store.expiry
        assert sim.run(machine.world.perform(expiry.apply(machine.log))) == 0
        assert sorted(machine.world.disk.list(machine.log.directory)) == files
        assert (machine.log.trouble, machine.log.log_start) == (None, 0)
        assert sim.run(machine.world.perform(expiry.apply(machine.log))) == 2
