"""Files and directories of this machine. A limited pool of descriptors is behind File."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePath

from highwater.world import AlreadyLocked, Buffer, Dead, Exhausted, File, Poisoned, Space, raising_exhausted
from highwater.world.flusher import Flusher

_IOV_MAX = 1024
_OFD_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", None)
_RWF_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS)
_FEWEST_KEPT = 16
_TRIES = 10
_APART_SECONDS = 0.05
"""How often, and after how long, the thread of a job asks again for a descriptor. It may wait."""
_datasync = getattr(os, "fdatasync", os.fsync)


def _open(path: PurePath, flags: int) -> int:
    with raising_exhausted(path):
        return os.open(path, flags | os.O_CLOEXEC, 0o644)


class RealFile:
    """One file. The loop's thread appends and reads what is cached; job threads call read and sync."""

    __slots__ = ("__weakref__", "_busy", "_disk", "_fd", "_nowait", "_poisoned", "_written_from", "path", "size")

    def __init__(self, disk: RealDisk, path: PurePath, create: bool) -> None:
        self.path = path
        self._disk = disk
        self._fd = -1
        self._busy = 0
        self._poisoned: OSError | None = None
        self._nowait = bool(_RWF_NOWAIT)
        try:
            self.size = os.stat(path).st_size  # a descriptor is opened when the file is used: most files are idle
        except FileNotFoundError:
            if not create:
                raise
            self._fd = disk.create(path)
            self.size = os.fstat(self._fd).st_size
        self._written_from = self.size

    def append(self, *parts: Buffer) -> int:
        if self._poisoned is not None:
            raise Poisoned(errno.EIO, f"tail unknown after: {self._poisoned}", str(self.path))
        fd = self._fd if self._fd >= 0 else self._disk.reopen(self)
        start = self.size
        total = sum(map(len, parts))
        try:
            written = os.pwritev(fd, parts, start) if len(parts) <= _IOV_MAX else 0
            if written != total:
                self._append_rest(fd, start, parts, written)
        except OSError as failed:
            self._trim(fd, start, failed)
            raise
        self.size = start + total
        return start

    @staticmethod
    def _append_rest(fd: int, start: int, parts: tuple[Buffer, ...], written: int) -> None:
        rest = memoryview(b"".join(parts))[written:]
        at = start + written
        while rest:
            n = os.pwrite(fd, rest, at)
            rest = rest[n:]
            at += n

    def _trim(self, fd: int, size: int, cause: OSError) -> None:
        try:
            os.ftruncate(fd, size)
        except OSError as trim_failed:
            self._poisoned = cause
            raise Poisoned(
                cause.errno, f"{cause.strerror}; the trim failed too: {trim_failed}", str(self.path)
            ) from cause

    def read_cached(self, pos: int, n: int) -> Buffer | None:
        try:
            fd = self._fd if self._fd >= 0 else self._disk.reopen(self)
        except Exhausted:
            return None
        if not self._nowait:
            return os.pread(fd, n, pos) if pos >= self._written_from else None
        buffer = bytearray(n)
        try:
            got = os.preadv(fd, [buffer], pos, _RWF_NOWAIT)
            while got < n and pos + got < self.size:
                more = os.preadv(fd, [memoryview(buffer)[got:]], pos + got, _RWF_NOWAIT)
                if more == 0:
                    break
                got += more
        except BlockingIOError:
            return None
        except OSError as failed:
            if failed.errno not in _NOT_SUPPORTED:
                raise
            self._nowait = False
            return self.read_cached(pos, n)
        return buffer if got == n else memoryview(buffer)[:got]

    def read(self, pos: int, n: int) -> Buffer:
        with self._disk.busy(self) as fd:
            data = os.pread(fd, n, pos)
            while len(data) < n:
                more = os.pread(fd, n - len(data), pos + len(data))
                if not more:
                    break
                data += more
            return data

    def sync(self) -> None:
        with self._disk.busy(self) as fd:
            _datasync(fd)

    def truncate(self, size: int) -> None:
        fd = self._fd if self._fd >= 0 else self._disk.reopen(self)
        os.ftruncate(fd, size)
        self.size = size
        self._written_from = min(self._written_from, size)

    def close(self) -> None:
        self._disk.forget_descriptor(self)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.let_go()

    def let_go(self) -> None:
        """Closes the descriptor. It is forgotten first: another thread that comes meanwhile must not close the same
        number again, which may belong to another file by then. A weak reference finds the file until it is gone."""
        fd = self.give_up()
        if fd >= 0:
            os.close(fd)

    def give_up(self) -> int:
        """Returns the descriptor, which the caller closes."""
        fd, self._fd = self._fd, -1
        return fd


def _take(fd: int) -> None:
    """Locks the whole file, or raises OSError. A plain record lock, as the JVM uses, would belong to the process and
    not to the node."""
    if _OFD_SETLK is None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        fcntl.fcntl(fd, _OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class RealStat:
    size: int
    modified_ms: int
    is_dir: bool


class RealDisk:
    """The loop has one, with a flusher. Every job has its own."""

    def __init__(self, flusher: Flusher | None = None, descriptors: int = 2048) -> None:
        self._flusher = flusher
        self._descriptors = descriptors
        """How many descriptors are kept open at most. Threads of jobs may open some more for as long as they need
        them."""
        self._room = descriptors
        """How many are kept open now. If the system has no more, it is halved, and then it grows by one each time a
        file is opened."""
        self.on_pressed: Callable[[], None] = lambda: None
        """Called by the thread of a job that got no descriptor. The loop then closes some, with `relieve`."""
        self._files: dict[str, weakref.WeakValueDictionary[str, RealFile]] = {}
        """By directory and name, so that a directory can be renamed without a look at all files. The keys are texts,
        because hashing and comparing paths costs as much as the system call."""
        self._open: OrderedDict[int, weakref.ref[RealFile]] = OrderedDict()
        self._lock = threading.Lock()
        self._lock_files: set[int] = set()
        self._left_open: list[int] = []
        self._dead = False

    def open(self, path: PurePath, create: bool = False) -> RealFile:
        self._check_alive()
        directory, name = os.path.split(path)
        files = self._files.get(directory)
        if files is None:
            files = self._files.setdefault(directory, weakref.WeakValueDictionary())
        file = files.get(name)
        if file is None:
            file = files[name] = RealFile(self, path, create)
            if file._fd >= 0:
                with self._lock:
                    self._open[id(file)] = weakref.ref(file)
                    self._evict(file)
        return file

    def create(self, path: PurePath) -> int:
        try:
            return _open(path, os.O_RDWR | os.O_CREAT)
        except Exhausted:
            with self._lock:
                self._shed()
            return _open(path, os.O_RDWR | os.O_CREAT)

    def reopen(self, file: RealFile) -> int:
        with self._lock:
            try:
                fd = self._reopen(file)
            except Exhausted:
                self._shed()
                fd = self._reopen(file)
            self._room = min(self._room + 1, self._descriptors)
            self._evict(file)
            return fd

    def _reopen(self, file: RealFile) -> int:
        self._check_alive()
        if file._fd < 0:
            file._fd = _open(file.path, os.O_RDWR)
            self._open[id(file)] = weakref.ref(file)
        return file._fd

    def _shed(self) -> None:
        """The system has no more descriptors, so this pool gives some up."""
        self._room = max(min(len(self._open), self._room) // 2, min(_FEWEST_KEPT, self._descriptors))
        self._evict(None)

    def _evict(self, keep: RealFile | None) -> None:
        """Closes the oldest descriptors. Only the loop's thread does this, because it uses its own descriptors without
        a lock."""
        for key in list(islice(self._open, max(len(self._open) - self._room, 0))):
            oldest = self._open[key]()
            if oldest is None:
                del self._open[key]
            elif oldest is not keep and not oldest._busy:
                del self._open[key]
                oldest.let_go()

    @contextlib.contextmanager
    def busy(self, file: RealFile) -> Iterator[int]:
        """The descriptor for the thread of a job. The pool and `close` do not close it meanwhile."""
        fd = self._wait_for(file)
        try:
            yield fd
        finally:
            with self._lock:
                file._busy -= 1
                if self._dead and not file._busy:
                    file.let_go()

    def _wait_for(self, file: RealFile) -> int:
        for patience in range(_TRIES, 0, -1):
            with self._lock:
                try:
                    fd = self._reopen(file)
                except Exhausted:
                    if patience == 1:
                        raise
                else:
                    file._busy += 1
                    return fd
            self.on_pressed()
            time.sleep(_APART_SECONDS)
        raise AssertionError

    def relieve(self) -> None:
        """Runs on the loop: the thread of a job found no descriptor."""
        with self._lock:
            self._shed()

    def forget_descriptor(self, file: RealFile) -> None:
        with self._lock:
            if not file._busy:
                self._open.pop(id(file), None)
                file.let_go()

    def stat(self, path: PurePath) -> RealStat | None:
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return RealStat(status.st_size, status.st_mtime_ns // 1_000_000, os.path.isdir(path))

    def space(self, path: PurePath) -> Space:
        found = os.statvfs(path)
        return Space(found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail)

    def list(self, path: PurePath) -> list[str]:
        with raising_exhausted(path):
            return sorted(os.listdir(path))

    def mkdir(self, path: PurePath) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: PurePath, new: PurePath) -> None:
        self._check_alive()
        with self._lock:  # the thread of a job opens a file by its path at that moment
            try:
                os.rename(old, new)
            except FileNotFoundError:
                if not os.path.lexists(old):  # another process removed it: a later file of this name is a new one
                    self._files.pop(str(old), None)
                    self._forget(old)
                raise
            inside = self._files.pop(str(old), None)
            if inside is not None:
                for name, moved in inside.items():
                    moved.path = new / name
                self._files[str(new)] = inside
                return
            file = self._forget(old)
            if file is not None:
                file.path = new
                directory, name = os.path.split(new)
                self._files.setdefault(directory, weakref.WeakValueDictionary())[name] = file

    def _forget(self, path: PurePath) -> RealFile | None:
        directory, name = os.path.split(path)
        files = self._files.get(directory)
        return None if files is None else files.pop(name, None)

    def unlink(self, path: PurePath) -> None:
        self._check_alive()
        os.unlink(path)
        self._forget(path)

    def rmdir(self, path: PurePath) -> None:
        os.rmdir(path)
        self._files.pop(str(path), None)

    def sync_dir(self, path: PurePath) -> None:
        fd = _open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: PurePath) -> Callable[[], None]:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _take(fd)
        except OSError as failed:
            os.close(fd)
            raise AlreadyLocked(failed.errno, "another node is using this directory", str(path)) from failed
        self._lock_files.add(fd)
        return lambda: self._unlock(fd)

    def _unlock(self, fd: int) -> None:
        if fd in self._lock_files:
            self._lock_files.discard(fd)
            os.close(fd)

    def flush(self, files: Collection[File], done: Callable[[OSError | None], None]) -> None:
        self._check_alive()
        assert self._flusher is not None, "a job syncs its files itself"
        self._flusher.flush(files, done)

    def _check_alive(self) -> None:
        if self._dead:
            raise Dead

    def die(self) -> None:
        """As `crash`, while another thread works on its files: its next call finds them dead. The descriptors stay open
        until `crash`, so that no other file gets their numbers."""
        self._dead = True
        with self._lock:
            for reference in self._open.values():
                file = reference()
                if file is not None and not file._busy:
                    self._left_open.append(file.give_up())

    def crash(self) -> None:
        self._dead = True
        with self._lock:
            while self._left_open:
                fd = self._left_open.pop()
                if fd >= 0:
                    os.close(fd)
            for reference in self._open.values():
                file = reference()
                if file is not None and not file._busy:
                    file.let_go()
            self._open.clear()
        for fd in list(self._lock_files):
            self._unlock(fd)
