"""Where a node is crashed: in the midst of the operations whose order its promises rest on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from highwater.sim import Event
from highwater.sim.trace import Phase, Predicate

METADATA = "/__cluster_metadata-0/"
_LOG = re.compile(r".*-\d+/\d{20}\.log$")
_ROLLED = re.compile(r".*-\d+/(?!0{20})\d{20}\.(log|index|timeindex)$")
_CHECKPOINT = re.compile(r".*-checkpoint\.tmp -> ")
_SNAPSHOT = re.compile(r".*/\d{20}-\d{10}\.checkpoint")


def _append(event: Event) -> bool:
    return event.kind == "append" and METADATA not in event.subject and bool(_LOG.match(event.subject))


def _sync(event: Event) -> bool:
    return event.kind == "sync" and bool(_LOG.match(event.subject))


def _roll(event: Event) -> bool:
    return event.kind == "create" and bool(_ROLLED.match(event.subject))


def _checkpoint_rename(event: Event) -> bool:
    return event.kind == "rename" and bool(_CHECKPOINT.match(event.subject))


def _metadata_append(event: Event) -> bool:
    return event.kind == "append" and METADATA in event.subject and bool(_LOG.match(event.subject))


def _snapshot(event: Event) -> bool:
    return event.kind in ("append", "sync", "rename", "sync_dir", "unlink") and bool(_SNAPSHOT.match(event.subject))


def _producer_snapshot(event: Event) -> bool:
    return event.kind in ("append", "sync", "rename") and ".snapshot.tmp" in event.subject


def _truncation(event: Event) -> bool:
    """Of the tail, at start."""
    return event.kind == "truncate" and bool(_LOG.match(event.subject))


def _answer_after_a_roll() -> Predicate:
    """The first bytes sent after the first syncs of a new segment: its name must be durable by then."""
    synced = False

    def matches(event: Event) -> bool:
        nonlocal synced
        if event.kind == "sync" and _ROLLED.match(event.subject):
            synced = True
        elif event.kind == "send" and synced:
            synced = False
            return True
        return False

    return matches


class Kind(NamedTuple):
    watch: Callable[[], Predicate]
    within: int
    """The nth of them is chosen from the first so many of a life."""


KINDS: Mapping[str, Kind] = {
    "append": Kind(lambda: _append, 60),
    "sync": Kind(lambda: _sync, 60),
    "roll": Kind(lambda: _roll, 20),
    "checkpoint rename": Kind(lambda: _checkpoint_rename, 25),
    "metadata append": Kind(lambda: _metadata_append, 20),
    "snapshot": Kind(lambda: _snapshot, 12),
    "producer snapshot": Kind(lambda: _producer_snapshot, 12),
    "answer after a roll": Kind(_answer_after_a_roll, 12),
    "truncation": Kind(lambda: _truncation, 2),
}
NAMED = ("append", "sync", "roll", "checkpoint rename", "metadata append", "snapshot")
ANY_MOMENT = "any moment"


class Plan(NamedTuple):
    """One crash: of a kind, at its nth event, or after some seconds if that event does not come."""

    kind: str
    nth: int
    phase: Phase
    power_loss: bool
    seconds: float


def plan_crash(random: Random, power_loss: bool) -> Plan:
    kind = random.choice([*NAMED, *NAMED, *KINDS, ANY_MOMENT])
    phases: tuple[Phase, ...] = ("before", "during", "after") if "append" in kind else ("before", "after")
    within = KINDS[kind].within if kind in KINDS else 1
    nth = 1 + int(within * random.random() ** 2)
    return Plan(kind, nth, random.choice(phases), power_loss, random.uniform(0.05, 1.0))
