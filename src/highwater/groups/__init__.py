"""Consumer groups (the classic protocol) and their offsets, as a pure state machine.

The package has no I/O, no clock and no randomness of its own. It may use `effects`, `errors`, `model` and the wire
messages. `GroupShard` takes inputs and returns effects (`highwater.effects`). The driver (`highwater.coordinator`)
appends the records to the partition, sends the responses, and reports the result of each write.

Start with `shard` (the inputs), `states` (the table of moves between states) and `rebalance`. Each state that has
members has its own module: `preparing`, `completing` and `stable`.
"""

from __future__ import annotations

from highwater.groups.describing import GroupFilter, Position
from highwater.groups.footprint import MOST_KEPT
from highwater.groups.reading import asked_groups, combined, refused_fetch
from highwater.groups.refusals import left, refused_commit, refused_join, translated
from highwater.groups.settings import MOST_MEMBERS, GroupSettings
from highwater.groups.shard import GroupShard
from highwater.groups.states import IllegalTransition, State

__all__ = [
    "MOST_KEPT",
    "MOST_MEMBERS",
    "GroupFilter",
    "GroupSettings",
    "GroupShard",
    "IllegalTransition",
    "Position",
    "State",
    "asked_groups",
    "combined",
    "left",
    "refused_commit",
    "refused_fetch",
    "refused_join",
    "translated",
]
