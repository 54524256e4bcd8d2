"""What a stop makes durable and what it may claim; and what is kept of logs that others replaced."""

from __future__ import annotations

import errno
from pathlib import PurePath

import pytest

from highwater.log import names
from highwater.log.checkpoint import decode_epochs
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
def test_what_was_put_aside_goes_once_another_log_has_all_that_was_committed_of_it(
    end: int | None, is_kept: bool
) -> None:
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
