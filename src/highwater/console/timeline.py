"""What changed, with the reasons: the decisions of controllers, or where a cluster does not report them, what differs
between two looks at its metadata."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

KEPT: Final = 300
SAME_SECONDS: Final = 1.0
"""A node gives the age of a change. Seen twice, the same change may seem to have happened this far apart."""

NO_REASON: Final = "Kafka does not tell"


class Change(NamedTuple):
    at: float
    """Seconds since 1970."""
    what: str
    reason: str


class Leadership(NamedTuple):
    leader: int
    isr: tuple[int, ...]


class Timeline:
    def __init__(self) -> None:
        self._changes: deque[Change] = deque(maxlen=KEPT)

    def note(self, at: float, text: str) -> None:
        """One line of a state-change log. Its reason follows the first colon."""
        if any(abs(each.at - at) < SAME_SECONDS and self._text(each) == text for each in self._changes):
            return
        what, _, reason = text.partition(": ")
        self._insert(Change(at, what, reason))

    def note_decisions(self, now: float, decisions: Iterable[Mapping[str, Any]]) -> None:
        for each in decisions:
            self.note(now - float(each["seconds_ago"]), str(each["what"]))

    def note_difference(self, now: float, before: Mapping[str, Leadership], after: Mapping[str, Leadership]) -> None:
        for name, new in after.items():
            old = before.get(name)
            if old is None:
                continue
            if new.leader != old.leader:
                chosen = f"is led by {new.leader}" if new.leader >= 0 else "has no leader"
                self._insert(Change(now, f"{name} {chosen}, before by {old.leader}", NO_REASON))
            if set(new.isr) != set(old.isr):
                self._insert(Change(now, f"{name} ISR {_ids(old.isr)} -> {_ids(new.isr)}", NO_REASON))

    def note_brokers(self, now: float, before: Iterable[int], after: Iterable[int]) -> None:
        gone, come = set(before) - set(after), set(after) - set(before)
        for node in sorted(gone):
            self._insert(Change(now, f"broker {node} is gone", NO_REASON))
        for node in sorted(come):
            self._insert(Change(now, f"broker {node} is there", NO_REASON))

    def newest(self, count: int) -> list[dict[str, str]]:
        chosen = list(self._changes)[-count:]
        return [
            {"at": str(int(each.at * 1000)), "what": each.what, "reason": each.reason, "kind": kind_of(each.what)}
            for each in reversed(chosen)
        ]

    def _insert(self, change: Change) -> None:
        """In the order of time. Changes mostly arrive in it."""
        later = []
        while self._changes and self._changes[-1].at > change.at:
            later.append(self._changes.pop())
        self._changes.append(change)
        self._changes.extend(reversed(later))

    @staticmethod
    def _text(change: Change) -> str:
        return f"{change.what}: {change.reason}" if change.reason else change.what


def kind_of(what: str) -> str:
    """For the colour: trouble, recovery, an election, or anything else."""
    if " fenced" in f" {what}" or "is gone" in what or "no leader" in what or "uncleanly" in what:
        return "trouble"
    if "unfenced" in what or "is there" in what:
        return "recovery"
    if " ISR " in what and " elected " not in what and " led by " not in what:
        old, _, new = what.partition(" ISR ")[2].partition(" -> ")
        return "trouble" if new.count(",") < old.count(",") else "recovery"
    if "elected" in what or "led by" in what or "is active" in what:
        return "election"
    return "other"


def _ids(nodes: Sequence[int]) -> str:
    return ",".join(map(str, sorted(nodes))) or "none"
