"""Syncs: one file at once in a job, or many in the rounds of the group commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from random import Random

from highwater.sim.inode import FileNode, Version
from highwater.sim.knobs import Knobs
from highwater.sim.loop import SimLoop
from highwater.sim.process import Process
from highwater.sim.storage import Storage, os_error
from highwater.world import gravest
from highwater.world.boundary import as_os_error

Done = Callable[[OSError | None], None]
Named = tuple[PurePath, FileNode]
LOOK_SECONDS = 0.25
"""How often a round that takes long looks whether the disk is still slow."""


class Flusher:
    """A round covers what was appended before it began. Calls that come during a round share the next one."""

    def __init__(self, process: Process, loop: SimLoop, storage: Storage, random: Random, knobs: Knobs) -> None:
        self._process = process
        self._loop = loop
        self._storage = storage
        self._random = random
        self._knobs = knobs
        self._waiting: list[tuple[list[Named], Done]] = []
        self._under_way = False

    def sync(self, path: PurePath, node: FileNode, version: Version) -> None:
        """Makes `version` durable. After a crash between the event and its effect, the bytes may be on the disk or
        not."""
        self._process.emit("sync", str(path))
        try:
            self._storage.raise_if_struck("open", path)
        except OSError:
            node.drop_sync(version)
            raise
        fault = self._storage.strike("sync", path)
        if fault is not None and fault.code is not None:
            node.fail_sync(version)
            raise os_error(fault.code, path)
        node.end_sync(version, kept=fault is None)
        if self._knobs.sync_keeps_entry and node.linked:
            self._storage.settle_name_of(path)
        self._process.happened("sync", str(path))

    def flush(self, files: list[Named], done: Done) -> None:
        self._waiting.append((files, done))
        if not self._under_way:
            self._under_way = True
            self._loop.call_soon(self._begin, context=self._process.context())

    def _begin(self) -> None:
        calls, self._waiting = self._waiting, []
        begun: dict[int, tuple[PurePath, FileNode, Version]] = {}
        for files, _ in calls:
            for path, node in files:
                if id(node) not in begun:
                    begun[id(node)] = (path, node, node.begin_sync())
        self._work(self._random.uniform(*self._knobs.flush_round), calls, begun)

    def _work(
        self,
        left: float,
        calls: list[tuple[list[Named], Done]],
        begun: dict[int, tuple[PurePath, FileNode, Version]],
    ) -> None:
        """`left` is the time that a disk at its usual speed still needs. A slow disk may have recovered meanwhile."""
        drag, context = self._storage.drag, self._process.context()
        if left * drag <= LOOK_SECONDS:
            self._loop.call_later(left * drag, self._end, calls, begun, context=context)
        else:
            self._loop.call_later(LOOK_SECONDS, self._work, left - LOOK_SECONDS / drag, calls, begun, context=context)

    def _end(self, calls: list[tuple[list[Named], Done]], begun: dict[int, tuple[PurePath, FileNode, Version]]) -> None:
        failed: dict[int, OSError] = {}
        for key, (path, node, version) in begun.items():
            try:
                self.sync(path, node, version)
            except OSError as error:
                failed[key] = error
            except Exception as error:  # noqa: BLE001 - as in the real one
                failed[key] = as_os_error(error)
        self._process.emit("flushed")
        for files, done in calls:
            outcome = gravest(failed[id(node)] for _, node in files if id(node) in failed)
            self._loop.call_soon(done, outcome, context=self._process.context())
        self._under_way = bool(self._waiting)
        if self._waiting:
            self._begin()
