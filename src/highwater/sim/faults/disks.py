"""Faults of disks: full, slow, without descriptors, with errors; bytes that rot, and a disk that is replaced."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import PurePath
from random import Random

from highwater.sim.cluster import SimNode
from highwater.sim.faults.fault import Fault
from highwater.sim.faults.links import LinkFaults
from highwater.sim.faults.losses import Losses
from highwater.sim.faults.outages import Outages
from highwater.sim.faults.scene import Scene
from highwater.sim.inode import FileNode
from highwater.sim.storage import DiskFault, Operation
from highwater.sim.table_load import TABLE

METADATA, RECORDS, CHECKPOINTS, ANYTHING = (
    "/data/__cluster_metadata-*",
    "/data/[!_]*-[0-9]*/*",
    "/data/*checkpoint*",
    "*",
)
ERRORS: dict[str, tuple[str, Operation, str]] = {
    "fail a write of": ("failed writes", "append", "a write"),
    "fail a write of metadata of": ("failed writes of metadata", "append", "a write"),
    "fail a sync of": ("failed syncs", "sync", "a sync"),
    "fail a truncation of": ("failed truncations", "truncate", "a truncation"),
    "fail a creation of": ("failed creations", "create", "a creation"),
    "fail a renaming of": ("failed renamings", "rename", "a renaming"),
    "fail a read of": ("failed reads", "read", "a read"),
}
SLOW = (5.0, 200.0)


class Disks:
    def __init__(self, scene: Scene, losses: Losses, outages: Outages, links: LinkFaults) -> None:
        self._scene = scene
        self._links = links
        self._cluster = scene.cluster
        self._sim = scene.sim
        self._losses = losses
        self._outages = outages
        self._planned: list[tuple[str, str, DiskFault]] = []
        """Errors by their kind and by the node's role. Most of them happen some time later, or never."""

    def trouble(self, fault: Fault, name: str, until: float) -> bool:
        """Whether the verb is one of these."""
        match fault.verb:
            case "fill the disk of":
                self._fill(fault, name, until)
            case "take the descriptors of":
                self._exhaust(name, until)
            case "slow the disk of":
                self._slow(fault, name, until)
            case "damage bytes of":
                self._damage(fault, name, until)
            case "replace the disk of":
                self._replace(fault, until)
            case verb if verb in ERRORS:
                self._fail(fault, name, until)
            case _:
                return False
        return True

    def excuses(self, member: SimNode, failed: BaseException) -> bool:
        """Whether a node may end: if its metadata could not be stored, or if its disk fails while it starts."""
        struck = self._sim.storage(member.name).struck
        may_end = _is_of_a_disk(failed) and any(
            not member.serves or strike.path.match(f"{METADATA}/*") for strike in struck
        )
        if may_end and self._scene.over:
            # The error hit it before everything healed, and nothing else starts it again.
            self._outages.start_again(member.name)
        return may_end

    # A disk that refuses

    def _spared(self, name: str) -> bool:
        """A node that cannot keep its metadata stops, as if it had been killed."""
        if self._losses.may_crash(name):
            return False
        self._scene.say(f"{name}: its disk is spared, {self._losses.text()} has not recovered yet")
        return True

    def _fill(self, fault: Fault, name: str, until: float) -> None:
        if self._spared(name):
            return
        storage = self._sim.storage(name)
        room = int(fault.draw * 4000)
        self._scene.say(f"{name}: its disk has room for {room} bytes until {until:.3f}")
        self._scene.count("full disks", self._scene.state_of(name))
        storage.capacity = storage.used + room

        def empty() -> None:
            storage.capacity = None

        self._undo_at(until, name, empty)

    def _exhaust(self, name: str, until: float) -> None:
        if self._spared(name):
            return
        self._scene.say(f"{name}: has no descriptors left until {until:.3f}")
        self._scene.count("descriptors gone", self._scene.state_of(name))
        storage = self._sim.storage(name)
        fault = storage.fail("open", ANYTHING, errno.EMFILE, times=None)
        self._undo_at(until, name, lambda: storage.mend(fault))

    def _slow(self, fault: Fault, name: str, until: float) -> None:
        drag = SLOW[0] * (SLOW[1] / SLOW[0]) ** fault.draw
        self._scene.say(f"{name}: its disk takes {drag:.0f} times as long until {until:.3f}")
        self._scene.count("slow disks", self._scene.state_of(name))
        storage = self._sim.storage(name)
        storage.drag = drag

        def quicken() -> None:
            storage.drag = 1.0

        self._undo_at(until, name, quicken)

    def _fail(self, fault: Fault, name: str, until: float) -> None:
        """Unsynced data is lost with the pages of a failed sync. If it was acknowledged before it was synced, that is a
        loss."""
        if self._spared(name):
            return
        kind, operation, text = ERRORS[fault.verb]
        dice = fault.dice()
        pattern = dice.choices((RECORDS, METADATA, CHECKPOINTS, ANYTHING), (6, 2, 1, 2))[0]
        of_metadata = fault.verb == "fail a write of metadata of"
        if of_metadata:
            pattern = METADATA
        nth = dice.randint(1, 6 if operation in ("append", "sync") else 2)
        if operation == "truncate":  # which there are not many of, and none of a checkpoint
            nth, pattern = 1, METADATA if pattern == METADATA else RECORDS
        times = dice.choice((1, 1, 2, 10))
        loses = operation == "sync" and pattern != METADATA and not self._losses.keeps_only_synced(name)
        if loses and not self._losses.may_lose(name):
            pattern = METADATA
            loses = False
        passes = operation in ("append", "create") and dice.random() < (0.8 if of_metadata else 0.4)
        code = errno.ENOSPC if passes else errno.EIO
        why = f"{times} times from no. {nth} on, until {until:.3f}: {os.strerror(code)}"
        self._scene.say(f"{name}: {text} of {pattern} fails {why}")
        if loses:
            self._losses.lost(name)
        storage = self._sim.storage(name)
        planned = storage.fail(operation, pattern, code, nth, times)
        self._planned.append((kind, self._scene.state_of(name), planned))
        if of_metadata:
            self._slow(fault, name, until)  # so that there is more than one batch to be written at a time
        if operation in ("read", "truncate") and dice.random() < 0.5:
            # Files are read and cut above all by a node that starts.
            self._outages.take_down(name, False, self._sim.now + 0.05)
        elif operation == "truncate":
            # Also by a leader that was cut off with its clients for a while.
            alone_until = self._sim.now + dice.uniform(1.6, 2.6)
            self._links.isolate_from_nodes(name, alone_until)
            until = max(until, alone_until + 1.5)

        def undo() -> None:
            storage.mend(planned)
            if loses or has_offline_logs(self._cluster.members[name]):
                self._outages.take_down(name, False, self._sim.now + 0.05)

        self._undo_at(until, name, undo)

    def _undo_at(self, until: float, name: str, undo: Callable[[], None]) -> None:
        """A node that ended by itself starts again when its disk works again."""

        def well() -> None:
            if not self._scene.over:
                undo()
                self._outages.start(name)

        self._sim.at(until, well)

    # A disk that forgets

    def _damage(self, fault: Fault, name: str, until: float) -> None:
        """Bytes that were synced, and that are no longer in the memory of a kernel. Bytes of a table's closed segments
        may be gone from it at any time; other bytes only if they were written before the node was started, or if the
        node is down."""
        if not self._cluster.members[name].is_broker or not self._losses.may_lose(name):
            self._scene.say(f"{name}: its bytes are spared")
            return
        storage, dice, state = self._sim.storage(name), fault.dice(), self._scene.state_of(name)
        cold = self._cold_files(name, lambda node: min(node.warm_from, node.durable.upto))
        if not cold or dice.random() < 0.2:
            cold = self._cold_files(name, lambda node: node.durable.upto)
            if not cold or not self._outages.take_down(name, False, until):
                return
        path, below = dice.choice(cold)
        at = _place(dice, below)
        byte = storage.file(path).data[at] ^ (1 << dice.randrange(8))
        self._scene.say(f"{name}: byte {at} of {path} is not what was written any more")
        self._scene.count("damaged bytes", state)
        storage.damage(path, at, bytes([byte]))
        self._losses.lost(name)

    def _cold_files(self, name: str, upto: Callable[[FileNode], int]) -> list[tuple[PurePath, int]]:
        """Segments of the load's partitions and of its table, and how many bytes of each may rot: as many as `upto`
        says, or the whole of a closed segment of the table. Fresh bytes are not checked when they are sent to readers,
        but bytes that are compacted are checked."""
        topics = {TABLE.topic, *(partition.topic for partition in self._scene.partitions)}
        segments = {
            path: node
            for path, node in self._sim.storage(name).tree()
            if path.suffix == ".log" and path.parent.name.rpartition("-")[0] in topics
        }
        active = {path.parent: path for path in segments}.values()  # their names are sorted
        closed = {path for path in segments if path not in active and path.parent.name == str(TABLE)}
        below = {path: node.durable.upto if path in closed else upto(node) for path, node in segments.items()}
        return [(path, size) for path, size in below.items() if size > 0]

    def _replace(self, fault: Fault, until: float) -> None:
        """Only for a broker: a voter that lost its disk would have to be made a voter again, which an operator does."""
        members = [each for each in self._cluster.members.values() if not each.is_voter]
        if not members:
            return
        name = members[int(fault.draw * len(members))].name
        if not self._losses.may_lose(name):
            return
        state = self._scene.state_of(name)
        self._outages.take_down(name, True, until)
        self._scene.say(f"{name}: gets an empty disk")
        self._scene.count("replaced disks", state)
        self._losses.lost(name)
        self._cluster.replace_disk(name)

    def end(self) -> None:
        """Makes every disk work and have room."""
        for kind, state, planned in self._planned:
            if planned.struck:
                self._scene.count(kind, state)
        for name in self._cluster.names:
            storage = self._sim.storage(name)
            storage.mend()
            storage.capacity = None
            storage.drag = 1.0


def _is_of_a_disk(failed: BaseException | None) -> bool:
    while failed is not None and not isinstance(failed, OSError):
        failed = failed.__cause__ or failed.__context__
    return failed is not None


def _place(dice: Random, below: int) -> int:
    """Anywhere in the file, but half of the time near the end, where recovery reads."""
    return dice.randrange(max(0, below - 400), below) if dice.random() < 0.5 else dice.randrange(below)


def has_offline_logs(member: SimNode) -> bool:
    broker = None if member.node is None else member.node.broker
    if broker is None:
        return False
    return bool(broker.store.unloaded) or any(log.offline is not None for log in broker.store.logs.values())
