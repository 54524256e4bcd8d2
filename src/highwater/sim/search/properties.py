"""The properties that must hold in every state of a search."""

from __future__ import annotations

from highwater.sim.search.node import Node
from highwater.sim.search.state import State


def broken(state: State) -> str | None:
    """The first property that does not hold, in a sentence."""
    return state.wrong or _lost(state) or _parted(state) or _fenced(state) or _out_of_bounds(state) or _ahead(state)


def _lost(state: State) -> str | None:
    """Every leader, present or possible, has everything that clients know as committed."""
    part = state.part()
    counted = [*part.isr, *part.elr] if part.isr else [*part.elr]
    for batch in state.acked:
        if batch.name in state.forgiven:
            continue
        for replica in counted:
            node = state.nodes[replica]
            if not _has(node, batch.name, batch.last_offset) and not node.lost_power:
                role = "leads" if replica == part.leader else "may lead"
                return f"{batch.name} was acknowledged, and broker {replica}, which {role}, does not have it"
    return None


def _has(node: Node, name: str, last: int) -> bool:
    return last < node.log.start or any(batch.name == name for batch in node.log.batches)


def _parted(state: State) -> str | None:
    """Two logs that have a batch of one epoch at one offset have the same one, and the same before it."""
    nodes = list(state.nodes.values())
    for at, one in enumerate(nodes):
        for other in nodes[at + 1 :]:
            start = max(one.log.start, other.log.start)
            ours = [batch for batch in one.log.batches if batch.base_offset >= start]
            theirs = [batch for batch in other.log.batches if batch.base_offset >= start]
            places = {(batch.base_offset, batch.leader_epoch): index for index, batch in enumerate(theirs)}
            for index, batch in enumerate(ours):
                twin = places.get((batch.base_offset, batch.leader_epoch))
                if twin is not None and ours[: index + 1] != theirs[: twin + 1]:
                    place = f"epoch {batch.leader_epoch} at offset {batch.base_offset}"
                    return f"the logs of brokers {one.id} and {other.id} differ up to {place}"
    return None


def _fenced(state: State) -> str | None:
    part = state.part()
    for replica in part.isr:
        known = state.head.brokers.get(replica)
        if (known is None or known.fenced) and len(part.isr) > 1:
            return f"broker {replica} is fenced and in the ISR"
    return None


def _out_of_bounds(state: State) -> str | None:
    for node in state.nodes.values():
        log = node.log
        if not log.start <= log.high_watermark <= log.end:
            return f"broker {node.id}: high watermark {log.high_watermark} is not in [{log.start}, {log.end}]"
    return None


def _ahead(state: State) -> str | None:
    """No replica has a batch of an epoch that it does not know."""
    for node in state.nodes.values():
        last = node.log.batches[-1:]
        if last and node.is_alive and last[0].leader_epoch > node.epoch:
            return f"broker {node.id} is in epoch {node.epoch} and has {last[0].name} of epoch {last[0].leader_epoch}"
    return None
