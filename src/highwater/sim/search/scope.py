"""The size of a search: few replicas, few records, few faults, but every order of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from highwater.model import Epoch, NodeId
from highwater.sim.search.action import Action
from highwater.sim.search.fault import Fault


class Written(NamedTuple):
    """A batch that was there before."""

    name: str
    epoch: Epoch
    records: int = 1


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
    sessions: bool = True
    """Whether leaders have room for sessions."""
    isr: tuple[int, ...] | None = None
    """The ISR at the beginning; all replicas if it is not given."""
    begin: tuple[tuple[Written, ...], ...] = ()
    """The records that each replica has from earlier leaders at the beginning. Records that all have are
    acknowledged."""
    opening: tuple[Action, ...] = ()
    """The steps before the search begins. Faults among them count."""


def _scope(name: str, replicas: int, *faults: Fault, **more: object) -> Scope:
    return Scope(name, replicas, frozenset(faults), **more)  # type: ignore[arg-type]


F = Fault
_ONE, _TWO, _THREE = map(NodeId, (1, 2, 3))
_A, _B = Written("a", 0), Written("b", 0)
_FORKED = ((_A, Written("b", 2, 2)), (_A, Written("c", 1)))
"""The log end of 2 is inside a batch that only 1 has."""
_CROSSED = ((_A, Written("b", 1)), (_A, Written("c", 2)))
"""Neither log has the last epoch of the other."""
_REPEATED = (Action("arrive", _TWO, _ONE), Action("ask_again", _ONE, fault=F.REPEAT))
"""Leader 1 has asked for 2, and asked again: the controller has read neither."""
_COLD = (
    Action("arrive", _THREE, _ONE),
    Action("reply", _THREE, _ONE, F.COLD),
    Action("fence", _ONE, fault=F.FENCE),
    Action("learn", _TWO),
    Action("write", _TWO),
    Action("write", _TWO),
    Action("learn", _ONE),
)
"""While leader 1 reads the records for its response to 3, leader 2 is elected and writes, and 1 follows it."""
SCOPES: dict[str, Scope] = {
    scope.name: scope
    for scope in (
        _scope("pair", 2, F.CRASH, F.FENCE, F.LAG, batches=1),
        _scope("pair-stale", 2, F.FENCE, F.LAG, F.RESET, F.LOSS, F.SESSION, batches=1),
        _scope("pair-joining", 2, F.CRASH, F.FENCE, F.LOSS, batches=2, isr=(1,)),
        _scope("pair-parted", 2, F.CRASH, F.RESET, batches=3, begin=((_A,), (_A, _B))),
        _scope("pair-flush", 2, F.CRASH, F.SYNC, F.APPEND, flushes=True, batches=1, budget=2),
        _scope("pair-damage", 2, F.DAMAGE, F.RESET, F.FENCE, batches=1),
        _scope("pair-min-two", 2, F.CRASH, F.FENCE, F.LAG, min_isr=2, elr=True, batches=1, sessions=False),
        _scope("pair-power", 2, F.POWER, F.FENCE, min_isr=2, elr=True, batches=1),
        _scope("pair-unclean", 2, F.CRASH, F.FENCE, unclean=True, batches=2),
        _scope("pair-delete", 2, F.DELETE, F.DAMAGE, batches=1, batch_records=2, budget=2),
        _scope("pair-eligible", 2, F.DELETE, F.FENCE, min_isr=2, elr=True, batches=1, budget=2),
        _scope("pair-repeated", 2, F.REPEAT, F.FENCE, batches=1, isr=(1,), budget=2, opening=_REPEATED),
        _scope("three-cold", 3, F.COLD, F.FENCE, batches=4, begin=((_A, _B), (), (_A,)), budget=2, opening=_COLD),
        _scope("pair-forked", 2, F.DELETE, batches=4, isr=(1,), begin=_FORKED, budget=2),
        _scope("pair-crossed", 2, F.CRASH, F.RESET, batches=3, begin=_CROSSED),
        _scope("three", 3, F.CRASH, F.LAG, batches=1),
    )
}
"""Scopes, by what happens in them. A larger budget than their own takes long."""
