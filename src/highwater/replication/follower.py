"""One term of one follower: what an answer of its leader means for its log. Pure.

Each input returns a `Ready`. The driver carries it out in the order of its fields, and then feeds how it went:

1. `truncate_to` or `restart_at`: nothing is appended and nothing fetched before `truncated`, `restarted` or
   `log_failed`. The cut is synced, and the recovery point with it, before that is fed.
2. `append`: so many whole batches; then `appended`, or `failed`, whatever of them was really appended.
3. `high_watermark`, `log_start`: moved there.
4. `keep_log_start`: written down before the leader is told of it, by a fetch after that.
5. The next fetch, which the conversation sends: it acknowledges all below the log's end, so in flush mode that is
   synced first.
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
    """Its log is being cut."""
    ASKING = "asking"
    """Its end is not in the leader's log: the leader is asked where that begins and ends."""
    PAUSED = "paused"
    """After an error, for a while."""
    PARKED = "parked"
    """Only newer metadata, or a new start, can help."""
    STOPPED = "stopped"


class Batch(Protocol):
    """A whole batch of an answer, by its header."""

    @property
    def base_offset(self) -> Offset: ...

    @property
    def last_offset(self) -> Offset: ...

    @property
    def leader_epoch(self) -> Epoch: ...


class Row(NamedTuple):
    """A partition's part of an answer."""

    code: Code = Code.NONE
    high_watermark: Offset = -1
    log_start: Offset = -1
    diverging: tuple[Epoch, Offset] | None = None
    """The leader's largest epoch not above our last one, and where that ended there."""
    batches: Sequence[Batch] = ()
    has_bytes: bool = False
    """Of records, whole batches or not."""


class Ends(NamedTuple):
    """Of a log."""

    start: Offset
    end: Offset


class Ready(NamedTuple):
    truncate_to: Offset | None = None
    restart_at: Offset | None = None
    """Begin anew there: empty, or with the `append` batches, which come in whole though records of the first may be
    deleted at the leader. The log start then stays where it was."""
    append: int = 0
    takes: bool = False
    """The answer is about our place: when its batches are appended, if there are any, `appended` is fed."""
    told: Offset | None = None
    """The leader's high watermark."""
    high_watermark: Offset | None = None
    log_start: Offset | None = None
    keep_log_start: bool = False
    ask_ends: bool = False
    """Ask the leader where its log begins and ends."""
    pause: float | None = None
    """Feed `resumed` after so many seconds."""
    is_damaged: bool = False
    """The log's last epoch was never given by a controller: no checksum covers it."""
    why: str = ""


NOTHING = Ready()
_WAITS = (Code.FENCED_LEADER_EPOCH,)
"""Newer metadata is on its way. Whatever else a leader answers may pass."""


class Follower:
    """Begins at its log's end. Made anew for every leader epoch: what was fetched under an older one is checked again
    (KAFKA-7164)."""

    __slots__ = ("asked_first", "asked_last", "epoch", "is_moved", "longest_pause", "pause", "state")

    def __init__(self, epoch: Epoch, longest_pause: float, *, is_being_cut: bool = False) -> None:
        self.epoch = epoch
        self.longest_pause = longest_pause
        self.state = State.TRUNCATING if is_being_cut else State.FETCHING
        """While a cut of an earlier term is under way nothing is fetched: the log is not yet what it will be."""
        self.pause = 0.0
        self.is_moved = not is_being_cut
        """The next fetch must name it: its place is another than the leader was last told."""
        self.asked_first: int | None = None
        """The number of the first fetch that named it, since it is fetched."""
        self.asked_last: int | None = None

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
            # It is about a place where we no longer are, of an older epoch perhaps: a later fetch asks from here, and
            # is told all of it again. But what this leader has committed is so wherever we are.
            if self.asked_first > fetch or row.code is not Code.NONE or row.diverging is not None:
                return NOTHING
            return Ready(told=row.high_watermark, high_watermark=_committed(row, log, high_watermark))
        if row.code is not Code.NONE:
            return self._refused(row.code)
        if row.diverging is not None:
            epoch, leader_end = row.diverging
            cut = cut_for_divergence(history, log.end, epoch, leader_end)
            return self._cut(max(cut, log.start), f"epoch {epoch} of the leader ends at {leader_end}")
        return self._take(row, log)

    def _refused(self, code: Code) -> Ready:
        if code is Code.OFFSET_OUT_OF_RANGE:
            self._leave(State.ASKING)
            return Ready(ask_ends=True)
        if code in _WAITS:
            self._leave(State.PARKED)
            return NOTHING
        return self.failed()

    def _take(self, row: Row, log: Ends) -> Ready:
        """A batch of a later epoch than ours is left for the next fetch: the leader may have changed while it read
        (KAFKA-18723)."""
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
            # All of ours is deleted there, so no epoch could tell that our end parts from it amid a batch. The log
            # start rises to our end first: an empty log may begin with that batch.
            return Ready(takes=True)
        if count:
            begin = first_batch(log.start, log.end, row.batches[0].base_offset, row.batches[0].last_offset)
            if begin is not None:
                self._leave(State.TRUNCATING)
                return Ready(restart_at=begin, append=count, why="the leader's log begins amid a batch")
        return Ready(append=count, takes=True)

    # Inputs: how it went

    def appended(self, row: Row, before: Ends, after: Ends, high_watermark: Offset) -> Ready:
        """All that was to be. What the leader has committed and deleted counts as far as it is ours."""
        self.pause = 0.0
        start = min(row.log_start, after.end)
        rises = start > after.start
        if rises or after != before:
            self.is_moved = True
        return Ready(
            told=row.high_watermark,
            high_watermark=_committed(row, after, high_watermark),
            log_start=start if rises else None,
            keep_log_start=rises,
        )

    def failed(self, why: str = "") -> Ready:
        """An append, or what is around it: the next fetch asks for what is not there, from the log's own end on."""
        if self.state is State.STOPPED:
            return NOTHING
        self._leave(State.PAUSED)
        # A new leader often learns of its role some milliseconds after its followers: the first pauses are short.
        self.pause = min(max(FIRST_PAUSE, self.pause * 2), self.longest_pause)
        return Ready(pause=self.pause, why=why)

    def truncated(self) -> None:
        """The log is cut, or begins anew and is empty, and that is durable."""
        if self.state is State.TRUNCATING:
            self._fetch()

    def restarted(self, log: Ends) -> Ready:
        """It begins anew with the batches that made it necessary. If there was no room for them it is empty, and they
        are fetched again later."""
        if self.state is not State.TRUNCATING:
            return NOTHING
        if log.start == log.end:
            return self.failed("there is no room for what the log would begin with")
        self._fetch()
        return NOTHING

    def log_failed(self) -> None:
        """Offline, or known to be damaged: it is not fetched into any more."""
        if self.state is not State.STOPPED:
            self._leave(State.PARKED)

    def ends_found(self, leader: Ends | None, log: Ends, last_epoch: Epoch) -> Ready:
        """Where the leader's log begins and ends; None where it did not say."""
        if self.state is not State.ASKING:
            return NOTHING
        if leader is None:
            return self.failed()
        reset = out_of_range(log.start, log.end, last_epoch, leader.start, leader.end, self.epoch)
        if reset.is_damaged:
            self._leave(State.PARKED)
            return Ready(is_damaged=True)
        if reset.truncate_to is not None:
            return self._cut(reset.truncate_to, f"the leader ends at {leader.end}")
        if reset.restart_at is not None:
            self._leave(State.TRUNCATING)
            return Ready(restart_at=reset.restart_at, why="the leader has nothing before it any more")
        self._fetch()
        return NOTHING

    def resumed(self) -> bool:
        """A pause is over. False where something else has happened since."""
        if self.state is not State.PAUSED:
            return False
        self._fetch()
        return True

    def stop(self) -> None:
        """The term is over. Nothing of a fetch under way is taken in any more (KAFKA-13207)."""
        self._leave(State.STOPPED)

    def _cut(self, offset: Offset, why: str) -> Ready:
        self._leave(State.TRUNCATING)
        return Ready(truncate_to=offset, why=why)

    def _leave(self, state: State) -> None:
        """Whatever is under way is no answer to what will be asked next."""
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
