"""The handles with which a process uses its machine's storage."""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import PurePath
from random import Random
from typing import cast
from weakref import WeakValueDictionary
from zlib import crc32

from highwater.sim.clock import SimClock
from highwater.sim.flusher import Flusher
from highwater.sim.inode import DirNode, FileNode
from highwater.sim.knobs import Knobs
from highwater.sim.process import Process
from highwater.sim.storage import Storage, Strike, os_error
from highwater.world import AlreadyLocked, Buffer, File, Poisoned, Space

ROOMY = 1 << 40
"""The size of a disk without a limit, in bytes."""


class Blocking(RuntimeError):
    """An operation that may block was called on the loop instead of in a job."""


class StaleHandle(RuntimeError):
    """Another handle changed the file's size: a real append would overwrite what that handle wrote."""


@dataclass(slots=True)
class SimStat:
    size: int
    modified_ms: int
    is_dir: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """The state that all disk handles of one process share."""

    process: Process
    storage: Storage
    clock: SimClock
    flusher: Flusher
    random: Random
    knobs: Knobs

    def forbid_blocking(self, operation: str, path: PurePath) -> None:
        if self.process.is_running_on_the_loop():
            raise Blocking(f"{operation} of {path} outside a job")


class SimFile:
    """Implements File."""

    def __init__(self, machine: Machine, path: PurePath) -> None:
        self._machine = machine
        self._node: FileNode | None = machine.storage.file(path)
        self.size = len(self._node.data)
        self._poisoned = False
        self.path = path

    @property
    def node(self) -> FileNode:
        if self._node is None:
            self._node = self._machine.storage.file(self.path)
        return self._node

    def append(self, *parts: Buffer) -> int:
        process, storage, node = self._machine.process, self._machine.storage, self.node
        data, start, subject = b"".join(parts), self.size, str(self.path)
        process.emit("append", subject, f"{start} {len(data)} {crc32(data):08x}")
        storage.raise_if_struck("open", self.path)
        if self._poisoned:
            raise Poisoned(errno.EIO, "the tail is unknown since an earlier append failed", subject)
        if start != len(node.data):
            raise StaleHandle(f"{self.path} has {len(node.data)} bytes, not {start}")
        error: OSError | None = None
        fault = storage.strike("append", self.path)
        if fault is not None and fault.code is not None:
            error = os_error(fault.code, self.path)
        elif storage.room is not None and storage.room < len(data):
            error = os_error(errno.ENOSPC, self.path)
            storage.struck.append(Strike("append", self.path, errno.ENOSPC))
        part = self._machine.random.randint(0, len(data))
        if storage.room is not None:
            part = min(part, storage.room)
        self._extend(data[:part])
        process.midway("append", subject)
        if error is not None:
            self._trim(start, error)
            raise error
        self._extend(data[part:])
        self.size = start + len(data)
        process.happened("append", subject)
        return start

    def _extend(self, data: bytes) -> None:
        self.node.data += data
        self.node.modified_ms = self._machine.clock.wall_ms()
        self._machine.storage.occupy(self.node, len(data))

    def _trim(self, size: int, cause: OSError) -> None:
        try:
            self._machine.storage.raise_if_struck("trim", self.path)
        except OSError:
            self._poisoned = True
            raise Poisoned(cause.errno, "the append failed and could not be undone", str(self.path)) from cause
        self._shrink(size)

    def _shrink(self, size: int) -> None:
        self._machine.storage.occupy(self.node, size - len(self.node.data))
        self.node.truncate(size)

    def read_cached(self, pos: int, n: int) -> Buffer | None:
        self._machine.process.check()
        node, knobs = self.node, self._machine.knobs
        warm = max(node.warm_from, len(node.data) - knobs.warm_tail)
        if pos < warm and self._machine.random.random() < knobs.cold_read:
            return None
        return bytes(node.data[pos : pos + n])

    def read(self, pos: int, n: int) -> Buffer:
        self._machine.forbid_blocking("read", self.path)
        self._machine.process.emit("read", str(self.path), f"{pos} {n}")
        self._machine.storage.raise_if_struck("open", self.path)
        self._machine.storage.raise_if_struck("read", self.path)
        return bytes(self.node.data[pos : pos + n])

    def sync(self) -> None:
        self._machine.forbid_blocking("sync", self.path)
        self._machine.flusher.sync(self.path, self.node, self.node.begin_sync())

    def truncate(self, size: int) -> None:
        self._machine.process.emit("truncate", str(self.path), str(size))
        self._machine.storage.raise_if_struck("truncate", self.path)
        self._shrink(size)
        self.size = size
        self.node.modified_ms = self._machine.clock.wall_ms()
        self._machine.process.happened("truncate", str(self.path))

    def close(self) -> None:
        self._machine.process.check()
        self._node = None


class SimDisk:
    """Implements Disk. Each job has its own, over the same storage."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._process = machine.process
        self._storage = machine.storage
        self._files: WeakValueDictionary[PurePath, SimFile] = WeakValueDictionary()

    def open(self, path: PurePath, create: bool = False) -> SimFile:
        self._process.check()
        file = self._files.get(path)
        if file is None:
            if create and self._storage.find(path) is None:
                self._create(path)
            file = self._files[path] = SimFile(self._machine, path)
        return file

    def _create(self, path: PurePath) -> None:
        self._storage.directory(path.parent)
        self._process.emit("create", str(path))
        self._storage.raise_if_struck("open", path)
        self._storage.raise_if_struck("create", path)
        self._storage.link(path, FileNode(self._machine.clock.wall_ms()))
        self._process.happened("create", str(path))

    def stat(self, path: PurePath) -> SimStat | None:
        self._process.check()
        node = self._storage.find(path)
        if isinstance(node, FileNode):
            return SimStat(len(node.data), node.modified_ms, False)
        return None if node is None else SimStat(0, node.modified_ms, True)

    def space(self, path: PurePath) -> Space:
        self._process.check()
        room = self._storage.room
        return Space(self._storage.capacity or ROOMY, ROOMY if room is None else room)

    def list(self, path: PurePath) -> list[str]:
        self._process.check()
        self._storage.raise_if_struck("open", path)
        return sorted(self._storage.directory(path).entries)

    def mkdir(self, path: PurePath) -> None:
        self._process.check()
        if isinstance(self._storage.find(path), DirNode):
            return
        self.mkdir(path.parent)
        self._process.emit("mkdir", str(path))
        self._storage.raise_if_struck("mkdir", path)
        if self._storage.find(path) is not None:
            raise os_error(errno.EEXIST, path)
        self._storage.link(path, DirNode(self._machine.clock.wall_ms()))
        self._process.happened("mkdir", str(path))

    def rename(self, old: PurePath, new: PurePath) -> None:
        subject = f"{old} -> {new}"
        self._process.emit("rename", subject)
        self._storage.raise_if_struck("rename", old)
        known = [(path, file) for path, file in self._files.items() if path.is_relative_to(old)]
        if self._storage.find(old) is None:  # it was removed: a later file of this name is a new one
            for path, _ in known:
                del self._files[path]
        self._storage.rename(old, new)
        for path, file in known:
            del self._files[path]
            file.path = new / path.relative_to(old)
            self._files[file.path] = file
        self._process.happened("rename", subject)

    def unlink(self, path: PurePath) -> None:
        self._process.emit("unlink", str(path))
        self._storage.raise_if_struck("unlink", path)
        self._storage.unlink(path, self._storage.file(path))
        self._files.pop(path, None)
        self._process.happened("unlink", str(path))

    def rmdir(self, path: PurePath) -> None:
        self._process.emit("rmdir", str(path))
        self._storage.raise_if_struck("rmdir", path)
        node = self._storage.directory(path)
        if node.entries:
            raise os_error(errno.ENOTEMPTY, path)
        self._storage.unlink(path, node)
        self._process.happened("rmdir", str(path))

    def sync_dir(self, path: PurePath) -> None:
        self._machine.forbid_blocking("sync_dir", path)
        self._process.emit("sync_dir", str(path))
        self._storage.raise_if_struck("open", path)
        self._storage.raise_if_struck("sync_dir", path)
        self._storage.settle_names(self._storage.directory(path))
        self._process.happened("sync_dir", str(path))

    def lock(self, path: PurePath) -> Callable[[], None]:
        self.open(path, create=True)
        if path in self._storage.locks:
            raise AlreadyLocked(errno.EAGAIN, "the lock is held by another process", str(path))
        self._storage.locks.add(path)
        self._process.emit("lock", str(path))

        def release() -> None:
            self._process.emit("unlock", str(path))
            self._storage.locks.discard(path)

        return release

    def flush(self, files: Collection[File], done: Callable[[OSError | None], None]) -> None:
        assert not self._process.in_job, "a job syncs its files itself"
        self._process.emit("flush", str(len(files)))
        self._machine.flusher.flush([(file.path, cast(SimFile, file).node) for file in files], done)
