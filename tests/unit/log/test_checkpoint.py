"""Checkpoints: Kafka's bytes, replaced whole, written in order however they overlap and fail."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path, PurePath

import pytest

from highwater.log import checkpoint
from highwater.log.checkpoint import BadCheckpoint, CheckpointFile, read_file, replace_file, replaced
from highwater.model import TopicPartition
from highwater.sim import Simulation, SimWorld
from highwater.world import Dead
from highwater.world.jobs import finished
from highwater.world.real_disk import RealDisk

DATA = PurePath("/data")
FILE = DATA / "recovery-point-offset-checkpoint"


def test_offsets_are_written_as_kafka_writes_them() -> None:
    offsets = {TopicPartition("b", 0): 7, TopicPartition("a", 10): 0, TopicPartition("a", 2): 5}
    data = b"0\n3\na 2 5\na 10 0\nb 0 7\n"
    assert checkpoint.encode_offsets(offsets) == data
    assert checkpoint.decode_offsets(data) == offsets
    assert checkpoint.encode_offsets({}) == b"0\n0\n"


def test_epochs_are_written_as_kafka_writes_them() -> None:
    data = b"0\n2\n0 0\n3 17\n"
    assert checkpoint.encode_epochs([(0, 0), (3, 17)]) == data
    assert checkpoint.decode_epochs(data) == [(0, 0), (3, 17)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0",
        b"0\n",
        b"1\n0\n",
        b"0\nx\n",
        b"0\n2\na 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 x\n",
        b"\0" * 40,
        b"\xff\xfe",
    ],
)
def test_bytes_that_are_no_checkpoint_are_refused(data: bytes) -> None:
    with pytest.raises(BadCheckpoint):
        checkpoint.decode_offsets(data)


def test_a_power_cut_at_any_moment_leaves_the_old_file_or_the_new() -> None:
    kinds = set()
    for seed in range(60):
        with Simulation(seed) as sim:
            world = sim.world("a")
            sim.storage("a").provide(DATA)
            sim.run(finished(world, replace_file, FILE, b"old"))
            point = sim.crash_at("a", lambda event: FILE.name in event.subject, nth=1 + seed % 8)
            with contextlib.suppress(Dead):
                sim.run(world.perform(finished(world, replace_file, FILE, b"new" * 3000)))
            if point.hit is None:
                sim.crash("a")
            kinds.add(bytes(sim.storage("a").file(FILE).data))
    assert kinds == {b"old", b"new" * 3000}


class Value:
    """A number kept in a file."""

    def __init__(self, sim: Simulation) -> None:
        self.world: SimWorld = sim.world("a")
        sim.storage("a").provide(DATA)
        self.number = 0
        self.errors: list[Exception] = []
        self.again = True
        self.file = CheckpointFile(self.world, FILE, lambda: b"%d" % self.number, self._failed)
        self.confirmed: list[int] = []

    def _failed(self, error: Exception) -> bool:
        self.errors.append(error)
        return self.again

    def write(self, number: int) -> None:
        self.number = number
        self.world.call(self.file.write, lambda: self.confirmed.append(number))


def test_writes_that_overlap_end_with_the_newest_value_and_answer_each_caller() -> None:
    with Simulation(1) as sim:
        value = Value(sim)
        assert value.file.in_step, "nothing was asked to be written"
        for number in range(5):
            value.write(number)
        assert not value.file.in_step
        sim.run(sim.until(lambda: len(value.confirmed) == 5))
        assert value.confirmed == [0, 1, 2, 3, 4]
        assert value.file.in_step
        assert sim.storage("a").durable_bytes(FILE) == b"4"


def test_a_callback_is_not_called_before_its_content_is_durable() -> None:
    for seed in range(20):
        with Simulation(seed) as sim:
            value = Value(sim)
            value.write(1)
            value.write(2)

            def check(value: Value = value, sim: Simulation = sim) -> bool:
                durable = int(sim.storage("a").durable_bytes(FILE) or b"0")
                assert max(value.confirmed, default=0) <= durable
                return len(value.confirmed) == 2

            sim.run(sim.until(check))


def test_a_full_disk_is_tried_again_and_then_every_caller_is_answered() -> None:
    with Simulation(3) as sim:
        value = Value(sim)
        sim.storage("a").fail("append", "*.tmp", errno.ENOSPC, times=3)
        value.write(1)
        value.write(2)
        sim.run(sim.until(lambda: len(value.errors) == 1))
        assert not value.file.in_step
        value.write(3)
        sim.run(sim.until(lambda: len(value.confirmed) == 3))
        assert len(value.errors) == 3
        assert sim.storage("a").durable_bytes(FILE) == b"3"


def test_a_temporary_checkpoint_left_by_a_crash_is_not_part_of_the_next_one() -> None:
    with Simulation(5) as sim:
        value = Value(sim)
        left = value.world.disk.open(FILE.with_name(f"{FILE.name}.tmp"), create=True)
        left.append(b"torn and longer")
        left.close()
        value.write(1)
        sim.run(sim.until(lambda: len(value.confirmed) == 1))
        assert sim.storage("a").durable_bytes(FILE) == b"1"


def test_a_final_failure_is_reported_to_its_caller_and_not_retried() -> None:
    with Simulation(4) as sim:
        value = Value(sim)
        value.again = False
        sim.storage("a").fail("sync", "*.tmp", errno.EIO)
        refused: list[Exception] = []
        value.world.call(value.file.write, lambda: value.confirmed.append(0), refused.append)
        sim.run(sim.until(lambda: bool(refused)))
        sim.advance(10)
        assert (len(value.errors), value.confirmed, value.file.in_step) == (1, [], True)
        assert sim.storage("a").durable_bytes(FILE) is None


def test_a_file_that_is_closed_is_written_no_more() -> None:
    """Its directory may be that of another log by then."""
    with Simulation(7) as sim:
        value = Value(sim)
        value.write(1)
        sim.run(sim.until(lambda: bool(value.confirmed)))
        value.world.call(value.file.close)
        value.write(2)
        sim.advance(5)
        assert sim.storage("a").durable_bytes(FILE) == b"1"
        assert len(value.confirmed) == 1


def is_open(path: Path) -> bool:
    """Whether this process has a descriptor of the file."""

    def target(link: Path) -> str:
        try:
            return str(link.readlink())
        except FileNotFoundError:
            return ""  # closed while one looked

    return str(path) in map(target, Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists the descriptors of a process")
def test_a_file_that_cannot_be_replaced_keeps_no_descriptor(tmp_path: Path) -> None:
    """However long somebody remembers why: with the error its file would be remembered, too."""
    target = tmp_path / "checkpoint"
    (target / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match="checkpoint") as remembered:
        for _ in replace_file(RealDisk(), PurePath(target), b"0\n0\n"):
            assert is_open(tmp_path / "checkpoint.tmp")
    assert remembered.value is not None
    assert not is_open(tmp_path / "checkpoint.tmp")


def test_a_closed_file_notifies_its_callbacks_when_no_write_is_under_way() -> None:
    with Simulation(8) as sim:
        value = Value(sim)
        value.write(1)
        value.world.call(value.file.close)
        idle: list[str] = []
        value.world.call(value.file.when_idle, lambda: idle.append("then"))
        assert idle == []
        sim.run(sim.until(lambda: bool(idle)))
        assert value.confirmed == []
        value.world.call(value.file.when_idle, lambda: idle.append("at once"))
        assert idle == ["then", "at once"]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists the descriptors of a process")
def test_a_file_that_is_replaced_and_read_keeps_no_descriptor(tmp_path: Path) -> None:
    """Even where the disk still remembers the file."""
    target = tmp_path / "checkpoint"
    disk = RealDisk()
    for _ in replace_file(disk, PurePath(target), b"0\n0\n"):
        """Written, synced, renamed."""
    assert not is_open(target)
    remembered = disk.open(PurePath(target))
    assert read_file(disk, PurePath(target)) == b"0\n0\n"
    assert not is_open(target)
    assert remembered.size == 4


def test_a_file_is_replaced_however_often_room_is_short_and_any_other_error_is_reported() -> None:
    with Simulation(9) as sim:
        world = sim.world("a")
        storage = sim.storage("a")
        storage.provide(DATA)
        storage.fail("append", "*.tmp", errno.ENOSPC, times=3)
        sim.run(world.perform(replaced(world, FILE, b"new")))
        assert storage.durable_bytes(FILE) == b"new"
        storage.fail("sync", "*.tmp", errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            sim.run(world.perform(replaced(world, FILE, b"newer")))


def test_a_patient_writer_gets_every_error_but_a_full_disk() -> None:
    with Simulation(10) as sim:
        value = Value(sim)
        sim.storage("a").fail("append", "*.tmp", errno.ENOSPC, times=2)
        fault = sim.storage("a").fail("sync", "*.tmp", errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            sim.run(value.world.perform(value.file.written(lambda: True)))
        assert (len(value.errors), fault.struck) == (3, 1)


def test_a_checkpoint_that_has_not_changed_is_not_written_again() -> None:
    with Simulation(11) as sim:
        value = Value(sim)
        value.write(1)
        sim.run(sim.until(lambda: value.confirmed == [1]))
        sim.storage("a").fail("append", "*.tmp", errno.EIO, times=None)
        value.write(1)
        sim.run(sim.until(lambda: value.confirmed == [1, 1]))
        assert value.errors == []


def test_a_checkpoint_is_written_again_if_it_is_unknown_whether_the_last_write_replaced_it() -> None:
    """The file was renamed and its directory not synced: it has the new value, though that write failed."""
    with Simulation(13) as sim:
        value = Value(sim)
        value.write(1)
        sim.run(sim.until(lambda: value.confirmed == [1]))
        sim.storage("a").fail("sync_dir", "*", errno.ENOSPC)
        value.write(2)
        sim.run(sim.until(lambda: len(value.errors) == 1))
        value.write(1)
        sim.run(sim.until(lambda: len(value.confirmed) == 3))
        assert bytes(sim.storage("a").file(FILE).data) == sim.storage("a").durable_bytes(FILE) == b"1"


def test_a_checkpoint_whose_content_fails_is_counted_and_written_once_it_works() -> None:
    with Simulation(12) as sim:
        sim.forgives = True
        value = Value(sim)
        value.number = None  # type: ignore[assignment]
        value.world.call(value.file.write, lambda: value.confirmed.append(1))
        assert (value.world.failures.counts["callback"], value.file.in_step, value.confirmed) == (1, False, [])
        value.number = 5
        sim.run(sim.until(lambda: bool(value.confirmed)))
        assert sim.storage("a").durable_bytes(FILE) == b"5"
        assert (value.world.failures.counts["callback"], value.errors) == (1, [])


def test_a_callback_that_got_success_does_not_get_a_later_failure() -> None:
    with Simulation(13) as sim:
        value = Value(sim)
        refused: list[Exception] = []
        value.world.call(value.file.write, lambda: value.confirmed.append(1), refused.append)
        sim.run(sim.until(lambda: value.confirmed == [1]))
        sim.storage("a").fail("append", "*.tmp", errno.ENOSPC)
        value.write(2)
        sim.run(sim.until(lambda: value.confirmed == [1, 2]))
        assert (len(value.errors), refused) == (1, [])
