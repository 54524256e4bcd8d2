"""A sync and the files that it is about: what is removed meanwhile is no failure of the disk, all else that is is."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path, PurePath

import pytest

from highwater.log import names
from highwater.log.durability import Durability
from highwater.sim import Simulation
from highwater.world import File, gravest
from highwater.world.real_disk import RealDisk
from tests.unit.log.bench import Bench, append, batch, on_real_disk, until
from tests.unit.log.test_faults import QUICK, Machine


class Syncs:
    """A log that ends at 5, of these files. Only those that are there are asked for again."""

    def __init__(self, bench: Bench, files: Sequence[PurePath]) -> None:
        disk = bench.world.disk
        for path in files:
            Path(path).write_bytes(b"batches")
        self.files = [disk.open(path) for path in files]
        self.failures: list[Exception] = []
        self.durability = Durability(
            bench.world, bench.directory, 0, 0, self._unsynced, lambda: None, self.failures.append
        )
        self._rounds = 0

    def _unsynced(self) -> tuple[int, Sequence[File]]:
        self._rounds += 1
        return 5, self.files if self._rounds == 1 else self.files[-1:]

    async def flush(self, with_names: bool) -> None:
        self.durability.directory_changed = with_names
        self.durability.flush()
        await until(lambda: not self.durability.under_way)


@pytest.mark.parametrize("with_names", [True, False])
def test_a_file_that_was_removed_before_its_sync_does_not_fail_the_log(tmp_path: Path, with_names: bool) -> None:
    async def play(bench: Bench) -> None:
        old, new = bench.directory / "0.log", bench.directory / "1.log"
        syncs = Syncs(bench, [old, new])
        gone = bench.directory / f"0.log{names.DELETED}"
        bench.world.disk.rename(old, gone)
        bench.world.disk.unlink(gone)
        await syncs.flush(with_names)
        assert not syncs.failures
        assert syncs.durability.durable_end == 5
        assert syncs.durability.directory_in_step

    on_real_disk(tmp_path, play)


@pytest.mark.parametrize("with_names", [True, False])
def test_a_file_that_is_missing_and_was_not_removed_fails_the_log(tmp_path: Path, with_names: bool) -> None:
    async def play(bench: Bench) -> None:
        old, new = bench.directory / "0.log", bench.directory / "1.log"
        syncs = Syncs(bench, [old, new])
        Path(old).unlink()
        await syncs.flush(with_names)
        assert [type(failed) for failed in syncs.failures] == [FileNotFoundError]
        assert syncs.durability.durable_end == 0

    on_real_disk(tmp_path, play)


def test_a_sync_that_failed_is_not_hidden_by_a_file_that_is_gone() -> None:
    gone, failed = FileNotFoundError(errno.ENOENT, "gone"), OSError(errno.EIO, "failed")
    assert gravest([gone, failed]) is failed


def test_retention_that_removes_at_once_what_is_being_synced_leaves_the_log_online(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        await bench.create()
        log = await bench.reopen()  # so that its files have no descriptors yet
        for _ in range(5):
            append(log, batch([b"value"]))
            log.roll()
        log.move_high_watermark(log.log_end)
        bench.store.retired.remove_files_later([path for _ in range(5) for path in log.drop_oldest()], 0)
        await until(lambda: (log.durable_end == 5 and log.durability.directory_in_step) or log.offline is not None)
        assert log.offline is None

    on_real_disk(tmp_path, play)


def test_a_start_syncs_what_lies_beyond_the_recovery_point_and_not_all_that_there_is() -> None:
    with Simulation(3, QUICK) as sim:
        machine = Machine(sim, segment_bytes=300, flush_messages=1)
        while len(machine.log.segments) < 40:
            machine.append(b"value")
        machine.settle()
        points = machine.bench.store.recovery_points
        machine.world.call(points.write)
        sim.run(sim.until(lambda: points.in_step))
        end = machine.log.log_end
        machine.append(b"beyond")
        machine.settle()
        before = sim.trace.counts["a", "sync"]
        machine.restart(power_loss=True)
        assert machine.log.log_end == end + 1
        assert sim.trace.counts["a", "sync"] - before < 20


def test_records_that_a_start_finds_are_durable() -> None:
    for seed in range(5):
        with Simulation(seed, QUICK) as sim:
            machine = Machine(sim, segment_bytes=300)
            for number in range(10):
                machine.append(b"%d" % number)
            machine.restart(power_loss=False)
            assert (machine.log.log_end, machine.log.durable_end) == (10, 10)
            machine.restart(power_loss=True)
            assert machine.values() == [b"%d" % number for number in range(10)]


def test_names_are_synced_though_a_file_was_removed_before_its_own_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a deleted segment could come back, and the checkpoint of the log starts would not know better."""
    listed: list[PurePath] = []
    sync_dir = RealDisk.sync_dir

    def noted(disk: RealDisk, path: PurePath) -> None:
        sync_dir(disk, path)
        listed.append(path)

    async def play(bench: Bench) -> None:
        old, new = bench.directory / "0.log", bench.directory / "1.log"
        syncs = Syncs(bench, [old, new])
        gone = bench.directory / f"0.log{names.DELETED}"
        bench.world.disk.rename(old, gone)
        bench.world.disk.unlink(gone)
        monkeypatch.setattr(RealDisk, "sync_dir", noted)
        await syncs.flush(with_names=True)
        assert listed == [bench.directory]
        assert syncs.durability.directory_in_step

    on_real_disk(tmp_path, play)
