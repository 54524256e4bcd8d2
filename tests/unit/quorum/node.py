"""A small driver: it does with a `Ready` what a node has to do, in its order, and may crash between any two steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from highwater.errors import Code
from highwater.model import NodeId
from highwater.quorum import (
    Caller,
    ElectionState,
    FetchAnswer,
    FollowerFetch,
    LogPosition,
    Quorum,
    Ready,
    ReplicaKey,
    Role,
    VoterSet,
)
from highwater.quorum.log_view import durable_position
from highwater.wire.codec import Message
from tests.unit.quorum.memory_log import Entry
from tests.unit.quorum.replicas import CONTROLLER, identity, voter_node

if TYPE_CHECKING:
    from tests.unit.quorum.cluster import World

FETCH_MAX_WAIT = 0.5
CRASH_POINTS = 6
"""Steps of the driver between which a crash may fall."""


class Crash(Exception):
    """The process is gone; what it has not synced is, too."""


@dataclass(frozen=True)
class SnapshotFetch:
    """A FetchSnapshot, whole, as the driver sends it besides the machine."""

    replica: ReplicaKey
    epoch: int
    snapshot: LogPosition


@dataclass(frozen=True)
class SnapshotData:
    error: Code
    leader_id: NodeId | None
    epoch: int
    entries: tuple[Entry, ...] = ()


@dataclass
class Parked:
    fetch: FollowerFetch
    reply: Callable[[object], None]


class Node:
    """A process that comes and goes on a disk that stays."""

    def __init__(self, world: World, node_id: int, voters: VoterSet) -> None:
        self.world = world
        self.id = node_id
        self.voters = voters
        self.memory_log = world.new_log()
        self.stored: ElectionState | None = None
        self.quorum: Quorum | None = None
        self.life = 0
        self.is_paused = False
        self.crash_in: int | None = None
        self._held: list[Callable[[], None]] = []
        self._parked: list[Parked] = []
        self._syncing = False
        self._flush_due = False

    # As the invariants see it

    @property
    def is_up(self) -> bool:
        return self.quorum is not None

    @property
    def running(self) -> Quorum:
        assert self.quorum is not None
        return self.quorum

    @property
    def role(self) -> Role:
        return self.running.role

    @property
    def epoch(self) -> int:
        return self.running.epoch

    @property
    def high_watermark(self) -> int | None:
        return self.running.high_watermark

    @property
    def log(self) -> list[Entry]:
        return self.memory_log.written

    @property
    def disk(self) -> list[Entry]:
        return self.memory_log.synced

    # Life and death

    def start(self) -> None:
        self.life += 1
        world = self.world
        self.quorum = Quorum(
            identity(self.id),
            self.voters,
            world.view_of(self.memory_log),
            Random(world.random.random()),
            self.stored,
            world.now,
            voters_offset=0,
            timing=world.timing,
        )
        self.feed(lambda quorum: quorum.start(world.now))

    def crash(self) -> None:
        self.quorum = None
        self.is_paused, self.crash_in = False, None
        self._held, self._parked, self._syncing, self._flush_due = [], [], False, False
        self.memory_log = self.memory_log.after_crash(self.world.random)

    def at_step(self) -> None:
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                raise Crash

    def pause(self) -> None:
        self.is_paused = self.is_up

    def resume(self) -> None:
        self.is_paused = False
        held, self._held = self._held, []
        for fn in held:
            self.world.later(0, fn)

    def guarded(self, fn: Callable[[], None]) -> Callable[[], None]:
        """An event of this life: dropped after a crash, held while paused."""
        life = self.life

        def run() -> None:
            if not self.is_up or self.life != life:
                return
            if self.is_paused:
                self._held.append(run)
                return
            try:
                fn()
            except Crash:
                self.crash()
            self.world.changed(self)

        return run

    # The driver

    def feed(self, give: Callable[[Quorum], Ready], reply: Callable[[object], None] | None = None) -> None:
        ready = give(self.running)
        self.carry_out(ready, reply)
        deadline = self.running.next_deadline()
        if deadline is not None:
            assert deadline > self.world.now, "what is due now has been done"
            self.world.timer(self, deadline)

    def tick(self) -> None:
        self.feed(lambda quorum: quorum.tick(self.world.now))

    def to_store(self, election: ElectionState) -> ElectionState:
        return election

    def carry_out(self, ready: Ready, reply: Callable[[object], None] | None) -> None:
        self.at_step()
        if ready.election is not None:
            self.stored = self.to_store(ready.election)
        self.at_step()
        if ready.truncate_to is not None:
            self.memory_log.truncate(ready.truncate_to)
        if ready.append is not None:
            self._append_fetched(bytes(ready.append))
        if ready.epoch_start is not None:
            assert ready.epoch_start.offset == self.memory_log.written_end
            self._write(Entry(ready.epoch_start.epoch, f"epoch of {ready.epoch_start.leader_change.leader_id}"))
            self.world.later(0, self.guarded(lambda: self.feed(lambda quorum: quorum.wrote(self.world.now))))
        if ready.touches_log:
            self._flush_due = True
            self.sync()
        if ready.fetch_snapshot is not None:
            self._ask_snapshot(ready.fetch_snapshot)
        self.at_step()
        if ready.answer is not None and reply is not None:
            reply(ready.answer)
        for request in ready.requests:
            self.world.send(self, request)
        self.at_step()
        if ready.wake_fetches:
            parked, self._parked = self._parked, []
            for one in parked:
                self.serve(one.fetch, one.reply)

    def _write(self, entry: Entry) -> None:
        self.world.watch.log_matching.written(self.memory_log.written_end, entry)
        self.memory_log.append(entry)

    def _append_fetched(self, records: bytes) -> None:
        for line in records.decode().splitlines():
            epoch, value = line.split("\t")
            self._write(Entry(int(epoch), value))

    def sync(self) -> None:
        """One sync at a time; what is written meanwhile needs another one."""
        if not self._syncing:
            self._syncing, self._flush_due = True, False
            content = list(self.memory_log.written)
            self.world.later(self.world.sync_time(), self.guarded(lambda: self._synced(content)))

    def _synced(self, content: list[Entry]) -> None:
        self.at_step()
        self._syncing = False
        self.memory_log.sync(content)
        if self._flush_due:
            self.sync()
        self.at_step()
        self.feed(lambda quorum: quorum.log_flushed(self.world.now))

    def write_as_client(self, value: str) -> None:
        if self.role == Role.LEADER:
            self._write(Entry(self.epoch, value))
            self._flush_due = True
            self.sync()
            self.feed(lambda quorum: quorum.wrote(self.world.now))

    def take_snapshot(self) -> None:
        if self.high_watermark is not None:
            self.memory_log.take_snapshot(self.high_watermark)

    def request(self, message: object, reply: Callable[[object], None]) -> None:
        if isinstance(message, FollowerFetch):
            self.serve(message, reply)
        elif isinstance(message, SnapshotFetch):
            self._serve_snapshot(message, reply)
        elif isinstance(message, Message):
            caller = Caller(message.VERSIONS[1], CONTROLLER)
            self.feed(lambda quorum: quorum.requested(message, caller, self.world.now), reply)

    def serve(self, fetch: FollowerFetch, reply: Callable[[object], None]) -> None:
        self.feed(
            lambda quorum: quorum.requested(fetch, Caller(17, CONTROLLER), self.world.now),
            lambda answer: self._reply_or_park(fetch, answer, reply),
        )

    def _reply_or_park(self, fetch: FollowerFetch, answer: object, reply: Callable[[object], None]) -> None:
        assert isinstance(answer, FetchAnswer)
        if answer.can_wait:
            parked = Parked(fetch, reply)
            self._parked.append(parked)
            self.world.later(FETCH_MAX_WAIT, self.guarded(partial(self._expire, parked, answer)))
            return
        if answer.serves_records:
            end = min(self.world.view_of(self.memory_log).durable_end, fetch.offset + self.world.fetch_max_entries)
            lines = [f"{entry.epoch}\t{entry.value}\n" for entry in self.memory_log.written[fetch.offset : end]]
            answer = replace(answer, records="".join(lines).encode())
        reply(answer)

    def _expire(self, parked: Parked, answer: FetchAnswer) -> None:
        if parked in self._parked:
            self._parked.remove(parked)
            parked.reply(answer)

    # Snapshots, which the driver fetches by itself

    def _ask_snapshot(self, snapshot: LogPosition) -> None:
        leader = self.running.leader_id
        assert leader is not None
        fetch = SnapshotFetch(voter_node(self.id).key, self.epoch, snapshot)
        self.world.exchange(
            self, leader, fetch, lambda data: self._install(snapshot, data), lambda: self._end_snapshot(snapshot)
        )

    def _serve_snapshot(self, fetch: SnapshotFetch, reply: Callable[[object], None]) -> None:
        quorum = self.running
        error = quorum.snapshot_requested(fetch.replica, fetch.epoch, self.world.now)
        held = error == Code.NONE and self.memory_log.start_offset >= fetch.snapshot.offset
        entries = tuple(self.memory_log.written[: fetch.snapshot.offset]) if held else ()
        reply(SnapshotData(error, quorum.leader_id, quorum.epoch, entries))

    def _install(self, snapshot: LogPosition, data: object) -> None:
        assert isinstance(data, SnapshotData)
        now = self.world.now
        listeners = self.voters.listeners(data.leader_id) if data.leader_id is not None else ()
        self.feed(lambda quorum: quorum.snapshot_answered(data.error, data.leader_id, data.epoch, listeners, now))
        if data.entries and self.running.fetching_snapshot == snapshot > durable_position(self.memory_log):
            self.memory_log.install(list(data.entries))
        self._end_snapshot(snapshot)

    def _end_snapshot(self, snapshot: LogPosition) -> None:
        if self.running.fetching_snapshot == snapshot:
            self.feed(lambda quorum: quorum.snapshot_done(self.world.now))
