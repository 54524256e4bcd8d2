"""A process that has no descriptor left: its files wait for one, and none of them is taken for broken."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path, PurePath
from typing import TypeVar

import pytest

from highwater.sim import Simulation
from highwater.world import Exhausted, is_passing, raising_exhausted
from highwater.world.descriptors import KEPT_BACK, MOST_FILES, limit, raise_limit, shares
from highwater.world.jobs import is_exhausted, patiently
from highwater.world.real_disk import RealDisk

T = TypeVar("T")
FEW = 256


def in_a_process_of_its_own(play: Callable[[], T]) -> T:
    """The limit is the process's: others that run in this one must not be short of descriptors."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _allow_few) as process:
        return process.submit(play).result()


def _allow_few() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, 2 * FEW))


def _take_all() -> list[int]:
    taken: list[int] = []
    while True:
        try:
            taken.append(os.dup(0))
        except OSError:
            return taken


def _write_many_files() -> int:
    folder = PurePath(tempfile.mkdtemp())
    disk = RealDisk(descriptors=2 * FEW)
    disk.on_pressed = disk.relieve
    files = [disk.open(folder / f"{number}.log", create=True) for number in range(400)]
    for turn in range(2):
        for file in files:
            assert file.append(b"x" * 10) == turn * 10
    return sum(len(file.read(0, 100)) for file in files)


def test_a_pool_that_is_larger_than_the_limit_gives_way() -> None:
    assert in_a_process_of_its_own(_write_many_files) == 8000


def _sync_without_a_descriptor() -> list[str]:
    disk = RealDisk()
    folder = PurePath(tempfile.mkdtemp())
    file = disk.open(folder / "a.log", create=True)
    file.append(b"some")
    file.close()
    events = []
    taken = _take_all()
    for attempt in (file.sync, lambda: disk.sync_dir(folder), lambda: disk.list(folder), lambda: file.append(b"more")):
        try:
            attempt()
            events.append("done")
        except Exhausted:
            events.append("exhausted")
    events.append("blocks" if file.read_cached(0, 4) is None else "read")
    for descriptor in taken:
        os.close(descriptor)
    file.sync()
    disk.sync_dir(folder)
    events.append(bytes(file.read(0, 10)).decode())
    return events


def test_files_report_missing_descriptors_and_work_once_there_are_some() -> None:
    events = in_a_process_of_its_own(_sync_without_a_descriptor)
    assert events == ["exhausted", "exhausted", "exhausted", "exhausted", "blocks", "some"]


def _sync_while_the_pool_has_them_all() -> bool:
    """A job's thread must not close what the loop uses: it asks the loop, and waits."""
    folder = PurePath(tempfile.mkdtemp())
    disk = RealDisk(descriptors=2 * FEW)
    wanted = disk.open(folder / "wanted.log", create=True)
    wanted.append(b"some")
    wanted.close()
    others = [disk.open(folder / f"{number}.log", create=True) for number in range(30)]
    for file in others:
        file.append(b"x")
    pressed, taken = threading.Event(), _take_all()
    disk.on_pressed = pressed.set
    job = threading.Thread(target=wanted.sync)
    job.start()
    assert pressed.wait(60)
    disk.relieve()
    job.join(60)
    for descriptor in taken:
        os.close(descriptor)
    return not job.is_alive() and wanted.read(0, 10) == b"some"


def test_a_job_that_finds_none_has_the_loop_close_some_of_its_own() -> None:
    assert in_a_process_of_its_own(_sync_while_the_pool_has_them_all)


def _raise() -> tuple[int, int]:
    before = limit()
    raise_limit()
    return before, limit()


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    assert in_a_process_of_its_own(_raise) == (FEW, 2 * FEW)


@pytest.mark.parametrize("allowed", [64, 256, 1024, 4096, 1 << 20])
def test_files_connections_and_what_is_kept_back_fit_the_limit(allowed: int) -> None:
    files, connections = shares(allowed)
    assert 0 < files <= MOST_FILES and connections > 0
    assert files + connections + min(KEPT_BACK, allowed // 3) <= allowed


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_lack_of_descriptors_is_distinguished_from_a_disk_that_fails(tmp_path: Path, number: int) -> None:
    with pytest.raises(Exhausted) as events, raising_exhausted(tmp_path):
        raise OSError(number, os.strerror(number))
    assert (events.value.errno, events.value.filename) == (number, str(tmp_path))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOENT])
def test_other_errors_of_opening_a_file_are_not_changed(tmp_path: Path, number: int) -> None:
    with pytest.raises(OSError) as events, raising_exhausted(tmp_path):
        raise OSError(number, os.strerror(number))
    assert not isinstance(events.value, Exhausted)
    assert is_passing(events.value) is (number in (errno.ENOSPC, errno.EDQUOT))


def test_patience_that_has_ended_ends_with_the_error() -> None:
    """A stop would wait for ever."""
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        raise Exhausted(errno.EMFILE, "none left") if attempts < 10 else AssertionError("it goes on")

    with Simulation(1) as sim, pytest.raises(Exhausted):
        sim.run(sim.world("a").perform(patiently(attempt, lambda failed: is_exhausted(failed) and attempts < 3)))
    assert attempts == 3
