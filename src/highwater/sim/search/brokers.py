"""Brokers in a search: their registration with the controller, roles, crashes, disks and writes."""

from __future__ import annotations

from highwater.broker.replica_image import broker_epochs, is_dispensable, is_lost
from highwater.metadata.brokers import DIRECTORY_LOST, DIRECTORY_TROUBLED
from highwater.model import NO_NODE, NodeId
from highwater.replication.conversation import Conversation
from highwater.replication.follower import Follower
from highwater.replication.leader import COMMITTED, PROPOSAL, SHRANK, Leader, Terms
from highwater.sim.search.action import Action
from highwater.sim.search.channel import LAG_SECONDS, LONG_AGO, NOW
from highwater.sim.search.controlling import Controller, directory_of
from highwater.sim.search.fault import Fault
from highwater.sim.search.hearsay import count, forget, promise
from highwater.sim.search.node import KEY, Node
from highwater.sim.search.replica_log import Batch, Log
from highwater.sim.search.scope import Scope
from highwater.sim.search.state import State


class Brokers:
    """Does the work of publisher, partition and log, but takes no time."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.controller = Controller(scope)
        self._terms = Terms(scope.min_isr, scope.flushes, LAG_SECONDS)

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
        """Applies the next image, or all known images in one step."""
        node = state.nodes[action.node]
        self._apply(state, node, len(state.images) - 1 if action.choice else node.image + 1)

    def _do_decide(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        assert node.asked is not None and node.leader is not None
        epoch = node.leader.epoch
        node.answer = (
            node.asked,
            self.controller.alter_partition(state, node.id, node.broker_epoch, epoch, node.asked),
        )

    def _do_ask_again(self, state: State, action: Action) -> None:
        """Registers on a new connection. Requests on the last connection may still be read later."""
        node = state.nodes[action.node]
        assert node.asked is not None and node.leader is not None
        node.late = (node.asked, node.leader.epoch, node.broker_epoch)

    def _do_decide_late(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        assert node.late is not None
        (proposal, leader_epoch, broker_epoch), node.late = node.late, None
        self.controller.alter_partition(state, node.id, broker_epoch, leader_epoch, proposal)

    def _do_hear(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        assert node.answer is not None
        (proposal, answer), node.answer = node.answer, None
        leader = node.leader
        if leader is not None:
            meant = leader.proposal if leader.proposal == proposal else None
            flags = leader.answered(proposal if meant is None else meant, answer, NOW)
            node.partition_epoch = leader.partition_epoch
            self._carry_out(state, node, flags)
        if node.leader is None or node.leader.proposal is None:
            node.asked = None

    def _do_hear_nothing(self, state: State, action: Action) -> None:
        """The response is lost. The request is repeated if it is still wanted."""
        node = state.nodes[action.node]
        node.answer = None
        if node.leader is None or node.leader.proposal is None:
            node.asked = None

    def _do_report(self, state: State, action: Action) -> None:
        """Reports the directory of its replica, or that it is lost."""
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
            # A replica that was damaged again, in an epoch in which it has fetched, is reported again.
            return not lost or (node.is_troubled and not node.is_offline and part.leader_epoch <= node.epoch)
        return lost and not (node.is_refilled and not _has_what_is_committed(node))

    def _registered(self, state: State, node: Node) -> bool:
        """Whether its own registration is in the metadata that it has applied."""
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
            node.log, node.leader_high_watermark, node.leader_end = Log(), None, None
            node.is_troubled, node.is_refilled = False, True
        leader = part.leader
        if leader == node.id and not self._registered(state, node):
            leader = NO_NODE
        if leader == node.id:
            self._unfollow(state, node)
            self._lead(state, node, at)
        elif node.leader is not None or (node.epoch, self._leader_of(node)) != (part.leader_epoch, leader):
            self._step_down(state, node)
            node.epoch, node.leader_high_watermark, node.leader_end = part.leader_epoch, None, None
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
            isr = node.leader.isr
            flags = node.leader.assigned(part.replicas, part.isr, part.partition_epoch, brokers, NOW, part.elr)
            forget(node, isr)
        else:
            before, log = node.leader, node.log
            log.assign_epoch(part.leader_epoch)
            node.epoch, node.heard = part.leader_epoch, {}
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
                part.elr,
            )
            if before is not None:
                node.leader.take_over(before)
            if node.is_offline:
                node.leader.freeze()
            flags = node.leader.begin(NOW)
        node.partition_epoch = node.leader.partition_epoch
        if node.leader.proposal is None:
            node.asked = None
        self._carry_out(state, node, flags)

    def _step_down(self, state: State, node: Node) -> None:
        self._unfollow(state, node)
        node.leader = node.asked = node.answer = None
        node.heard = {}

    def _follow(self, state: State, node: Node, leader: NodeId) -> None:
        if node.talk is None or node.talk[0] != leader:
            if node.talk is not None:
                self._close(state, node.id, node.talk[0])
            node.talk = (leader, Conversation())
            node.talk[1].begin_session()
        node.follower = Follower(node.epoch, 1.0)
        node.talk[1].follow(KEY, node.follower)
        node.keeps_start = node.log.kept_start < node.log.start

    def _unfollow(self, state: State, node: Node) -> None:
        if node.talk is not None:
            node.talk[1].unfollow(KEY)
        node.follower = None

    def _close(self, state: State, follower: NodeId, leader: NodeId) -> None:
        """The connection is closed, and the session ends. The leader may still read what it has received."""
        channel = state.channel(follower, leader)
        if channel.requests:
            channel.stale = channel.requests[0]
        channel.requests, channel.replies, channel.held, channel.reading = (), (), None, None
        channel.place, channel.sent, channel.restated, channel.forgotten = None, None, False, False

    # Crashes

    def _do_crash(self, state: State, action: Action) -> None:
        node = state.nodes[action.node]
        node.is_alive = False
        node.leader = node.talk = node.follower = node.asked = node.answer = None
        node.leader_high_watermark = node.leader_end = None
        node.heard, node.keeps_start = {}, False
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
        node.log.forget_start()
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
            node.leader.freeze()
            node.leader.step_down()
        if node.talk is not None and node.follower is not None:
            node.talk[1].synced(KEY, node.follower)
            node.follower.log_failed()
            node.talk[1].note(KEY)

    def _do_damage(self, state: State, action: Action) -> None:
        state.nodes[action.node].is_troubled = True

    def _do_delete(self, state: State, action: Action) -> None:
        """Deletes up to the high watermark, or into the middle of the first batch."""
        node = state.nodes[action.node]
        node.log.raise_start(min(node.log.start + 1, node.log.high_watermark))
        node.log.kept_start = node.log.start
        self._delete(state, node)

    def _delete(self, state: State, node: Node) -> None:
        """A request for a deletion is answered when no replica that may lead has the records, and the leader's own log
        start is on disk."""
        log = node.log
        if node.leader is None or log.kept_start < log.start:
            return
        if state.deleted < log.start <= node.leader.low_watermark(log.start):
            state.deleted = log.start
            promise(state, node)

    def _do_keep(self, state: State, action: Action) -> None:
        """Stores the log start on disk, and then reports it."""
        node = state.nodes[action.node]
        node.log.kept_start, node.keeps_start = node.log.start, False
        if node.talk is not None and node.follower is not None:
            node.talk[1].restate(KEY)

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
        """Every leader checks its ISR, as it does periodically."""
        for node in state.nodes.values():
            if node.leader is not None:
                self._carry_out(state, node, node.leader.tick(NOW))

    def _carry_out(self, state: State, node: Node, flags: int) -> None:
        leader = node.leader
        assert leader is not None
        count(state, node, flags)
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
        if Fault.DELETE in self.scope.faults:
            self._delete(state, node)


def _has_what_is_committed(node: Node) -> bool:
    """As `broker.refilled` judges it."""
    if node.leader_high_watermark is None or node.leader_end is None:
        return False
    return max(node.leader_high_watermark, node.leader_end) <= node.log.end
