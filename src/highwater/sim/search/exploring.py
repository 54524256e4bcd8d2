"""Explores breadth first, so that the first counterexample is one of the shortest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from highwater.sim.search.action import Action
from highwater.sim.search.healing import not_healed
from highwater.sim.search.properties import broken
from highwater.sim.search.scope import Scope
from highwater.sim.search.state import State
from highwater.sim.search.steps import Steps


@dataclass(slots=True)
class Found:
    """The outcome of one search."""

    scope: Scope
    states: int
    depth: int
    is_whole: bool
    """Whether every state of the scope was visited."""
    violation: str | None = None
    trace: tuple[Action, ...] = ()
    healed: int = 0
    """The number of states from which `healed` was tried."""


def explore(
    scope: Scope,
    most_states: int | None = None,
    heal_every: int = 10,
    progress: Callable[[int, int], None] = lambda states, depth: None,
) -> Found:
    """Explores all states of a scope, or up to the given number. One state in `heal_every` is healed."""
    steps = Steps(scope)
    healed = 0
    first = steps.first()
    seen = {hash(first.frozen())}
    parents: list[tuple[int, Action | None]] = [(-1, None)]
    level: list[tuple[int, State]] = [(0, first)]
    depth = 0
    while level:
        progress(len(seen), depth)
        depth += 1
        following: list[tuple[int, State]] = []
        for number, state in level:
            for action in steps.possible(state):
                try:
                    new = steps.after(state, action)
                    violation = broken(new)
                except AssertionError as failed:
                    new, violation = state, f"an assertion of the code: {failed}"
                if violation is not None:
                    trace = (*_trace(parents, number), action)
                    return Found(scope, len(seen), depth, False, violation, trace)
                key = hash(new.frozen())
                if key in seen:
                    continue
                seen.add(key)
                parents.append((number, action))
                if len(seen) % heal_every == 0:
                    healed += 1
                    amiss = not_healed(steps, new)
                    if amiss is not None:
                        trace = (*_trace(parents, number), action)
                        violation = f"it does not heal: {amiss}"
                        return Found(scope, len(seen), depth, False, violation, trace, healed)
                following.append((len(parents) - 1, new))
                if most_states is not None and len(seen) >= most_states:
                    return Found(scope, len(seen), depth, False, healed=healed)
        level = following
    return Found(scope, len(seen), depth - 1, True, healed=healed)


def _trace(parents: list[tuple[int, Action | None]], number: int) -> tuple[Action, ...]:
    found: list[Action] = []
    while number > 0:
        number, action = parents[number]
        assert action is not None
        found.append(action)
    return tuple(reversed(found))
