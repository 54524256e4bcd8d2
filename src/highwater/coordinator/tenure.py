"""One leadership of one partition, from the loading of its machine to its resignation."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Generic, TypeVar

from highwater.coordinator.loading import Loaded, read_records
from highwater.coordinator.machine import Machine
from highwater.effects import Answer, Effect, Now, Token, Write
from highwater.errors import Code, KafkaError
from highwater.log.reads import Stale
from highwater.log.retention import RetentionClock
from highwater.model import Offset
from highwater.net.deadlines import Deadline, DeadlineQueue
from highwater.net.turns import Share, Turns
from highwater.partition.partition import Partition
from highwater.wire import records
from highwater.wire.codec import Malformed, Struct
from highwater.world import EXHAUSTED_SECONDS, Exhausted, Job, Step, Timer, World
from highwater.world.boundary import Boundary

AFTER_FAILURE_SECONDS = 1.0
_log = logging.getLogger(__name__)
M = TypeVar("M", bound=Machine)


class TenureState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """The log cannot be read. Requests are refused until another broker leads, or until the log is repaired."""
    OVER = "over"


class Tenure(Generic[M]):
    """The machine gets no request before everything that it was loaded from is committed. So its responses stay
    true."""

    def __init__(
        self,
        world: World,
        deadlines: DeadlineQueue,
        partition: Partition,
        new_machine: Callable[[Callable[[], int]], M],
        answer: Callable[[Token, Struct], None],
        commit_seconds: Callable[[], float],
        codec: int,
        aging: RetentionClock,
        turns: Turns,
    ) -> None:
        self._world = world
        self._deadlines = deadlines
        self._partition = partition
        self._new_machine = partial(new_machine, lambda: partition.most_bytes)
        self.machine = self._new_machine()
        self._answer = answer
        self._commit_seconds = commit_seconds
        self._codec = codec
        self._aging = aging
        self._turns = turns
        self._share = Share()
        self._is_in_turn = False
        self._effects: deque[Effect] = deque()
        self._busy = False
        self._awaiting: list[Callable[[M], Sequence[Effect]]] = []
        self.state = TenureState.LOADING
        self.epoch = partition.epoch
        self._job: Job | None = None
        self._timer: Timer | None = None
        self._due = 0.0

    @property
    def now(self) -> Now:
        clock = self._world.clock
        monotonic, wall_ms = clock.monotonic(), clock.wall_ms()
        return Now(monotonic, wall_ms, self._aging.now_ms(wall_ms, monotonic))

    def begin(self) -> None:
        log = self._partition.log
        begun, end, count, layout = self._world.clock.monotonic(), log.log_end, 0, log.reads.layout

        def done(result: tuple[int, Offset] | Exception) -> None:
            nonlocal count
            if self.state is not TenureState.LOADING:
                return
            is_whole = isinstance(result, tuple) and result[1] >= end
            if isinstance(result, Stale) or (log.reads.layout != layout and not is_whole):
                # A tombstone that was compacted away between two pieces would leave an old value behind.
                self._begin_anew()
            elif isinstance(result, Exhausted):
                self._timer = self._world.clock.call_later(EXHAUSTED_SECONDS, self._begin_anew)
            elif isinstance(result, Exception):
                self._fail(result)
            elif result[1] < end:
                count += result[0]
                read_on(result[1])
            else:
                count += result[0]
                took = self._world.clock.monotonic() - begun
                _log.info("%s: %d records loaded in %.3f s", self._partition.tp, count, took)
                self._when_committed(end)

        def read_on(start: Offset) -> None:
            segments, first, look = list(log.segments), max(start, log.log_start), log.reads.look
            self._job = look(read_records, segments, first, end, done=done, step=self._replay, where="client")

        read_on(log.log_start)

    def _begin_anew(self) -> None:
        """Loads a new machine from the beginning: the segments have changed, or no descriptor was left to read on."""
        self._timer = None
        if self.state is TenureState.LOADING:
            self.machine = self._new_machine()
            self.begin()

    def _replay(self, step: Step) -> None:
        if self.state is not TenureState.LOADING or not isinstance(step.progress, list):
            return
        with self._whole():
            try:
                self._take(step.progress)
            except Malformed as failed:
                self._fail(failed)

    def _take(self, records: list[Loaded]) -> None:
        for each in records:
            if each.ended is None:
                self.machine.replay(each.key, each.value, each.producer_id)
            else:
                self.machine.end_transaction(each.producer_id, commit=each.ended)

    def _whole(self) -> Boundary:
        """The boundary around loading. A machine that missed a piece must not answer: it could lack a committed
        offset."""
        return self._world.failures.boundary("partition", str(self._partition.tp), self._fail)

    def _fail(self, why: Exception) -> None:
        if self.state is TenureState.LOADING:
            _log.error("%s cannot be loaded: %s", self._partition.tp, why)
            self.state = TenureState.FAILED

    def _when_committed(self, end: int) -> None:
        if self._partition.log.high_watermark >= end:
            self._activate(Code.NONE)
        else:
            self._partition.when_committed(end, self._activate)

    def _activate(self, code: Code) -> None:
        if code is Code.NONE and self.state is TenureState.LOADING:
            with self._whole():
                effects = self.machine.loaded(self.now)
                self.state = TenureState.ACTIVE
                self.carry_out(effects)
            awaiting, self._awaiting = self._awaiting, []
            for act in awaiting:
                self.when_active(act)

    def when_active(self, act: Callable[[M], Sequence[Effect]]) -> None:
        """Calls `act` now, or when the machine is loaded; never, if that fails."""
        if self.state is TenureState.ACTIVE:
            self.carry_out(act(self.machine))
        elif self.state is TenureState.LOADING:
            self._awaiting.append(act)

    def carry_out(self, effects: Sequence[Effect]) -> None:
        """Carries out the effects in their order, and then sets the timer for the next deadline.

        Effects that follow from a write at once come after it, so writes are made and committed in their order.
        """
        self._effects.extend(effects)
        if self._busy:
            return
        self._busy = True
        try:
            while self._effects:
                effect = self._effects.popleft()
                if isinstance(effect, Answer):
                    self._give(effect)
                elif self.state is TenureState.ACTIVE:
                    self._write(effect)
        finally:
            self._busy = False
        self._arm()
        self._take_turn()

    def _give(self, answer: Answer) -> None:
        """One answer that fails must not end the effects after it: they are writes and answers of other clients."""
        with self._world.failures.boundary("connection", f"an answer of {self._partition.tp}"):
            self._answer(answer.token, answer.response)

    def _take_turn(self) -> None:
        """Long work is done in pieces, with a turn of the loop between them. All partitions share these turns."""
        if self.machine.is_behind and not self._is_in_turn and self.state is TenureState.ACTIVE:
            self._is_in_turn = True
            self._turns.add(self._share, self._proceed)

    def _proceed(self) -> None:
        self._is_in_turn = False
        if self.state is TenureState.ACTIVE:
            with self._world.failures.boundary("partition", str(self._partition.tp), self._expire_again):
                self.carry_out(self.machine.proceed(self.now))

    def _write(self, write: Write) -> None:
        now_ms = self._world.clock.wall_ms()
        batch = records.build([(now_ms, key, value, ()) for key, value in write.records], codec=self._codec)
        try:
            appended = self._partition.append_own(batch)
        except KafkaError as failed:
            if write.about:
                _log.warning("%s: %s could not be written: %s", self._partition.tp, write.about, failed)
            if self.state is TenureState.ACTIVE:
                self.carry_out(self.machine.failed(write, failed.code, self.now))
            return
        late: Deadline | None = None

        def overdue() -> None:
            nonlocal late
            if self.state is TenureState.ACTIVE:
                # It is overdue again and again: requests that come later wait for this write, too.
                late = self._deadlines.add(self._commit_seconds(), overdue)
                self.carry_out(self.machine.overdue(write, self.now))

        def committed(code: Code) -> None:
            if code is not Code.NONE and self.state is TenureState.ACTIVE:
                return  # the log has failed: the write stays overdue until this tenure ends
            if late is not None:
                late.cancel()
            if self.state is TenureState.ACTIVE:
                self.carry_out(self.machine.committed(write, self.now))

        if self.state is not TenureState.ACTIVE:
            return
        if self._partition.log.high_watermark > appended.last_offset:
            committed(Code.NONE)
            return
        late = self._deadlines.add(self._commit_seconds(), overdue)
        self._partition.when_committed(appended.last_offset + 1, committed)

    def _arm(self) -> None:
        """Sets the timer. A timer that fires too early sets the next one: most requests only put deadlines off."""
        due = self.machine.next_deadline
        if due is None or self.state is not TenureState.ACTIVE:
            return
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._world.clock.call_later(max(due - self._world.clock.monotonic(), 0.0), self._expired)

    def _expired(self) -> None:
        self._timer = None
        if self.state is TenureState.ACTIVE:
            with self._world.failures.boundary("partition", str(self._partition.tp), self._expire_again):
                self.carry_out(self.machine.expired(self.now))

    def _expire_again(self, failed: Exception) -> None:
        """After a failure, later deadlines of this machine must not be lost. They are tried again after a pause."""
        if self._timer is None:
            self._due = self._world.clock.monotonic() + AFTER_FAILURE_SECONDS
            self._timer = self._world.clock.call_later(AFTER_FAILURE_SECONDS, self._expired)

    def end(self) -> None:
        """Another broker leads, or the partition is gone. The machine resigns and answers its waiting requests."""
        was, self.state = self.state, TenureState.OVER
        if self._job is not None:
            self._job.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if was is TenureState.ACTIVE:
            for effect in self.machine.resigned(self.now):
                assert isinstance(effect, Answer), "a machine that resigns must not write"
                self._give(effect)
