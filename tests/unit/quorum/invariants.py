"""What must hold after every event, as named objects that watch replicas. Each remembers what it has seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from highwater.quorum import ReplicaKey, Role
from tests.unit.quorum.memory_log import Entry


class Broken(AssertionError):
    """An invariant does not hold."""


class Replica(Protocol):
    """A replica as the invariants see it; one that is down has a disk and nothing else."""

    @property
    def id(self) -> int: ...

    @property
    def is_up(self) -> bool: ...

    @property
    def role(self) -> Role: ...

    @property
    def epoch(self) -> int: ...

    @property
    def high_watermark(self) -> int | None: ...

    @property
    def life(self) -> int:
        """How often it has started."""
        ...

    @property
    def log(self) -> Sequence[Entry]:
        """What it has in memory and on disk."""
        ...

    @property
    def disk(self) -> Sequence[Entry]:
        """What a power cut would leave."""
        ...


class SingleLeader:
    """At most one replica leads an epoch, ever."""

    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}

    def check(self, changed: Replica, replicas: Sequence[Replica]) -> None:
        if changed.is_up and changed.role == Role.LEADER:
            leader = self._leaders.setdefault(changed.epoch, changed.id)
            if leader != changed.id:
                raise Broken(f"{leader} and {changed.id} both lead epoch {changed.epoch}")


class LeadsOnce:
    """A replica that has led an epoch does not lead it again after a restart (KAFKA-10527)."""

    def __init__(self) -> None:
        self._lives: dict[tuple[int, int], int] = {}

    def check(self, changed: Replica, replicas: Sequence[Replica]) -> None:
        if changed.is_up and changed.role == Role.LEADER:
            life = self._lives.setdefault((changed.id, changed.epoch), changed.life)
            if life != changed.life:
                raise Broken(f"{changed.id} leads epoch {changed.epoch} in a second life")


class MonotonicEpoch:
    """A replica's epoch never goes back, crashes included."""

    def __init__(self) -> None:
        self._epochs: dict[int, int] = {}

    def check(self, changed: Replica, replicas: Sequence[Replica]) -> None:
        if changed.is_up:
            if changed.epoch < self._epochs.get(changed.id, 0):
                raise Broken(f"{changed.id} went back from epoch {self._epochs[changed.id]} to {changed.epoch}")
            self._epochs[changed.id] = changed.epoch


class MonotonicHighWatermark:
    """A replica's high watermark never goes back while it runs."""

    def __init__(self) -> None:
        self._high: dict[tuple[int, int], int] = {}

    def check(self, changed: Replica, replicas: Sequence[Replica]) -> None:
        if changed.is_up and changed.high_watermark is not None:
            key = (changed.id, changed.life)
            if changed.high_watermark < self._high.get(key, 0):
                raise Broken(f"{changed.id} went back from {self._high[key]} to {changed.high_watermark}")
            self._high[key] = changed.high_watermark


class Committed:
    """What one replica knows as committed is the same on all, is on a majority's disks, and stays there."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._holders: dict[int, bool] = {}
        self._known: dict[int, tuple[int, int]] = {}

    def check(self, changed: Replica, replicas: Sequence[Replica]) -> None:
        suspects: Sequence[Replica] = [changed]
        if changed.is_up and changed.high_watermark is not None and self._is_news(changed, changed.high_watermark):
            known = changed.log[: changed.high_watermark]
            if len(known) < changed.high_watermark:
                raise Broken(f"{changed.id} knows {changed.high_watermark} committed and has {len(known)}")
            common = min(len(known), len(self.entries))
            if known[:common] != self.entries[:common]:
                raise Broken(f"{changed.id} knows another entry as committed below {common}")
            if len(known) > common:
                self.entries.extend(known[common:])
                suspects = replicas
        end = len(self.entries)
        for replica in suspects:
            self._holders[replica.id] = replica.disk[:end] == self.entries
        holders = [replica.id for replica in replicas if self._holders.get(replica.id, True)]
        if len(holders) < len(replicas) // 2 + 1:
            raise Broken(f"of the {end} committed entries all are on the disks of {holders} alone")

    def _is_news(self, replica: Replica, high_watermark: int) -> bool:
        before, self._known[replica.id] = self._known.get(replica.id), (replica.life, high_watermark)
        return before != (replica.life, high_watermark)


class LeaderCompleteness:
    """A leader's log has every entry that was committed before its election."""

    def __init__(self, committed: Committed) -> None:
        self._committed = committed
        self._seen: set[tuple[int, int]] = set()

    def check(self, changed: Replica, replicas: Sequence[Replica]) -> None:
        if changed.is_up and changed.role == Role.LEADER and (changed.id, changed.epoch) not in self._seen:
            self._seen.add((changed.id, changed.epoch))
            entries = [entry for entry in self._committed.entries if entry.epoch < changed.epoch]
            if list(changed.log[: len(entries)]) != entries:
                raise Broken(f"{changed.id} leads epoch {changed.epoch} without all committed entries")


class LogMatching:
    """An offset and an epoch name one record, wherever it is written."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, int], str] = {}

    def written(self, offset: int, entry: Entry) -> None:
        value = self._values.setdefault((offset, entry.epoch), entry.value)
        if value != entry.value:
            raise Broken(f"{value} and {entry.value} at offset {offset} of epoch {entry.epoch}")


class OneVote:
    """A replica gives its vote in an epoch to one candidate, crashes included."""

    def __init__(self) -> None:
        self._votes: dict[tuple[int, int], ReplicaKey] = {}

    def voted(self, voter: int, epoch: int, candidate: ReplicaKey) -> None:
        vote = self._votes.setdefault((voter, epoch), candidate)
        if vote != candidate:
            raise Broken(f"{voter} voted for {vote.id} and for {candidate.id} in epoch {epoch}")


class Watch:
    """All invariants together."""

    def __init__(self) -> None:
        self.committed = Committed()
        self.log_matching = LogMatching()
        self.one_vote = OneVote()
        self._checks = (
            SingleLeader(),
            LeadsOnce(),
            MonotonicEpoch(),
            MonotonicHighWatermark(),
            LeaderCompleteness(self.committed),
            self.committed,
        )

    def check(self, changed: Replica, replicas: Sequence[Replica]) -> None:
        for invariant in self._checks:
            invariant.check(changed, replicas)
