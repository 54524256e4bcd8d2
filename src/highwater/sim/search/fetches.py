"""Fetches in a search: they are sent, counted and answered, and the responses are taken in."""

from __future__ import annotations

from highwater.errors import Code, KafkaError
from highwater.model import NodeId
from highwater.replication.conversation import Conversation
from highwater.replication.follower import Ends, Follower, Ready, Row
from highwater.replication.follower import State as Following
from highwater.replication.leader import STALE
from highwater.replication.serving import check_epoch, check_range, divergence
from highwater.sim.search.action import Action
from highwater.sim.search.brokers import Brokers
from highwater.sim.search.channel import NOW, Channel, Place, Reading, Reply, Request
from highwater.sim.search.fault import Fault
from highwater.sim.search.hearsay import hear, take
from highwater.sim.search.node import KEY, Heard, Node
from highwater.sim.search.replica_log import Batch
from highwater.sim.search.state import State


class Fetches(Brokers):
    """Does the work of fetcher and fetch session."""

    def _settle(self, state: State) -> None:
        """Followers send a fetch as soon as they may."""
        for node in state.nodes.values():
            if node.talk is not None and node.is_alive and self._registered(state, node):
                self._fetch(state, node, *node.talk)
        state.normalise()

    def _fetch(self, state: State, node: Node, leader: NodeId, talk: Conversation[str]) -> None:
        channel = state.channel(node.id, leader)
        while talk.is_due:
            if self.scope.flushes and talk.moved and node.log.durable_end < node.log.end:
                talk.sync(KEY)
            if talk.is_syncing or len(channel.requests) > 1:
                return
            fetch = talk.fetch()
            place = None
            if fetch.named:
                log = node.log
                place = (node.epoch, log.end, log.history().latest, log.kept_start)
            begins = fetch.session_id == 0
            request = Request(fetch.number, node.broker_epoch, begins, place, bool(fetch.forgotten))
            channel.requests = (*channel.requests, request)

    def _do_arrive(self, state: State, action: Action) -> None:
        """The leader reads the fetch: its position counts from now on."""
        channel = state.channel(action.node, action.other)
        request, *rest = channel.requests
        channel.requests = tuple(rest)
        if channel.forgotten and not request.begins_session:
            channel.replies = (*channel.replies, Reply(request.number, None, code=Code.FETCH_SESSION_ID_NOT_FOUND))
            return
        channel.forgotten = False
        # Without a session everything is named each time, and that is no reason to answer at once.
        sent = channel.sent if not self.scope.sessions and request.place == channel.place else None
        if request.begins_session:
            channel.place, channel.sent = None, None
        if request.forgets:
            channel.place = None
        is_fresh = request.place is not None or channel.restated
        if request.place is not None:
            channel.place, channel.sent = request.place, sent
        channel.restated = False
        channel.contact.at = NOW
        channel.held = request
        if is_fresh and channel.place is not None:
            code = self._count(state, action.node, action.other, channel.place, request.broker_epoch, channel)
            if code is not Code.NONE:
                self._reply(channel, Row(code))

    def _do_arrive_late(self, state: State, action: Action) -> None:
        channel = state.channel(action.node, action.other)
        request, channel.stale = channel.stale, None
        assert request is not None
        if request.place is not None:
            self._count(state, action.node, action.other, request.place, request.broker_epoch, channel)

    def _count(
        self,
        state: State,
        replica: NodeId,
        leader_id: NodeId,
        place: Place,
        broker_epoch: int,
        channel: Channel,
    ) -> Code:
        """Counts the acknowledgement, if the fetch is one."""
        node = state.nodes[leader_id]
        leader, log = node.leader, node.log
        if leader is None or node.is_offline:
            return Code.NOT_LEADER_OR_FOLLOWER if leader is None else Code.KAFKA_STORAGE_ERROR
        epoch, offset, last_epoch, start = place
        try:
            check_epoch(epoch, node.epoch)
            if divergence(log.history(), log.start, log.end, offset, last_epoch) is not None:
                return Code.NONE
            check_range(log.start, log.end, offset)
        except KafkaError as refused:
            return refused.code
        flags = leader.fetched(replica, broker_epoch, offset, start, log.start, channel.contact, NOW)
        if flags & STALE:
            return Code.NOT_LEADER_OR_FOLLOWER
        hear(state, node, replica, epoch, Heard(broker_epoch, offset))
        self._carry_out(state, node, flags)
        return Code.NONE

    def _row(self, state: State, leader_id: NodeId, channel: Channel) -> tuple[bool, Row | None]:
        """Whether the waiting fetch can be answered, and with what."""
        node = state.nodes[leader_id]
        if channel.requests:
            return True, None  # it is overtaken
        if channel.place is None:
            return False, None
        if node.leader is None or node.is_offline:
            return True, Row(Code.NOT_LEADER_OR_FOLLOWER)
        log = node.log
        epoch, offset, last_epoch, _ = channel.place
        try:
            check_epoch(epoch, node.epoch)
            diverging = divergence(log.history(), log.start, log.end, offset, last_epoch)
            if diverging is not None:
                return True, Row(Code.NONE, log.high_watermark, log.start, diverging)
            check_range(log.start, log.end, offset)
        except KafkaError as refused:
            return True, Row(refused.code)
        batches = [batch for batch in log.batches if batch.last_offset >= offset]
        news = batches or channel.sent != (log.high_watermark, log.start)
        return bool(news), Row(Code.NONE, log.high_watermark, log.start, None, tuple(batches))

    def _has_batches(self, state: State, leader: NodeId, channel: Channel) -> bool:
        row = self._row(state, leader, channel)[1]
        return row is not None and bool(row.batches)

    def _do_reply(self, state: State, action: Action) -> None:
        channel = state.channel(action.node, action.other)
        row = self._row(state, action.other, channel)[1]
        if row is not None and row.code is Code.NONE and row.diverging is None:
            channel.sent = (row.high_watermark, row.log_start)
            if action.fault is Fault.COLD:
                assert channel.held is not None and channel.place is not None
                end = state.nodes[action.other].log.end
                channel.reading = Reading(channel.held.number, row._replace(batches=()), channel.place, end)
                channel.held = None
                return
        self._reply(channel, row)

    def _do_read(self, state: State, action: Action) -> None:
        """Reads the bytes that are now at the response's position in the file."""
        channel = state.channel(action.node, action.other)
        reading, channel.reading = channel.reading, None
        assert reading is not None
        batches = tuple(
            batch
            for batch in state.nodes[action.other].log.batches
            if batch.last_offset >= reading.place[1] and batch.last_offset < reading.end
        )
        row = reading.row._replace(batches=batches, has_bytes=True)
        channel.replies = (*channel.replies, Reply(reading.number, row, reading.place))

    def _reply(self, channel: Channel, row: Row | None) -> None:
        assert channel.held is not None
        channel.replies = (*channel.replies, Reply(channel.held.number, row, channel.place))
        channel.held = None

    def _do_forget(self, state: State, action: Action) -> None:
        channel = state.channel(action.node, action.other)
        channel.place, channel.sent, channel.restated, channel.forgotten = None, None, False, True
        if channel.held is not None:
            self._reply(channel, None)

    def _do_reset(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        self._close(state, action.node, action.other)
        if node.talk is not None and node.talk[0] == action.other:
            node.talk[1].lost()
            node.talk[1].begin_session()

    # A follower takes an answer in

    def _do_take(self, state: State, action: Action) -> None:
        channel = state.channel(action.node, action.other)
        reply, *rest = channel.replies
        channel.replies = tuple(rest)
        node = state.nodes[action.node]
        if node.talk is None or node.talk[0] != action.other:
            return
        talk = node.talk[1]
        if reply.code is not Code.NONE:
            talk.refused(reply.code)
            return
        talk.answered(1 if self.scope.sessions else 0)
        if reply.row is not None and node.follower is not None and node.follower.fetches:
            self._take(state, node, node.follower, reply, action.fault is Fault.APPEND)
            talk.note(KEY)
        talk.taken()

    def _take(self, state: State, node: Node, follower: Follower, reply: Reply, fails: bool) -> None:
        assert reply.row is not None
        log, row = node.log, reply.row
        before = Ends(log.start, log.end)
        ready = follower.answered(reply.number, row, before, log.high_watermark, log.history())
        batches = tuple(batch for batch in row.batches[: ready.append] if isinstance(batch, Batch))
        if (ready.takes or ready.truncate_to is not None) and reply.place is not None:
            take(state, node, reply.place)
        if ready.takes:
            for at, batch in enumerate(batches):
                if batch.base_offset < log.end or (fails and at == min(1, len(batches) - 1)):
                    self._follow_up(state, node, follower, follower.failed())
                    return
                log.append(batch)
            ready = follower.appended(row, before, Ends(log.start, log.end), log.high_watermark)
        self._follow_up(state, node, follower, ready, batches)

    def _ask_for_end(self, state: State, node: Node) -> None:
        """As `broker.refilled` does, but takes no time."""
        if node.is_refilled and node.leader_end is None and node.talk is not None:
            leader = state.nodes[node.talk[0]]
            node.leader_end = leader.log.end if leader.leader is not None and leader.epoch == node.epoch else None

    def _follow_up(
        self, state: State, node: Node, follower: Follower, ready: Ready, batches: tuple[Batch, ...] = ()
    ) -> None:
        """Does the work of the fetcher, but takes no time."""
        log = node.log
        if ready.truncate_to is not None:
            log.cut(max(ready.truncate_to, log.start))
            follower.truncated()
        elif ready.restart_at is not None:
            log.begin_anew(ready.restart_at, batches)
            if batches:
                follower.restarted(Ends(log.start, log.end))
            else:
                follower.truncated()
        if ready.leader_high_watermark is not None:
            node.leader_high_watermark = ready.leader_high_watermark
            self._ask_for_end(state, node)
        if ready.high_watermark is not None:
            assert log.start <= ready.high_watermark <= log.end, "a follower's high watermark"
            log.high_watermark = ready.high_watermark
        if ready.log_start is not None:
            log.raise_start(ready.log_start)
        if ready.keep_log_start:
            node.keeps_start = True
        if ready.ask_ends:
            assert node.talk is not None
            leader = state.nodes[node.talk[0]]
            asked = None if leader.leader is None else Ends(leader.log.start, leader.log.end)
            found = follower.ends_found(asked, Ends(log.start, log.end), log.history().latest)
            self._follow_up(state, node, follower, found)
        if ready.is_damaged:
            node.is_troubled = True
        if follower.state is Following.PAUSED:
            follower.resumed()
