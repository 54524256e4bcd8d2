"""A node's disk, which its machine keeps over restarts: the tree, what of it is durable, and its faults."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath
from random import Random
from typing import Literal, NamedTuple

from highwater.sim.inode import Change, DirNode, FileNode, Node
from highwater.world import Exhausted

Operation = Literal[
    "append", "trim", "read", "sync", "truncate", "create", "rename", "unlink", "mkdir", "rmdir", "sync_dir", "open"
]
"""`open` comes before each use of a file or a directory. It fails if no descriptor is left."""


def os_error(code: int, path: PurePath) -> OSError:
    """The subclass of OSError that the system would raise."""
    return OSError(code, os.strerror(code), str(path))


@dataclass(slots=True, eq=False)
class DiskFault:
    """Makes an operation on matching paths fail (or pretend to succeed, for a sync), from the nth one on, the given
    number of times."""

    operation: Operation
    pattern: str
    code: int | None
    nth: int
    times: int | None
    error: Exception | None = None
    """Raised instead of an OSError: it stands for a mistake in the program, wherever the program uses this file."""
    seen: int = 0
    struck: int = 0

    def strikes(self, operation: Operation, path: PurePath) -> bool:
        if operation != self.operation or not fnmatchcase(str(path), self.pattern):
            return False
        self.seen += 1
        if self.seen < self.nth or (self.times is not None and self.struck >= self.times):
            return False
        self.struck += 1
        return True


class Strike(NamedTuple):
    """An operation that failed."""

    operation: Operation
    path: PurePath
    code: int


class Storage:
    """It survives crashes. Names become durable only by `sync_dir` of their directory, and bytes only by a sync of
    their file."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._root = DirNode()
        self._pending: list[Change] = []
        self._faults: list[DiskFault] = []
        self._used = 0
        self.capacity: int | None = None
        """The bytes of file content that fit; None means no limit."""
        self.drag = 1.0
        """The factor by which everything takes longer than usual."""
        self.struck: list[Strike] = []
        """What has failed in the present life of the node."""
        self.harmed: set[str] = set()
        """The names of directories in which bytes have rotted at any time."""
        self.locks: set[PurePath] = set()

    # What a scenario does

    def fail(
        self,
        operation: Operation,
        pattern: str = "*",
        code: int = errno.EIO,
        nth: int = 1,
        times: int | None = 1,
        error: Exception | None = None,
    ) -> DiskFault:
        """Makes the nth such operation on a matching path raise OSError(code), and also the `times - 1` operations
        after it. With `error`, they raise that instead, as for a mistake in the program."""
        fault = DiskFault(operation, pattern, code, nth, times, error)
        self._faults.append(fault)
        return fault

    def lie(self, pattern: str = "*", nth: int = 1, times: int | None = 1) -> DiskFault:
        """Makes syncs of matching files report success and keep nothing."""
        fault = DiskFault("sync", pattern, None, nth, times)
        self._faults.append(fault)
        return fault

    def mend(self, fault: DiskFault | None = None) -> None:
        """Ends one fault, or all."""
        if fault is None:
            self._faults.clear()
        elif fault in self._faults:
            self._faults.remove(fault)

    def provide(self, path: PurePath) -> None:
        """Makes a directory that was there, and durable, before anything started."""
        directory = self._root
        for name in path.parts[1:]:
            child = directory.entries.setdefault(name, DirNode())
            directory.durable[name] = child
            directory = _as_directory(child, path)

    def damage(self, path: PurePath, pos: int, data: bytes) -> None:
        """Overwrites bytes on the disk, as rot or a misdirected write would."""
        node = self.file(path)
        assert pos + len(data) <= len(node.data)
        node.data[pos : pos + len(data)] = data
        node.damaged_at = pos if node.damaged_at is None else min(node.damaged_at, pos)
        self.harmed.add(path.parent.name)

    def spoil(self, path: PurePath, data: bytes) -> None:
        """For a node that is down: replaces the content of a file, also on the disk."""
        node = self.file(path)
        self.occupy(node, len(data) - len(node.data))
        node.replace(data)

    def damaged(self) -> list[PurePath]:
        """Files that do not hold what was written to them."""
        return [path for path, node in self.tree() if node.damaged_at is not None]

    def has_failed(self, log: PurePath) -> bool:
        """Whether an operation on a file of this log has failed in the present life, by more than a want of
        descriptors; or on a checkpoint that lies beside it, which no log is cut without."""
        strikes = (strike for strike in self.struck if strike.operation != "open")
        return any(strike.path.is_relative_to(log) or strike.path.parent == log.parent for strike in strikes)

    def wipe(self) -> None:
        """Replaces this disk by an empty one."""
        self._root = DirNode()
        self._pending.clear()
        self._used = 0

    def durable_bytes(self, path: PurePath) -> bytes | None:
        """The bytes of the file that are certain to survive a power cut; None if its name may be lost."""
        node: Node = self._root
        for name in path.parts[1:]:
            if not isinstance(node, DirNode) or name not in node.durable:
                return None
            node = node.durable[name]
        return node.durable_bytes() if isinstance(node, FileNode) else None

    def lose_power(self) -> None:
        """Names: either the first changes reached the disk, or any of them did. Bytes: see FileNode."""
        random = self._random
        if random.random() < 0.5:
            kept = self._pending[: random.randint(0, len(self._pending))]
        else:
            kept = [change for change in self._pending if random.random() < 0.5]
        for change in kept:
            change.settle()
        self._pending.clear()
        _fall_back(self._root)
        for node in self._root.files():
            node.lose_power(random)
        self._used = sum(len(node.data) for node in self._root.files())

    def restart(self) -> None:
        """A new process uses the disk: nothing in it was written lately, no lock is held. Pages that a sync failed to
        write count as clean, so that the kernel has dropped them by now."""
        self.locks.clear()
        self.struck.clear()
        for node in self._root.files():
            if node.lost_pages:
                self.occupy(node, -len(node.data))
                node.lose_power(self._random)
                self.occupy(node, len(node.data))
            node.warm_from = len(node.data)

    # For disk handles

    @property
    def used(self) -> int:
        return self._used

    @property
    def room(self) -> int | None:
        return None if self.capacity is None else max(0, self.capacity - self._used)

    def occupy(self, node: FileNode, size: int) -> None:
        if node.linked:
            self._used += size

    def strike(self, operation: Operation, path: PurePath) -> DiskFault | None:
        for fault in self._faults:
            if fault.strikes(operation, path):
                if fault.error is not None:
                    raise fault.error
                if fault.code is not None:
                    self.struck.append(Strike(operation, path, fault.code))
                return fault
        return None

    def raise_if_struck(self, operation: Operation, path: PurePath) -> None:
        fault = self.strike(operation, path)
        if fault is not None and fault.code is not None:
            if operation == "open":
                raise Exhausted(fault.code, os.strerror(fault.code), str(path))
            raise os_error(fault.code, path)

    def find(self, path: PurePath) -> Node | None:
        if not path.is_absolute():
            raise ValueError(f"not an absolute path: {path}")
        node: Node = self._root
        for name in path.parts[1:]:
            if not isinstance(node, DirNode) or name not in node.entries:
                return None
            node = node.entries[name]
        return node

    def file(self, path: PurePath) -> FileNode:
        node = self.find(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if isinstance(node, DirNode):
            raise os_error(errno.EISDIR, path)
        return node

    def directory(self, path: PurePath) -> DirNode:
        node = self.find(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        return _as_directory(node, path)

    def link(self, path: PurePath, node: Node) -> None:
        parent = self.directory(path.parent)
        parent.entries[path.name] = node
        self._pending.append(Change(node, None, (parent, path.name)))

    def unlink(self, path: PurePath, node: Node) -> None:
        parent = self.directory(path.parent)
        del parent.entries[path.name]
        self._pending.append(Change(node, (parent, path.name), None))
        self._release(node)

    def rename(self, old: PurePath, new: PurePath) -> None:
        source, target = self.directory(old.parent), self.directory(new.parent)
        node = source.entries.get(old.name)
        if node is None:
            raise os_error(errno.ENOENT, old)
        replaced = target.entries.get(new.name)
        if replaced is node:
            return
        _check_replaceable(node, replaced, new)
        if isinstance(node, DirNode) and old in new.parents:
            raise os_error(errno.EINVAL, new)
        del source.entries[old.name]
        target.entries[new.name] = node
        self._pending.append(Change(node, (source, old.name), (target, new.name)))
        if replaced is not None:
            self._release(replaced)

    def settle_names(self, directory: DirNode) -> None:
        self._settle([change for change in self._pending if change.touches(directory)])

    def settle_name_of(self, path: PurePath) -> None:
        """As in ext4: a sync of a file also makes its name durable, and the names of the directories above it."""
        chain = {id(self.find(PurePath(*path.parts[:depth]))) for depth in range(2, len(path.parts) + 1)}
        self._settle([change for change in self._pending if id(change.node) in chain])

    def _settle(self, changes: list[Change]) -> None:
        for change in changes:
            change.settle()
        settled = set(map(id, changes))
        self._pending = [change for change in self._pending if id(change) not in settled]

    def _release(self, node: Node) -> None:
        if isinstance(node, FileNode):
            self._used -= len(node.data)
            node.linked = False

    def tree(self) -> Iterator[tuple[PurePath, FileNode]]:
        """Every file and its path, sorted."""
        yield from _walk(PurePath("/"), self._root)


def _as_directory(node: Node, path: PurePath) -> DirNode:
    if isinstance(node, FileNode):
        raise os_error(errno.ENOTDIR, path)
    return node


def _check_replaceable(node: Node, replaced: Node | None, path: PurePath) -> None:
    if isinstance(replaced, DirNode):
        if isinstance(node, FileNode):
            raise os_error(errno.EISDIR, path)
        if replaced.entries:
            raise os_error(errno.ENOTEMPTY, path)
    elif replaced is not None and isinstance(node, DirNode):
        raise os_error(errno.ENOTDIR, path)


def _fall_back(directory: DirNode) -> None:
    directory.entries = dict(directory.durable)
    for node in directory.entries.values():
        if isinstance(node, DirNode):
            _fall_back(node)
        else:
            node.linked = True


def _walk(path: PurePath, directory: DirNode) -> Iterator[tuple[PurePath, FileNode]]:
    for name in sorted(directory.entries):
        node = directory.entries[name]
        if isinstance(node, FileNode):
            yield path / name, node
        else:
            yield from _walk(path / name, node)
