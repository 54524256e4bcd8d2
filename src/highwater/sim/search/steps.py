"""What can happen next, and what it makes of a state. A local step runs at once, unless a crash may fall before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from highwater.broker.publisher import broker_epochs, is_dispensable, is_lost
from highwater.errors import Code, KafkaError
from highwater.metadata.brokers import DIRECTORY_LOST, DIRECTORY_TROUBLED
from highwater.model import NO_NODE, NodeId
from highwater.replication.conversation import Conversation
from highwater.replication.follower import Ends, Follower, Ready, Row
from highwater.replication.follower import State as Following
from highwater.replication.leader import COMMITTED, PROPOSAL, SHRANK, STALE, Leader, Terms
from highwater.replication.serving import check_epoch, check_range, divergence
from highwater.sim.search.controlling import Controller, directory_of
from highwater.sim.search.scope import Fault, Scope
from highwater.sim.search.state import KEY, LAG_SECONDS, LONG_AGO, NOW, Batch, Channel, Log, Node, Reply, Request, State


class Action(NamedTuple):
    what: str
    node: NodeId = NO_NODE
    other: NodeId = NO_NODE
    fault: Fault | None = None
    choice: int = 0


class Steps:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.controller = Controller(scope)
        self._terms = Terms(scope.min_isr, scope.flushes, LAG_SECONDS)

    def first(self) -> State:
        state = self.controller.first()
        for node in state.nodes.values():
            self._apply(state, node, len(state.images) - 1)
        self._settle(state)
        return state

    def after(self, state: State, action: Action) -> State:
        new = state.copy()
        if action.fault is not None:
            new.budget -= 1
        getattr(self, f"_do_{action.what}")(new, action)
        self._settle(new)
        return new

    # What can happen

    def possible(self, state: State) -> Iterator[Action]:
        for node in state.nodes.values():
            yield from self._of_node(state, node)
        for (follower, leader), channel in list(state.channels.items()):
            yield from self._of_channel(state, follower, leader, channel)

    def _of_node(self, state: State, node: Node) -> Iterator[Action]:
        head = state.head.brokers.get(node.id)
        if not node.is_alive:
            yield Action("restart", node.id)
            if node.log.high_watermark > node.log.checkpoint:
                yield Action("restart", node.id, choice=1)
            if head is not None and not head.fenced:
                yield Action("fence", node.id)
            return
        if node.image < len(state.images) - 1:
            yield Action("learn", node.id)
            if node.image < len(state.images) - 2:
                yield Action("learn", node.id, choice=1)
        if node.broker_epoch < 0:
            yield Action("register", node.id)
        elif head is not None and head.fenced and self._registered(state, node):
            yield Action("unfence", node.id)
        if node.leader is not None:
            yield from self._of_leader(state, node, node.leader)
        if self._is_misplaced(state, node):
            yield Action("report", node.id)
        if self.scope.flushes and node.log.durable_end < node.log.end and not node.is_offline:
            yield Action("sync", node.id)
        if state.budget:
            yield from self._faults(state, node)

    def _of_leader(self, state: State, node: Node, leader: Leader) -> Iterator[Action]:
        if state.written < self.scope.batches and not node.is_offline and leader.enough_in_sync:
            yield Action("write", node.id)
        if node.answer is not None:
            yield Action("hear", node.id)
            if Fault.LOSS in self.scope.faults and state.budget:
                yield Action("hear_nothing", node.id, fault=Fault.LOSS)
        elif node.asked is not None:
            yield Action("decide", node.id)

    def _faults(self, state: State, node: Node) -> Iterator[Action]:
        head = state.head.brokers.get(node.id)
        leader = node.leader
        for fault in (each for each in Fault if each in self.scope.faults):
            match fault:
                case Fault.CRASH | Fault.POWER:
                    yield Action("crash", node.id, fault=fault)
                case Fault.FENCE if head is not None and not head.fenced and head.epoch == node.broker_epoch:
                    yield Action("fence", node.id, fault=fault)
                case Fault.LAG if leader is not None and leader.proposal is None:
                    for replica, progress in leader.followers.items():
                        if replica in leader.isr and progress.end != leader.end:
                            yield Action("lag", node.id, replica, fault)
                case Fault.DAMAGE if leader is None and node.log.end and not node.is_troubled and not node.is_offline:
                    yield Action("damage", node.id, fault=fault)
                case Fault.SYNC if node.log.durable_end < node.log.end and not node.is_offline:
                    yield Action("fail_sync", node.id, fault=fault)
                case Fault.DELETE if leader is not None and node.log.start < node.log.high_watermark:
                    yield Action("delete", node.id, fault=fault)

    def _of_channel(self, state: State, follower: NodeId, leader: NodeId, channel: Channel) -> Iterator[Action]:
        if channel.requests and state.nodes[leader].is_alive and channel.held is None:
            yield Action("arrive", follower, leader)
        if channel.stale is not None and state.nodes[leader].is_alive:
            yield Action("arrive_late", follower, leader)
        if channel.held is not None and (channel.restated or self._row(state, leader, channel)[0]):
            yield Action("reply", follower, leader)  # with news, or at the end of its time
        if channel.replies:
            yield Action("take", follower, leader)
            row = channel.replies[0].row
            if Fault.APPEND in self.scope.faults and state.budget and row is not None and row.batches:
                yield Action("take", follower, leader, Fault.APPEND)
        if Fault.RESET in self.scope.faults and state.budget and (channel.requests or channel.held):
            yield Action("reset", follower, leader, Fault.RESET)

    # A broker and its controller

    def _do_register(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        node.broker_epoch = self.controller.register(state, node)
        node.lost_power = False

    def _do_unfence(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        self.controller.unfence(state, node.id, node.broker_epoch)

    def _do_fence(self, state: State, action: Action) -> None:
        self.controller.fence(state, action.node)

    def _do_learn(self, state: State, action: Action) -> None:
        """The next image, or all that are known in one step."""
        node = state.nodes[action.node]
        self._apply(state, node, len(state.images) - 1 if action.choice else node.image + 1)

    def _do_decide(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        assert node.asked is not None and node.leader is not None
        node.answer = (node.asked, self.controller.alter_partition(state, node, node.leader.epoch, node.asked))

    def _do_hear(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        assert node.answer is not None
        (proposal, answer), node.answer = node.answer, None
        leader = node.leader
        if leader is not None and leader.proposal is not None and leader.proposal == proposal:
            flags = leader.answered(leader.proposal, answer, NOW)
            node.partition_epoch = leader.partition_epoch
            self._carry_out(state, node, flags)
        if node.leader is None or node.leader.proposal is None:
            node.asked = None

    def _do_hear_nothing(self, state: State, action: Action) -> None:
        """The answer is lost: it is asked for again, if it is still meant."""
        node = state.nodes[action.node]
        node.answer = None
        if node.leader is None or node.leader.proposal is None:
            node.asked = None

    def _do_report(self, state: State, action: Action) -> None:
        """Where its replica lies, or that it is lost."""
        node = state.nodes[action.node]
        place = directory_of(node.id)
        if node.is_offline:
            place = DIRECTORY_LOST
        elif node.is_troubled:
            place = DIRECTORY_TROUBLED
        self.controller.assign(state, node, place)

    def _is_misplaced(self, state: State, node: Node) -> bool:
        if not self._registered(state, node):
            return False
        part = state.part()
        lost = is_lost(part, node.id)
        if node.is_offline or node.is_troubled:
            # One that was damaged again, in an epoch in which it has fetched, is told of again.
            return not lost or (node.is_troubled and not node.is_offline and part.leader_epoch <= node.epoch)
        waits = node.is_refilled and not (node.told is not None and node.told <= node.log.end)
        return lost and not waits

    def _registered(self, state: State, node: Node) -> bool:
        """Its own registration is in the metadata that it has applied."""
        known = state.images[node.image].brokers.get(node.id)
        return known is not None and node.broker_epoch >= 0 and known.epoch == node.broker_epoch

    # Roles

    def _apply(self, state: State, node: Node, at: int) -> None:
        """As the publisher does."""
        node.image = at
        image, part = state.images[at], state.part(at)
        if part.partition_epoch < node.partition_epoch:
            return
        may_begin_anew = is_dispensable(part, node.id) and part.leader_epoch > node.epoch
        if node.is_troubled and not node.is_offline and may_begin_anew:
            self._unfollow(state, node)
            node.log, node.told = Log(), None
            node.is_troubled, node.is_refilled = False, True
        leader = part.leader
        if leader == node.id and not self._registered(state, node):
            leader = NO_NODE
        if leader == node.id:
            self._unfollow(state, node)
            self._lead(state, node, at)
        elif node.leader is not None or (node.epoch, self._leader_of(node)) != (part.leader_epoch, leader):
            self._step_down(state, node)
            node.epoch, node.told = part.leader_epoch, None
            node.partition_epoch = part.partition_epoch
            if leader != NO_NODE and not node.is_offline:
                self._follow(state, node, leader)
        else:
            node.partition_epoch = part.partition_epoch
        if node.leader is not None:
            brokers = broker_epochs(image, part, part.replicas)
            self._carry_out(state, node, node.leader.brokers_changed(brokers, NOW))

    def _leader_of(self, node: Node) -> NodeId:
        return NO_NODE if node.talk is None or node.follower is None else node.talk[0]

    def _lead(self, state: State, node: Node, at: int) -> None:
        part = state.part(at)
        brokers = broker_epochs(state.images[at], part, part.replicas)
        if node.leader is not None and node.epoch == part.leader_epoch:
            flags = node.leader.assigned(part.replicas, part.isr, part.partition_epoch, brokers, NOW)
        else:
            before, log = node.leader, node.log
            log.assign_epoch(part.leader_epoch)
            node.epoch = part.leader_epoch
            node.leader = Leader(
                node.id,
                part.leader_epoch,
                log.end,
                log.durable_end,
                log.high_watermark,
                part.replicas,
                part.isr,
                part.partition_epoch,
                brokers,
                self._terms,
                NOW,
            )
            if before is not None:
                node.leader.take_over(before)
            if node.is_offline:
                node.leader.offline()
            flags = node.leader.begin(NOW)
        node.partition_epoch = node.leader.partition_epoch
        if node.leader.proposal is None:
            node.asked = None
        self._carry_out(state, node, flags)

    def _step_down(self, state: State, node: Node) -> None:
        self._unfollow(state, node)
        node.leader = node.asked = node.answer = None

    def _follow(self, state: State, node: Node, leader: NodeId) -> None:
        if node.talk is None or node.talk[0] != leader:
            if node.talk is not None:
                self._close(state, node.id, node.talk[0])
            node.talk = (leader, Conversation())
            node.talk[1].begin_session()
        node.follower = Follower(node.epoch, 1.0)
        node.talk[1].follow(KEY, node.follower)

    def _unfollow(self, state: State, node: Node) -> None:
        if node.talk is not None:
            node.talk[1].unfollow(KEY)
        node.follower = None

    def _close(self, state: State, follower: NodeId, leader: NodeId) -> None:
        """The connection is gone, and the session with it; what the leader has received it may still read."""
        channel = state.channel(follower, leader)
        if channel.requests:
            channel.stale = channel.requests[0]
        channel.requests, channel.replies, channel.held = (), (), None
        channel.place, channel.sent, channel.restated = None, None, False

    # Crashes

    def _do_crash(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        node.is_alive = False
        node.leader = node.talk = node.follower = node.asked = node.answer = node.told = None
        node.broker_epoch = node.epoch = node.partition_epoch = -1
        if self.scope.flushes or action.fault is Fault.POWER:
            self._lose_unsynced(state, node)
        for follower, leader in list(state.channels):
            if follower == node.id:
                self._close(state, follower, leader)
            elif leader == node.id:
                state.channels.pop((follower, leader))
                peer = state.nodes[follower]
                if peer.talk is not None and peer.talk[0] == node.id:
                    peer.talk[1].lost()
                    peer.talk[1].begin_session()

    def _lose_unsynced(self, state: State, node: Node) -> None:
        log, part = node.log, state.part()
        others = {*part.isr, *part.elr} - {node.id}
        if any(batch.last_offset >= log.durable_end for batch in log.batches):
            if not others and not self.scope.flushes:
                lost = {batch.name for batch in log.batches if batch.last_offset >= log.durable_end}
                state.forgiven |= lost
            node.lost_power = True
            log.cut(max(log.durable_end, log.start))

    def _do_restart(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        node.is_alive, node.is_offline = True, False
        node.life += 1
        node.log.high_watermark = max(node.log.start, node.log.high_watermark if action.choice else node.log.checkpoint)
        node.log.durable_end = node.log.end
        self._apply(state, node, len(state.images) - 1)

    # Disks

    def _do_sync(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        node.log.durable_end = node.log.end
        if node.leader is not None:
            self._carry_out(state, node, node.leader.synced(node.log.durable_end, NOW))
        if node.talk is not None and node.follower is not None:
            node.talk[1].synced(KEY, node.follower)

    def _do_fail_sync(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        node.is_offline = True
        if node.leader is not None:
            node.leader.offline()
            node.leader.step_down()
        if node.talk is not None and node.follower is not None:
            node.talk[1].synced(KEY, node.follower)
            node.follower.log_failed()
            node.talk[1].note(KEY)

    def _do_damage(self, state: State, action: Action) -> None:
        state.nodes[action.node].is_troubled = True

    def _do_delete(self, state: State, action: Action) -> None:
        """Up to the high watermark, or into the first batch."""
        node = state.nodes[action.node]
        node.log.raise_start(min(node.log.start + 1, node.log.high_watermark))

    # Writing and counting

    def _do_write(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        leader, log = node.leader, node.log
        assert leader is not None
        state.written += 1
        last = log.end + self.scope.batch_records - 1
        batch = Batch(log.end, last, leader.epoch, "abcdefgh"[state.written - 1])
        log.append(batch)
        flags = leader.appended(log.end, NOW)
        self._carry_out(state, node, flags)
        if leader.high_watermark > last:
            self._acknowledge(state, batch)
        else:
            leader.wait(log.end, batch)

    def _acknowledge(self, state: State, batch: Batch) -> None:
        state.acked = (*state.acked, batch)

    def _do_lag(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        assert node.leader is not None
        progress = node.leader.followers[action.other]
        progress.caught_up_at = LONG_AGO
        if progress.contact is not None:
            progress.contact.at = LONG_AGO
        self._carry_out(state, node, node.leader.tick(NOW))

    def _do_tick(self, state: State, action: Action) -> None:
        """Every leader looks around, as it does now and then."""
        for node in state.nodes.values():
            if node.leader is not None:
                self._carry_out(state, node, node.leader.tick(NOW))

    def _carry_out(self, state: State, node: Node, flags: int) -> None:
        leader = node.leader
        assert leader is not None
        if flags & SHRANK:
            for (_, to), channel in state.channels.items():
                if to == node.id and channel.place is not None:
                    channel.restated = True
        if flags & COMMITTED:
            node.log.high_watermark = leader.high_watermark
            released, leader.released = leader.released, []
            for batch in released:
                self._acknowledge(state, batch)
        if flags & PROPOSAL:
            node.asked = leader.proposal

    # Fetches

    def _settle(self, state: State) -> None:
        """Followers fetch as soon as they may."""
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
                place = (node.epoch, log.end, log.history().latest, log.start)
            begins = fetch.session_id == 0
            request = Request(fetch.number, node.broker_epoch, begins, place, bool(fetch.forgotten))
            channel.requests = (*channel.requests, request)

    def _do_arrive(self, state: State, action: Action) -> None:
        """The leader reads it: what it tells of its place counts now."""
        channel = state.channel(action.node, action.other)
        request, *rest = channel.requests
        channel.requests = tuple(rest)
        if request.begins_session:
            channel.place, channel.sent = None, None
        if request.forgets:
            channel.place = None
        is_fresh = request.place is not None or channel.restated
        if request.place is not None:
            channel.place, channel.sent = request.place, None
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
        place: tuple[int, int, int, int],
        broker_epoch: int,
        channel: Channel,
    ) -> Code:
        """The acknowledgement, if it is one."""
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
        flags = leader.fetched(replica, broker_epoch, offset, start, channel.contact, NOW)
        if flags & STALE:
            return Code.NOT_LEADER_OR_FOLLOWER
        self._carry_out(state, node, flags)
        return Code.NONE

    def _row(self, state: State, leader_id: NodeId, channel: Channel) -> tuple[bool, Row | None]:
        """Whether there is something to say to the fetch that is held, and what."""
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

    def _do_reply(self, state: State, action: Action) -> None:
        channel = state.channel(action.node, action.other)
        row = self._row(state, action.other, channel)[1]
        if row is not None and row.code is Code.NONE and row.diverging is None:
            channel.sent = (row.high_watermark, row.log_start)
        self._reply(channel, row)

    def _reply(self, channel: Channel, row: Row | None) -> None:
        assert channel.held is not None
        channel.replies = (*channel.replies, Reply(channel.held.number, row))
        channel.held = None

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
        talk.answered(1)
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
        if ready.takes:
            for at, batch in enumerate(batches):
                if batch.base_offset < log.end or (fails and at == min(1, len(batches) - 1)):
                    self._follow_up(state, node, follower, follower.failed())
                    return
                log.append(batch)
            ready = follower.appended(row, before, Ends(log.start, log.end), log.high_watermark)
        self._follow_up(state, node, follower, ready, batches)

    def _follow_up(
        self, state: State, node: Node, follower: Follower, ready: Ready, batches: tuple[Batch, ...] = ()
    ) -> None:
        """What the fetcher does, without the time that it takes."""
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
        if ready.told is not None:
            node.told = ready.told
        if ready.high_watermark is not None:
            assert log.start <= ready.high_watermark <= log.end, "a follower's high watermark"
            log.high_watermark = ready.high_watermark
        if ready.log_start is not None:
            log.raise_start(ready.log_start)
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
