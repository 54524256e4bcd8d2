"""How much a search draws: few replicas, few records, few faults, and every order of what can happen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Fault(Enum):
    """Each takes one from the budget of a search."""

    CRASH = "crash"
    """A process dies. In flush mode its power goes with it, and what was not synced."""
    POWER = "power"
    """Outside flush mode: one machine at a time loses what it had not synced, which is all since it started."""
    FENCE = "fence"
    """The controller does not hear a broker that lives."""
    LAG = "lag"
    """A follower was not caught up for too long."""
    RESET = "reset"
    """A follower's connection is lost, but for a request that its leader has received."""
    LOSS = "loss"
    """The controller's answer to a leader is lost."""
    DAMAGE = "damage"
    """A follower's log is found damaged, and is fetched anew."""
    APPEND = "append"
    """An append of fetched batches fails after the first of them."""
    SYNC = "sync"
    """A sync fails: the log is offline until its broker starts again."""
    DELETE = "delete"
    """Records are deleted at the leader, up to the middle of a batch."""


@dataclass(frozen=True, slots=True)
class Scope:
    name: str
    replicas: int
    faults: frozenset[Fault]
    budget: int = 1
    batches: int = 2
    batch_records: int = 1
    flushes: bool = False
    min_isr: int = 1
    elr: bool = False
    unclean: bool = False
    isr: tuple[int, ...] | None = None
    """Who is in sync in the beginning; everybody, if it is not said."""
    begin: tuple[str, ...] = ()
    """The batches of an earlier leader that each replica has in the beginning. What all have is acknowledged."""


def _scope(name: str, replicas: int, *faults: Fault, **more: object) -> Scope:
    return Scope(name, replicas, frozenset(faults), **more)  # type: ignore[arg-type]


F = Fault
SCOPES: dict[str, Scope] = {
    scope.name: scope
    for scope in (
        _scope("pair", 2, F.CRASH, F.FENCE, F.LAG, batches=1),
        _scope("pair-stale", 2, F.FENCE, F.LAG, F.RESET, F.LOSS, batches=1),
        _scope("pair-joining", 2, F.CRASH, F.FENCE, F.LOSS, batches=2, isr=(1,)),
        _scope("pair-parted", 2, F.CRASH, F.RESET, batches=3, begin=("a", "ab")),
        _scope("pair-flush", 2, F.CRASH, F.SYNC, F.APPEND, flushes=True, batches=1, budget=2),
        _scope("pair-damage", 2, F.DAMAGE, F.RESET, F.FENCE, batches=1),
        _scope("pair-min-two", 2, F.CRASH, F.FENCE, F.LAG, min_isr=2, elr=True, batches=1),
        _scope("pair-power", 2, F.POWER, F.FENCE, min_isr=2, elr=True, batches=1),
        _scope("pair-unclean", 2, F.CRASH, F.FENCE, unclean=True, batches=2),
        _scope("pair-delete", 2, F.DELETE, F.DAMAGE, batches=1, batch_records=2, budget=2),
        _scope("three", 3, F.CRASH, F.LAG, batches=1),
    )
}
"""By what happens in them. A larger budget than their own is for patient people."""
