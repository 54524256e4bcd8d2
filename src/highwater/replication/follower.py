"""One follower in one leader epoch: what a fetch response means for its log. Pure.

Each input returns a `Ready`. The driver carries it out in the order of its fields, and then feeds the result back:

1. `truncate_to` or `restart_at`: cut the log. The driver appends nothing and fetches nothing before it has called
   `truncated`, `restarted` or `log_failed`. It syncs the cut and the recovery point before that call.
2. `append`: append this many whole batches. Then call `appended`, or `failed` even if some of them were appended.
3. `high_watermark`, `log_start`: move them.
4. `keep_log_start`: store the log start on disk. Only a later fetch may report it to the leader.
5. The next fetch, which the conversation sends. It acknowledges everything below the log end, so in flush mode the log
   is synced first.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from highwater.errors import Code
from highwater.model import Epoch, Offset
from highwater.replication.reconciliation import EpochHistory, cut_for_divergence, first_batch, out_of_range

FIRST_PAUSE = 0.01


class State(Enum):
    FETCHING = "fetching"
    TRUNCATING = "truncating"
    """The log is being cut."""
    ASKING = "asking"
    """The log end is not in the leader's log: the leader was asked where its log begins and ends."""
    PAUSED = "paused"
    """The follower waits for a while, after an error or because of a throttle."""
    PARKED = "parked"
    """Only newer metadata, or a restart of the broker, can help."""
    STOPPED = "stopped"


class Batch(Protocol):
    """The header of a whole batch in a fetch response."""

    @property
    def base_offset(self) -> Offset: ...

    @property
    def last_offset(self) -> Offset: ...

    @property
    def leader_epoch(self) -> Epoch: ...


class Row(NamedTuple):
    """One partition's part of a fetch response."""

    code: Code = Code.NONE
    high_watermark: Offset = -1
    log_start: Offset = -1
    diverging: tuple[Epoch, Offset] | None = None
    """The leader's largest epoch not above our last one, and where that ended there."""
    batches: Sequence[Batch] = ()
    has_bytes: bool = False
    """Whether there are any bytes of records, even if no batch is whole."""


class Ends(NamedTuple):
    """Where a log begins and ends."""

    start: Offset
    end: Offset


class Ready(NamedTuple):
    truncate_to: Offset | None = None
    restart_at: Offset | None = None
    """Delete the log and begin a new one at this offset: empty, or with the `append` batches. Those are appended whole,
    even if the leader has deleted records of the first one; the log start then stays where it was."""
    append: int = 0
    takes: bool = False
    """The response is for our current position: append its batches, if any, and then call `appended`."""
    leader_high_watermark: Offset | None = None
    """The leader's high watermark, as in the response."""
    high_watermark: Offset | None = None
    log_start: Offset | None = None
    keep_log_start: bool = False
    ask_ends: bool = False
    """Ask the leader where its log begins and ends."""
    pause: float | None = None
    """Call `resumed` after this many seconds."""
    is_damaged: bool = False
    """The last epoch in the log is one that no controller has given out: no checksum covers the epoch of a batch."""
    why: str = ""


NOTHING = Ready()
_WAITS = (Code.FENCED_LEADER_EPOCH,)
"""Errors that only newer metadata can end. After every other error the follower tries again."""


class Follower:
    """Fetches from the end of its log. There is a new one for every leader epoch, because records that were fetched in
    an older epoch must be checked again (KAFKA-7164)."""

    __slots__ = ("asked_first", "asked_last", "epoch", "is_moved", "longest_pause", "pause", "state")

    def __init__(self, epoch: Epoch, longest_pause: float, *, is_being_cut: bool = False) -> None:
        self.epoch = epoch
        self.longest_pause = longest_pause
        self.state = State.TRUNCATING if is_being_cut else State.FETCHING
        """Nothing is fetched while a cut of an earlier term is under way: the log's end is not known yet."""
        self.pause = 0.0
        self.is_moved = not is_being_cut
        """The next fetch must name it: its position differs from the one in the last fetch."""
        self.asked_first: int | None = None
        """The number of the first fetch that named it since it last began to fetch."""
        self.asked_last: int | None = None
        """The number of the last fetch that named it."""

    @property
    def fetches(self) -> bool:
        return self.state is State.FETCHING

    # Inputs: fetches

    def asked(self, fetch: int) -> None:
        """A fetch of this number names it, at its log's end."""
        if self.asked_first is None:
            self.asked_first = fetch
        self.asked_last = fetch
        self.is_moved = False

    def answered(self, fetch: int, row: Row, log: Ends, high_watermark: Offset, history: EpochHistory) -> Ready:
        if self.state is not State.FETCHING or self.asked_first is None or self.asked_last is None:
            return NOTHING
        if self.is_moved or self.asked_last > fetch:
            # The response is for an older position, perhaps for an older epoch. A later fetch will ask from here again.
            # But the leader's high watermark is valid for every position.
            if self.asked_first > fetch or row.code is not Code.NONE or row.diverging is not None:
                return NOTHING
            return Ready(leader_high_watermark=row.high_watermark, high_watermark=_committed(row, log, high_watermark))
        if row.code is not Code.NONE:
            return self._refused(row.code)
        if row.diverging is not None:
            epoch, leader_end = row.diverging
            return self._diverged(cut_for_divergence(history, log.end, epoch, leader_end), row, log)
        return self._take(row, log)

    def _diverged(self, cut: Offset, row: Row, log: Ends) -> Ready:
        assert row.diverging is not None
        why = f"epoch {row.diverging[0]} of the leader ends at {row.diverging[1]}"
        if cut >= log.start:
            return self._cut(cut, why)
        # The logs part below our log start, so nothing of ours is in the leader's log. A log that went on from its old
        # start would lack what the leader has below it, and that counts as deleted once this replica leads.
        self._leave(State.TRUNCATING)
        return Ready(restart_at=row.log_start, why=f"{why}, below our log start {log.start}")

    def _refused(self, code: Code) -> Ready:
        if code is Code.OFFSET_OUT_OF_RANGE:
            self._leave(State.ASKING)
            return Ready(ask_ends=True)
        if code in _WAITS:
            self._leave(State.PARKED)
            return NOTHING
        return self.failed()

    def _take(self, row: Row, log: Ends) -> Ready:
        """Take the batches up to the first one of a later leader epoch. The leader may have changed while the response
        was made, so the rest is fetched again in the new epoch (KAFKA-18723)."""
        count = 0
        for batch in row.batches:
            if batch.leader_epoch > self.epoch:
                break
            count += 1
        if row.batches and not count:
            return self.failed(f"fetched records are of a later epoch than {self.epoch}")
        if row.has_bytes and not count:
            return self.failed("there is no whole batch among the fetched records")
        if count and log.start < log.end <= row.log_start and row.batches[0].base_offset < log.end:
            # The leader has deleted all of our records, so the epochs cannot show that our end lies inside one of its
            # batches. First the log start rises to our end; then the log is empty and may begin with that batch.
            return Ready(takes=True)
        if count:
            begin = first_batch(log.start, log.end, row.batches[0].base_offset, row.batches[0].last_offset)
            if begin is not None:
                self._leave(State.TRUNCATING)
                return Ready(restart_at=begin, append=count, why="the leader's log begins amid a batch")
            first = row.batches[0]
            if first.base_offset < log.end <= first.last_offset:
                # Epochs and offsets agree up to our end, but batches are copied whole: our last one is not what it was.
                self._leave(State.PARKED)
                why = f"the log ends at {log.end}, inside the leader's batch {first.base_offset} to {first.last_offset}"
                return Ready(is_damaged=True, why=why)
        return Ready(append=count, takes=True)

    # Inputs: how it went

    def appended(self, row: Row, before: Ends, after: Ends, high_watermark: Offset) -> Ready:
        """All batches of the response were appended. The leader's high watermark and log start apply up to our log
        end."""
        self.pause = 0.0
        start = min(row.log_start, after.end)
        rises = start > after.start
        if rises or after != before:
            self.is_moved = True
        return Ready(
            leader_high_watermark=row.high_watermark,
            high_watermark=_committed(row, after, high_watermark),
            log_start=start if rises else None,
            keep_log_start=rises,
        )

    def failed(self, why: str = "") -> Ready:
        """Taking in a response failed. After a pause the next fetch asks again from the log end."""
        if self.state is State.STOPPED:
            return NOTHING
        self._leave(State.PAUSED)
        # A new leader often learns of its role some milliseconds after its followers, so the first pauses are short.
        self.pause = min(max(FIRST_PAUSE, self.pause * 2), self.longest_pause)
        return Ready(pause=self.pause, why=why)

    def held(self, seconds: float) -> Ready:
        """A throttle holds it back. After this time it fetches again, or is held back again."""
        if self.state is not State.FETCHING:
            return NOTHING
        self._leave(State.PAUSED)
        return Ready(pause=seconds)

    def truncated(self) -> None:
        """The log was cut, or was replaced by an empty one, and that is durable."""
        if self.state is State.TRUNCATING:
            self._fetch()

    def restarted(self, log: Ends) -> Ready:
        """The log was replaced by one that begins with the fetched batches. If there was no room for them, the log is
        empty and the batches are fetched again later."""
        if self.state is not State.TRUNCATING:
            return NOTHING
        if log.start == log.end:
            return self.failed("there is no room for what the log would begin with")
        self._fetch()
        return NOTHING

    def log_failed(self) -> None:
        """The log is offline or known to be damaged: nothing is fetched into it any more."""
        if self.state is not State.STOPPED:
            self._leave(State.PARKED)

    def ends_found(self, leader: Ends | None, log: Ends, last_epoch: Epoch) -> Ready:
        """The leader's answer about the two ends of its log; None if it did not give them."""
        if self.state is not State.ASKING:
            return NOTHING
        if leader is None:
            return self.failed()
        reset = out_of_range(log.start, log.end, last_epoch, leader.start, leader.end, self.epoch)
        if reset.is_damaged:
            self._leave(State.PARKED)
            return Ready(is_damaged=True, why=f"leader epoch {last_epoch} where the highest is {self.epoch}")
        if reset.truncate_to is not None:
            return self._cut(reset.truncate_to, f"the leader ends at {leader.end}")
        if reset.restart_at is not None:
            self._leave(State.TRUNCATING)
            return Ready(restart_at=reset.restart_at, why="the leader has nothing before it any more")
        self._fetch()
        return NOTHING

    def resumed(self) -> bool:
        """A pause is over. False if the state has changed meanwhile."""
        if self.state is not State.PAUSED:
            return False
        self._fetch()
        return True

    def stop(self) -> None:
        """The term is over. Responses that are still on their way are ignored (KAFKA-13207)."""
        self._leave(State.STOPPED)

    def _cut(self, offset: Offset, why: str) -> Ready:
        self._leave(State.TRUNCATING)
        return Ready(truncate_to=offset, why=why)

    def _leave(self, state: State) -> None:
        """Change the state. A fetch that is under way does not answer any later fetch."""
        self.state = state
        self.is_moved = False
        self.asked_first = self.asked_last = None

    def _fetch(self) -> None:
        self.state = State.FETCHING
        self.is_moved = True


def _committed(row: Row, log: Ends, high_watermark: Offset) -> Offset | None:
    """Where our high watermark goes; it never goes back."""
    committed = min(row.high_watermark, log.end)
    return committed if committed > high_watermark else None
