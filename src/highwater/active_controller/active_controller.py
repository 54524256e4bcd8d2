"""The active controller decides on `head`, which includes uncommitted records, and answers when they are committed.

Two CreateTopics requests for one name must not both succeed, so the second one sees the first before it is committed.
When the controller resigns, `head` is dropped and all waiting requests are answered with NOT_CONTROLLER. If it stays,
and its disk is full, they are answered with KAFKA_STORAGE_ERROR and the reason.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from highwater.active_controller.broker_watch import BrokerWatch
from highwater.active_controller.clockwork import Clockwork
from highwater.active_controller.docket import Case, Docket
from highwater.config import BROKER_SESSION_TIMEOUT_MS, NodeConfig
from highwater.controller.batches import cut
from highwater.controller.decision import Deciding, Decision
from highwater.controller.features import activation_records
from highwater.controller.settings import in_force
from highwater.controller.state_changes import state_changes, unclean_elections
from highwater.errors import Code, KafkaError
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.pieces import Pieces
from highwater.metadata.records import encoding
from highwater.metadata.replay import applying
from highwater.model import Epoch, Offset, Uuid
from highwater.net.context import RequestContext
from highwater.net.deadlines import DeadlineQueue
from highwater.quorum import Leadership
from highwater.raft_node.raft_node import RaftNode
from highwater.wire.codec import Message
from highwater.world import World

R = TypeVar("R")
M = TypeVar("M", bound=Message)
REMEMBERED = 100
NO_ROOM_SECONDS = 2.0
"""How long a controller that cannot write its decisions waits for free disk space before it resigns."""
LOGGED_AT_ONCE = 20
"""The most state changes that are logged in one turn of the loop. Decisions do not wait for the log of thousands."""
_log = logging.getLogger(__name__)
_state_change_log = logging.getLogger("highwater.state_change")


class ActiveController:
    def __init__(
        self,
        world: World,
        config: NodeConfig,
        raft: RaftNode,
        bootstrap: Sequence[Message],
        deadlines: DeadlineQueue,
        own_broker: Uuid | None,
    ) -> None:
        """`own_broker` is the incarnation of the broker in this process, if there is one."""
        self.world = world
        self._config = config
        self.raft = raft
        self._own_broker = own_broker
        self._bootstrap = bootstrap
        self.deadlines = deadlines
        self.random = world.random("controller")
        self._epoch: Epoch | None = None
        self._head: MetadataImage | None = None
        self._waiting: deque[tuple[Offset, Callable[[Any], None], Any]] = deque()
        self._docket = Docket(world)
        self._gained: Leadership | None = None
        self.last_append = 0.0
        """When it last appended a record, or became active."""
        self.owes_elections = False
        """Whether partitions may have no leader, though a live replica has every committed record. Either a decision of
        several batches was written in part, here or by an earlier controller; or a broker counted as silent and was
        heard again."""
        self._no_room_since: float | None = None
        """Since when decisions cannot be written; None if the last one could."""
        self._no_room = ""
        """Why the last decision could not be written."""
        session_seconds = config.get(BROKER_SESSION_TIMEOUT_MS) / 1000
        self.watch = BrokerWatch(self, session_seconds, config.inter_broker_listener_of_all)
        self._clockwork = Clockwork(self)
        self.changes: deque[tuple[float, str]] = deque(maxlen=REMEMBERED)
        """The last state changes that were decided here, each with its time."""
        self._unlogged: deque[Iterator[str]] = deque()
        self.unclean_elections = 0

    @property
    def is_active(self) -> bool:
        return self._head is not None

    @property
    def epoch(self) -> Epoch | None:
        """The quorum epoch in which its decisions are written."""
        return self._epoch

    @property
    def log_end(self) -> Offset:
        """The offset of the next record."""
        return self.raft.log_end

    @property
    def head(self) -> MetadataImage:
        assert self._head is not None, "not the active controller"
        return self._head

    @property
    def config(self) -> NodeConfig:
        """The settings with the dynamic ones of the head image, or of the last head image if it is no longer active."""
        if self._head is None:
            return self._config
        before, self._config = self._config, in_force(self._config, self._head)
        for why in () if self._config.is_broker else self._config.ignored:  # a broker of this node says it itself
            if why not in before.ignored:
                _log.error("controller %d ignores settings that it cannot use: %s", self._config.node_id, why)
        return self._config

    @property
    def refusal(self) -> KafkaError:
        """The error of a request that was not decided. If another voter may decide it, the client looks for that one.
        The only voter stays the controller, so the client gets the reason at once."""
        if self._head is None or self._no_room_since is None or len(self.raft.voters) > 1:
            return KafkaError(Code.NOT_CONTROLLER)
        why = f"the controller cannot write to its metadata log: {self._no_room}"
        return KafkaError(Code.KAFKA_STORAGE_ERROR, why)

    def respond(self, ctx: RequestContext, response: M | None, refused: Callable[[KafkaError], M]) -> None:
        """Answers a request of a client: with `response`, or if it was not decided, with what `refused` makes of the
        reason."""
        if response is not None:
            ctx.respond(response)
        elif not self.sends_elsewhere(ctx):
            ctx.respond(refused(self.refusal))

    def sends_elsewhere(self, ctx: RequestContext) -> bool:
        """Whether a request that was not decided is passed on to the controller that may decide it. It is answered
        then."""
        return self.refusal.code is Code.NOT_CONTROLLER and ctx.sent_elsewhere()

    def decide(
        self,
        decision: Callable[[], Decision[R]],
        answer: Callable[[R | None], None],
        written: Callable[[Any], None] = lambda decided: None,
        takes_long: bool = False,
    ) -> None:
        """Decide now, or after the decision that is under way. Calls `answer` when everything that the decision depends
        on is committed; with None if it was not decided, for the reason in `refusal`.

        `decision` changes nothing. `written` is called when the records are in the log: it may change soft state."""
        case = Case(partial(self._deciding, partial(_at_once, decision), answer, written), partial(answer, None))
        self._docket.add(case, takes_long)

    def deliberate(self, decision: Callable[[], Deciding[R]], answer: Callable[[R | None], None]) -> None:
        """As `decide`, for a decision that is made in pieces."""
        self._docket.add(Case(partial(self._deciding, decision, answer), partial(answer, None)), takes_long=True)

    def _deciding(
        self,
        decision: Callable[[], Deciding[R]],
        answer: Callable[[R | None], None],
        written: Callable[[Any], None] = lambda decided: None,
    ) -> Pieces[None]:
        if self._head is None:
            answer(None)
            return
        decided = yield from decision()
        if decided.records and not (yield from self.append(list(decided.records), decided.why)):
            answer(None)
            return
        written(decided)
        self._answer_later(answer, decided.response)

    def decide_alone(self, decide: Callable[[], Pieces[None]]) -> None:
        """A decision of the controller's own. There is no request to answer if it is given up."""
        self._docket.add(Case(decide, lambda: None))

    def _answer_later(self, answer: Callable[[Any], None], response: Any) -> None:
        if self._waiting or self.raft.committed.offset < self.head.offset:
            self._waiting.append((self.head.offset, answer, response))
        else:
            answer(response)

    def _answer(self, answer: Callable[[Any], None], response: Any) -> None:
        """Answers one of many waiting requests: a failure must not affect the others."""
        with self.world.failures.boundary("connection", "an answer of the controller"):
            answer(response)

    def append(self, records: list[Message], why: str) -> Pieces[bool]:
        """Appends the records batch by batch. The decision has checked the size of what must stay together. False if a
        batch could not be written: the client may try again."""
        try:
            for at, batch in enumerate((yield from cut(records))):
                if not (yield from self._append_batch(list(batch), why)):
                    self.owes_elections = self.owes_elections or at > 0
                    return False
        except KafkaError as too_large:
            _log.error("a decision is refused: %s", too_large)
            return False
        return True

    def _append_batch(self, records: list[Message], why: str) -> Pieces[bool]:
        """False if the disk is full or another node leads the quorum by now: then nothing was decided."""
        assert self._epoch is not None
        before, epoch, end = self.head, self._epoch, self.raft.log_end
        # The records are applied before they are written. Every node would fail again and again on a record that
        # cannot be applied.
        head, _ = yield from applying(before, records, end + len(records) - 1, epoch)
        encoded = yield from encoding(records)
        if self._epoch != epoch or self.raft.epoch != epoch:
            return False
        assert self.raft.log_end == end, "in one epoch only this controller writes, one decision after the other"
        written = False
        # After a failure here the content of the log is unknown, so the node ends.
        with self.world.failures.boundary("node", "the metadata log", self.raft.fail):
            try:
                self.raft.append(records, encoded, epoch)
                written = True
            except KafkaError as failed:
                self._no_room = failed.message
                if self.world.failures.is_news(line := f"a decision could not be written: {failed}"):
                    _log.error("%s", line)
        if not written:
            self._give_way(epoch)
            return False
        self._no_room_since = None
        self._head = head
        self.last_append = self.world.clock.monotonic()
        self.unclean_elections += unclean_elections(records)
        self._unlogged.append(state_changes(before, records, why))
        if len(self._unlogged) == 1:
            self._log_some_changes()
        return True

    def _give_way(self, epoch: Epoch) -> None:
        """A decision could not be written. If that lasts, this controller resigns: another voter may have room, while
        this one would stay leader and decide nothing."""
        now = self.world.clock.monotonic()
        if self._no_room_since is None:
            self._no_room_since = now
        elif now - self._no_room_since >= NO_ROOM_SECONDS and len(self.raft.voters) > 1:
            self._no_room_since = None
            _log.error("another controller may have room for its decisions: this one resigns")
            self.raft.resign(epoch)

    def _log_some_changes(self) -> None:
        for _ in range(LOGGED_AT_ONCE):
            change = None
            with self.world.failures.boundary("callback", "the log of state changes"):
                change = next(self._unlogged[0], None)
            if change is not None:
                self._log_change(change)
                continue
            self._unlogged.popleft()
            if not self._unlogged:
                return
        self.world.clock.call_soon(self._log_some_changes)

    def _log_change(self, change: str) -> None:
        self.changes.append((self.world.clock.monotonic(), change))
        _state_change_log.info("%s", change)

    # Callbacks of the quorum

    def leadership_changed(self, leadership: Leadership) -> None:
        if leadership.epoch_start is None:
            self._resign()
        self._gained = leadership if leadership.epoch_start is not None else None
        self.committed(self.raft.committed)

    def committed(self, image: MetadataImage) -> None:
        gained = self._gained
        if gained is not None and gained.epoch_start is not None:
            if self.raft.high_watermark > gained.epoch_start:
                self._gained = None
                self._activate(gained.epoch)
            return
        while self._waiting and self._waiting[0][0] <= image.offset:
            _, answer, response = self._waiting.popleft()
            self._answer(answer, response)

    def _activate(self, epoch: Epoch) -> None:
        """Everything of earlier epochs is applied: this controller decides from now on."""
        _log.info("active controller of epoch %d", epoch)
        self._log_change(f"controller {self._config.node_id} is active in epoch {epoch}: the quorum elected it")
        self._epoch = epoch
        self._head = self.raft.committed
        self.owes_elections = True
        self._no_room_since = None
        self.watch.activate(self._config.node_id, self._own_broker)
        self.decide_alone(partial(self._begin_epoch, epoch))
        self.last_append = self.world.clock.monotonic()
        self._clockwork.start()

    def _begin_epoch(self, epoch: Epoch) -> Pieces[None]:
        records = activation_records(self.head, self._bootstrap, self._config)
        if records and not (yield from self.append(records, "a cluster's first records")):
            self.raft.resign(epoch)  # the next controller writes them, when there is room

    def _resign(self) -> None:
        if self._head is None:
            return
        _log.info("no longer the active controller")
        own = self._config.node_id
        self._log_change(f"controller {own} is active no longer: it lost epoch {self._epoch} of the quorum")
        self._head = self._epoch = None
        self._clockwork.stop()
        waiting, self._waiting = self._waiting, deque()
        for _, answer, _ in waiting:
            self._answer(answer, None)
        self._docket.give_up()

    @property
    def brokers_leaving(self) -> bool:
        """Whether a broker still needs this controller to agree to its shutdown."""
        head = self._head
        return head is not None and any(
            broker.in_controlled_shutdown and not broker.fenced for broker in head.brokers.by_id.values()
        )

    def close(self) -> None:
        self._resign()


def _at_once(decision: Callable[[], Decision[R]]) -> Deciding[R]:
    return decision()
    yield
