"""Files beside the records that rot or end early while a node is down.

A node rebuilds what it can. If it cannot do without the file, it stops with an error that names it. Then the file is
restored, and the node starts again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from random import Random

from highwater.log import names
from highwater.log.checkpoint import BadCheckpoint, decode_offsets
from highwater.model import METADATA_TOPIC
from highwater.sim.cluster import SimNode
from highwater.sim.faults.fault import Fault
from highwater.sim.faults.losses import Losses
from highwater.sim.faults.outages import Outages
from highwater.sim.faults.scene import Scene
from highwater.sim.storage import Storage
from highwater.wire import records

VERB = "spoil a file of"
DATA = PurePath("/data")
METADATA = DATA / f"{METADATA_TOPIC}-0"
KINDS: Mapping[str, str] = {
    "indexes": "*/*.index",
    "time indexes": "*/*.timeindex",
    "epochs": f"*/{names.EPOCH_CHECKPOINT}",
    "producer snapshots": "*/*.snapshot",
    "recovery points": str(DATA / names.RECOVERY_POINTS),
    "high watermarks": str(DATA / names.HIGH_WATERMARKS),
    "log starts": str(DATA / names.LOG_STARTS),
    "quorum states": str(METADATA / "quorum-state"),
    "metadata logs": str(METADATA / "*.log"),
    "metadata snapshots": str(METADATA / "*.checkpoint"),
    "topic ids": f"*/{names.PARTITION_METADATA}",
    "node ids": str(DATA / names.META_PROPERTIES),
}
"""The files that are spoiled, and their directories."""
BINARY = (".log", ".index", ".timeindex", ".snapshot", ".checkpoint")


class Spoiling:
    def __init__(self, scene: Scene, losses: Losses, outages: Outages) -> None:
        self._scene = scene
        self._losses = losses
        self._outages = outages
        self._sound: dict[str, tuple[PurePath, bytes]] = {}
        """For each node: the spoiled file, and its content before."""

    def trouble(self, fault: Fault, name: str, until: float) -> bool:
        """Whether the verb is this one."""
        if fault.verb != VERB:
            return False
        if not self._losses.may_lose(name):
            self._scene.say(f"{name}: its files are spared")
            return True
        dice, state = fault.dice(), self._scene.state_of(name)
        kinds = list(KINDS)
        dice.shuffle(kinds)
        if self._outages.take_down(name, False, until):
            any(self._spoil(name, kind, state, dice) for kind in kinds)
        return True

    def _spoil(self, name: str, kind: str, state: str, dice: Random) -> bool:
        """False if there is no such file."""
        storage = self._scene.sim.storage(name)
        found = [
            (path, low, high)
            for path, node in storage.tree()
            if path.match(KINDS[kind]) and node.data
            for low, high in _range(storage, path, len(node.data))
        ]
        if not found:
            return False
        path, low, high = dice.choice(found)
        before = bytes(storage.file(path).data)
        how, after = _spoiled(before, low, high, path.suffix in BINARY, kind == "metadata logs", dice)
        self._scene.say(f"{name}: {path} {how}")
        self._scene.count(f"spoiled {kind}", state)
        storage.spoil(path, after)
        self._sound[name] = (path, before)
        self._losses.lost(name)
        return True

    def excuses(self, member: SimNode, failed: BaseException) -> bool:
        """Whether a node does not start because a file that it names is damaged: that file is restored."""
        path, before = self._sound.get(member.name, (None, b""))
        if path is None or member.serves or not _is_named(path, failed):
            return False
        del self._sound[member.name]
        self._scene.say(f"{member.name}: {path.name} is put back, for it does not start without: {failed}")
        self._scene.count("starts refused for a spoiled file", "a node that starts")
        self._scene.sim.storage(member.name).spoil(path, before)
        self._outages.start_again(member.name)
        return True

    def is_missed(self, member: SimNode) -> bool:
        """Whether the node reported that it could not open a log because of the file."""
        broker = None if member.node is None else member.node.broker
        if broker is None or member.name not in self._sound:
            return False
        return any(_is_named(self._sound[member.name][0], failed) for failed in broker.store.unloaded.values())

    def put_back(self, name: str) -> None:
        """For a node that is stopped."""
        path, before = self._sound.pop(name)
        self._scene.cluster.note("story", f"{name}: {path} is put back")
        self._scene.sim.storage(name).spoil(path, before)


def _is_named(path: PurePath, failed: BaseException | None) -> bool:
    """Whether the error, or its cause, names the file or its directory."""
    while failed is not None:
        if path.name in str(failed) or str(path.parent) in str(failed):
            return True
        failed = failed.__cause__ or failed.__context__
    return False


def _range(storage: Storage, path: PurePath, size: int) -> Iterator[tuple[int, int]]:
    """The bytes of a file that may be spoiled: all bytes. In the metadata log only synced bytes: a rotten tail cannot
    be distinguished from one that was never written."""
    if path.parent != METADATA or path.suffix != names.LOG:
        yield 0, size
        return
    point = storage.find(METADATA / names.RECOVERY_POINTS)
    try:
        (synced,) = (
            decode_offsets(bytes(storage.file(METADATA / names.RECOVERY_POINTS).data)).values() if point else (0,)
        )
    except (BadCheckpoint, ValueError):
        return
    for at, length, header in records.walk(bytes(storage.file(path).data)):
        if header.next_offset <= synced:
            yield at, at + length


def _spoiled(data: bytes, low: int, high: int, is_binary: bool, flips: bool, dice: Random) -> tuple[str, bytes]:
    """Bits that would change a digit of a text into another digit are excluded: such a file has no checksum, here and
    in Kafka."""
    chance = dice.random()
    if flips or chance < 0.4:
        at = dice.randrange(low, high)
        bit = 1 << dice.randrange(8) if is_binary else 0x80
        return f"has another byte at {at}", data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
    at = dice.randrange(len(data))
    if chance < 0.75:
        return f"ends at {at} of {len(data)}", data[:at]
    return f"has nothing but zeros from {at} on", data[:at] + bytes(len(data) - at)
