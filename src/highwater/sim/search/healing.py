"""From any state: if nothing more fails and all messages arrive, all replicas are in sync again."""

from __future__ import annotations

from highwater.sim.search.action import Action
from highwater.sim.search.state import State
from highwater.sim.search.steps import Steps

MOST_STEPS = 300
_ORDER = (
    "restart",
    "register",
    "learn",
    "unfence",
    "report",
    "sync",
    "keep",
    "hear",
    "decide",
    "decide_late",
    "arrive_late",
    "take",
    "read",
    "reply",
    "arrive",
)


def not_healed(steps: Steps, state: State) -> str | None:
    """What is still wrong after many steps; None if nothing is. An offline log is opened again when its broker
    restarts."""
    state = state.copy()
    state.budget = 0
    state.written = steps.scope.batches
    for _ in range(MOST_STEPS):
        sick = next((node for node in state.nodes.values() if node.is_alive and node.is_offline), None)
        action = Action("crash", sick.id) if sick is not None else _next(steps, state)
        if action is None:
            before, state = state.frozen(), steps.after(state, Action("tick"))
            if state.frozen() == before:
                break
        else:
            state = steps.after(state, action)
    return _amiss(state)


def _next(steps: Steps, state: State) -> Action | None:
    possible = [action for action in steps.possible(state) if action.what in _ORDER and action.fault is None]
    return min(possible, key=lambda action: _ORDER.index(action.what), default=None)


def _amiss(state: State) -> str | None:
    part = state.part()
    if part.leader < 0:
        if all(node.id not in (*part.isr, *part.elr) for node in state.nodes.values()):
            return None  # no replica is left that may lead without a loss
        return "nobody leads"
    if set(part.isr) != set(part.replicas):
        return f"only {', '.join(map(str, part.isr))} is in sync"
    leader = state.nodes[part.leader]
    if leader.leader is None:
        return f"broker {leader.id} does not lead"
    ends = {(node.log.end, node.log.batches[-1]) for node in state.nodes.values() if node.log.batches}
    if len(ends) > 1 or len({node.log.end for node in state.nodes.values()}) > 1:
        return "the logs of the brokers differ"
    if any(node.log.kept_start < leader.log.start for node in state.nodes.values()):
        # A leader that was deposed without knowing it may have deleted more, but no client got an answer.
        return f"not everybody has kept that the log begins at {leader.log.start}"
    return "a client still waits for a commit" if leader.leader.waiting else None
