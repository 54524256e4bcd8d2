"""Files of this machine: the pool of descriptors, errors, and threads that use a file at the same time."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path, PurePath

import pytest

from highwater.world import Dead, Poisoned
from highwater.world.real_disk import RealDisk


def descriptors(folder: Path) -> int:
    """Of the files in it alone: other threads of this process open and close what they like."""
    return sum(_target(entry).startswith(f"{folder}/") for entry in os.scandir("/proc/self/fd"))


def _target(entry: os.DirEntry[str]) -> str:
    try:
        return os.readlink(entry.path)
    except FileNotFoundError:
        return ""


def test_only_so_many_descriptors_stay_open_and_files_work_all_the_same(tmp_path: Path) -> None:
    disk = RealDisk(descriptors=5)
    files = [disk.open(PurePath(tmp_path / str(number)), create=True) for number in range(12)]
    for turn in range(3):
        for number, file in enumerate(files):
            assert file.append(b"%d-%d;" % (number, turn)) == turn * len(b"%d-0;" % number)
            assert 0 < descriptors(tmp_path) <= 6
    for number, file in enumerate(files):
        assert file.read(0, 100) == b"".join(b"%d-%d;" % (number, turn) for turn in range(3))
        file.close()
    assert descriptors(tmp_path) <= 1


def test_a_file_that_is_only_known_of_takes_no_descriptor(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(5)]
    for path in paths:
        path.write_bytes(b"some")
    disk = RealDisk()
    files = [disk.open(PurePath(path)) for path in paths]
    assert descriptors(tmp_path) == 0
    assert [file.size for file in files] == [4] * 5
    assert files[0].append(b"more") == 4
    assert files[0].read(0, 100) == b"somemore"
    assert descriptors(tmp_path) == 1


def test_a_job_thread_never_takes_the_loops_descriptor_away(tmp_path: Path) -> None:
    """The loop uses its own without a lock: were it closed under its hands, another file's bytes would be hit."""
    disk = RealDisk(descriptors=2)
    files = [disk.open(PurePath(tmp_path / str(number)), create=True) for number in range(8)]
    held = [file._fd for file in files]

    def use() -> None:
        for file in files:
            file.read(0, 1)
            file.sync()

    job = threading.Thread(target=use)
    job.start()
    job.join()
    assert [file._fd for file, fd in zip(files, held, strict=True) if fd >= 0] == [fd for fd in held if fd >= 0]
    for number, file in enumerate(files):
        file.append(b"%d" % number)
    assert [Path(file.path).read_bytes() for file in files] == [b"%d" % number for number in range(8)]


def test_a_failed_append_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "full"
    path.symlink_to("/dev/full")
    file = RealDisk().open(PurePath(tmp_path / "file"), create=True)
    file.append(b"kept")
    real, file._fd = file._fd, os.open(path, os.O_RDWR)
    with pytest.raises(Poisoned):  # /dev/full takes no bytes, and has no size that could be trimmed
        file.append(b"lost")
    os.close(file._fd)
    file._fd = real
    assert file.size == 4
    with pytest.raises(Poisoned):
        file.append(b"refused, though the descriptor is sound again")
    assert file.read(0, 10) == b"kept"


def test_an_append_that_fails_after_a_part_is_trimmed(tmp_path: Path) -> None:
    import resource
    import signal

    file = RealDisk().open(PurePath(tmp_path / "file"), create=True)
    file.append(bytes(1000))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            file.append(bytes(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert (tmp_path / "file").stat().st_size == file.size == 1000
    assert file.append(b"x") == 1000


def test_a_file_is_found_again_after_it_or_its_directory_was_renamed(tmp_path: Path) -> None:
    disk = RealDisk(descriptors=1)
    inside = disk.open(PurePath(tmp_path / "a"), create=True)
    (tmp_path / "d").mkdir()
    (tmp_path / "d2").mkdir()
    deep, other = (disk.open(PurePath(tmp_path / name / "f"), create=True) for name in ("d", "d2"))
    disk.rename(PurePath(tmp_path / "a"), PurePath(tmp_path / "b"))
    disk.rename(PurePath(tmp_path / "d"), PurePath(tmp_path / "e"))
    for file in (inside, deep, other):
        file.append(file.path.as_posix().encode())
    assert [file.path for file in (inside, deep, other)] == [PurePath(tmp_path / at) for at in ("b", "e/f", "d2/f")]
    assert (tmp_path / "e" / "f").read_bytes() == str(tmp_path / "e" / "f").encode()
    assert disk.open(PurePath(tmp_path / "b")) is inside


def test_after_a_crash_every_handle_is_dead_and_every_descriptor_closed(tmp_path: Path) -> None:
    disk = RealDisk()
    file = disk.open(PurePath(tmp_path / "file"), create=True)
    file.append(b"some")
    assert descriptors(tmp_path) == 1
    disk.crash()
    assert descriptors(tmp_path) == 0
    for attempt in (lambda: file.append(b"x"), lambda: file.read(0, 1), file.sync, lambda: disk.open(file.path)):
        with pytest.raises(Dead):
            attempt()


def test_read_cached_gives_only_bytes_written_here_if_the_system_cannot_say_more(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    file = RealDisk().open(PurePath(tmp_path / "file"))
    file._nowait = False
    file.append(b"new")
    assert file.read_cached(0, 3) is None
    assert file.read_cached(3, 3) == b"new"
    file.truncate(1)
    file.append(b"newer")
    assert file.read_cached(1, 5) == b"newer"


def test_a_directory_made_in_the_place_of_a_removed_one_is_another(tmp_path: Path) -> None:
    disk = RealDisk()
    (tmp_path / "t-0").mkdir()
    path = PurePath(tmp_path / "t-0" / "a")
    old = disk.open(path, create=True)
    old.append(b"old")
    shutil.rmtree(tmp_path / "t-0")
    with pytest.raises(FileNotFoundError):
        disk.rename(path.parent, PurePath(tmp_path / "t-0.gone"))
    (tmp_path / "t-0").mkdir()
    new = disk.open(path, create=True)
    assert (new.size, old.size) == (0, 3)


def test_a_directory_is_renamed_without_a_look_at_the_files_of_others(tmp_path: Path) -> None:
    """A topic of some thousand partitions is deleted by as many renames."""
    disk = RealDisk()
    files = []
    for number in range(1000):
        directory = PurePath(tmp_path / f"t-{number}")
        disk.mkdir(directory)
        files.append(disk.open(directory / "0.log", create=True))
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        disk.rename(PurePath(tmp_path / "t-7"), PurePath(tmp_path / "t-7.gone"))
        disk.rename(PurePath(tmp_path / "t-8" / "0.log"), PurePath(tmp_path / "t-8" / "0.log.deleted"))
    finally:
        sys.setprofile(None)
    assert calls < 600, "it would be one for each file at least"
    assert files[7].path == PurePath(tmp_path / "t-7.gone" / "0.log")
    assert disk.open(PurePath(tmp_path / "t-7.gone" / "0.log")) is files[7]
    assert disk.open(PurePath(tmp_path / "t-8" / "0.log.deleted")) is files[8]


@pytest.mark.parametrize("meanwhile", [RealDisk.crash, RealDisk.relieve])
def test_a_file_that_is_being_let_go_is_not_closed_again_by_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[RealDisk], None]
) -> None:
    """The number may be another file's by then. While one thread closes it, another may run: here, this very call."""
    disk = RealDisk(descriptors=64)
    files = [disk.open(tmp_path / f"{number}.log", create=True) for number in range(64)]
    for file in files:
        file.append(b"x")
    close = os.close
    closed: list[int] = []

    def close_slowly(fd: int) -> None:
        close(fd)
        if threading.current_thread() is threading.main_thread():
            closed.append(fd)
            if len(closed) == 1:
                meanwhile(disk)

    monkeypatch.setattr(os, "close", close_slowly)
    del files[0]
    assert len(closed) > 1, "others were closed meanwhile"
    assert len(closed) == len(set(closed))
