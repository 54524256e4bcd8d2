"""The possible next steps, and the state after each. A local step runs at once, unless a crash may come before it."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.model import NodeId
from highwater.replication.leader import Leader
from highwater.sim.search.action import Action
from highwater.sim.search.channel import Channel
from highwater.sim.search.fault import Fault
from highwater.sim.search.fetches import Fetches
from highwater.sim.search.node import Node
from highwater.sim.search.state import State


class Steps(Fetches):
    def first(self) -> State:
        """The state after the opening of the scope."""
        state = self.before_opening()
        for action in self.scope.opening:
            state = self.after(state, action)
        return state

    def before_opening(self) -> State:
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

    # The possible steps

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
        if node.keeps_start and not node.is_offline:
            yield Action("keep", node.id)
        if node.late is not None:
            yield Action("decide_late", node.id)
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
            if self._may(state, Fault.LOSS):
                yield Action("hear_nothing", node.id, fault=Fault.LOSS)
        elif node.asked is not None:
            yield Action("decide", node.id)
            if self._may(state, Fault.REPEAT) and node.late is None:
                yield Action("ask_again", node.id, fault=Fault.REPEAT)

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
        if state.nodes[leader].is_alive:
            if channel.requests and channel.held is None and channel.reading is None:
                yield Action("arrive", follower, leader)
            if channel.stale is not None:
                yield Action("arrive_late", follower, leader)
        if channel.held is not None and (channel.restated or self._row(state, leader, channel)[0]):
            yield Action("reply", follower, leader)  # with news, or at the end of its time
            if self._may(state, Fault.COLD) and self._has_batches(state, leader, channel):
                yield Action("reply", follower, leader, Fault.COLD)
        if channel.reading is not None:
            yield Action("read", follower, leader)
        if self._may(state, Fault.SESSION) and channel.place is not None and not channel.forgotten:
            yield Action("forget", follower, leader, Fault.SESSION)
        if channel.replies:
            yield Action("take", follower, leader)
            row = channel.replies[0].row
            if self._may(state, Fault.APPEND) and row is not None and row.batches:
                yield Action("take", follower, leader, Fault.APPEND)
        if self._may(state, Fault.RESET) and (channel.requests or channel.held):
            yield Action("reset", follower, leader, Fault.RESET)

    def _may(self, state: State, fault: Fault) -> bool:
        """Whether this fault may happen, and whether one more fault may happen at all."""
        return state.budget > 0 and fault in self.scope.faults
