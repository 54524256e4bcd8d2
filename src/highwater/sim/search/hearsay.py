"""What a replica reports is true only for the log at that time. The model notes each report, with its epoch and
incarnation, and compares the machines with these notes."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.broker.replica_image import is_lost
from highwater.model import Epoch, NodeId
from highwater.replication.leader import COMMITTED, PROPOSAL
from highwater.sim.search.channel import Place
from highwater.sim.search.node import Heard, Node
from highwater.sim.search.state import State


def hear(state: State, node: Node, replica: NodeId, epoch: Epoch, heard: Heard) -> None:
    """A leader has counted a fetch."""
    before = node.heard.get(replica)
    if epoch != node.epoch:
        state.wrong = f"leader {node.id} counts a fetch of epoch {epoch} in epoch {node.epoch}"
    elif before is not None and heard.broker_epoch < before.broker_epoch:
        state.wrong = f"leader {node.id} counts a fetch of an earlier life of broker {replica}"
    node.heard[replica] = heard


def forget(node: Node, before: Sequence[NodeId]) -> None:
    """A replica that has left the ISR must show again which records it has."""
    assert node.leader is not None
    for replica in before:
        if replica not in node.leader.isr:
            node.heard.pop(replica, None)


def count(state: State, node: Node, flags: int) -> None:
    """Notes what a leader proposes, and what it reports as committed."""
    leader = node.leader
    assert leader is not None
    if flags & PROPOSAL and leader.proposal is not None:
        for replica, epoch in zip(leader.proposal.isr, leader.proposal.epochs, strict=True):
            heard = node.heard.get(replica)
            if replica in leader.isr or replica == node.id:
                continue
            if heard is None or heard.broker_epoch != epoch or heard.end < leader.high_watermark:
                state.wrong = f"leader {node.id} asks for broker {replica}, which did not say that it has everything"
    if flags & COMMITTED:
        for replica in leader.isr:
            heard = node.heard.get(replica)
            if replica != node.id and (heard is None or heard.end < leader.high_watermark):
                state.wrong = f"leader {node.id} commits what broker {replica} of its ISR did not say that it has"


def take(state: State, node: Node, place: Place) -> None:
    """A follower changes its log because of a response."""
    if place[:2] != (node.epoch, node.log.end):
        state.wrong = f"broker {node.id} changes its log by an answer to a fetch at {place[1]} in epoch {place[0]}"


def promise(state: State, leader: Node) -> None:
    """A client got the response that records are deleted. A lost log has none of them."""
    assert leader.leader is not None
    part = state.part()
    for node in state.nodes.values():
        may_lead = leader.leader.brokers.get(node.id) is not None or node.id in part.elr
        if may_lead and not is_lost(part, node.id) and node.log.kept_start < state.deleted:
            state.wrong = f"offsets below {state.deleted} are called deleted, and broker {node.id} has not kept that"
