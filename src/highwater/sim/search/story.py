"""A counterexample for people: one sentence for each step, and the logs at the end."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.sim.search.action import Action
from highwater.sim.search.exploring import Found
from highwater.sim.search.fault import Fault
from highwater.sim.search.node import Node
from highwater.sim.search.state import State
from highwater.sim.search.steps import Steps

_SENTENCES = {
    "restart": "Broker {n} starts again, with a high watermark of {hw}.",
    "register": "Broker {n} registers.",
    "unfence": "The controller unfences broker {n}.",
    "learn": "Broker {n} applies metadata: {role}.",
    "write": "A client writes batch {last} to broker {n}, which ends at {end}.",
    "decide": "The controller decides on the ISR that leader {n} asks for: {isr}.",
    "hear": "Leader {n} hears the controller's answer.",
    "report": "Broker {n} reports the state of its replica to the controller.",
    "sync": "Broker {n} syncs its log.",
    "keep": "Broker {n} writes down that its log begins at {start}.",
    "decide_late": "The controller decides on what leader {n} asked for on a connection that it has lost: {isr}.",
    "arrive": "A fetch of broker {n} arrives at broker {o}.",
    "arrive_late": "A fetch of a connection that broker {n} has lost arrives at broker {o}.",
    "reply": "Broker {o} answers broker {n}.",
    "read": "Broker {o} reads the bytes of its answer to broker {n}.",
    "take": "Broker {n} takes the answer in, and ends at {end}.",
    "fence": "The controller fences broker {n}: {isr}.",
}
_FAULTS = {
    Fault.CRASH: "Broker {n} dies.",
    Fault.POWER: "Broker {n} loses its power, and what it had not synced.",
    Fault.FENCE: "The controller does not hear broker {n} any more and fences it: {isr}.",
    Fault.LAG: "Broker {o} has not caught up for too long, and leader {n} asks for an ISR without it.",
    Fault.RESET: "Broker {n} loses its connection with broker {o}.",
    Fault.LOSS: "The controller's answer to leader {n} is lost.",
    Fault.DAMAGE: "Broker {n} finds its log damaged.",
    Fault.APPEND: "Broker {n} takes the answer in, and an append fails: it ends at {end}.",
    Fault.SYNC: "A sync of broker {n} fails: its log is offline.",
    Fault.DELETE: "Records are deleted at leader {n}: its log begins at {start}.",
    Fault.REPEAT: "Leader {n} loses its connection with the controller, and asks again on another.",
    Fault.SESSION: "Leader {o} has no room for the session of broker {n} any more.",
    Fault.COLD: "Broker {o} begins an answer to broker {n}, whose bytes it will read later.",
}


def sentences(found: Found) -> Iterator[str]:
    """The lines of the story."""
    steps = Steps(found.scope)
    state = steps.before_opening()
    yield f"In the beginning: {_isr(state)}."
    for number, action in enumerate((*found.scope.opening, *found.trace), 1):
        before, state = state, steps.after(state, action)
        new = [batch.name for batch in state.acked if batch not in before.acked]
        acked = f" {', '.join(new)} is acknowledged." if new else ""
        yield f"{number:>3}. {_sentence(state, action)}{acked}"
    yield f"     Then {found.violation}."
    for node in state.nodes.values():
        yield f"     {_log(node)}"


def _sentence(state: State, action: Action) -> str:
    node = state.nodes[action.node]
    text = _SENTENCES[action.what] if action.fault is None else _FAULTS[action.fault]
    last = node.log.batches[-1].name if node.log.batches else "none"
    ends = {"end": node.log.end, "start": node.log.start, "hw": node.log.high_watermark}
    return text.format(n=node.id, o=action.other, isr=_isr(state), role=_role(node), last=last, **ends)


def _isr(state: State) -> str:
    part = state.part()
    leader = "nobody leads" if part.leader < 0 else f"{part.leader} leads in epoch {part.leader_epoch}"
    eligible = f", ELR {_ids(part.elr)}" if part.elr else ""
    return f"{leader}, ISR {_ids(part.isr)}{eligible}"


def _role(node: Node) -> str:
    if node.leader is not None:
        return f"it leads in epoch {node.epoch}"
    return "it has no leader" if node.follower is None or node.talk is None else f"it follows {node.talk[0]}"


def _log(node: Node) -> str:
    batches = " ".join(f"{b.base_offset}:{b.name}(epoch {b.leader_epoch})" for b in node.log.batches) or "(empty)"
    return f"broker {node.id}: {batches}, high watermark {node.log.high_watermark}"


def _ids(nodes: tuple[int, ...]) -> str:
    return ",".join(map(str, nodes)) or "(none)"
