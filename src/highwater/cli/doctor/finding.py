"""What an examination finds: one fact, whether it is well, and what to do if it is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

MOST_NAMES = 8
"""More names are counted, not listed."""


class State(Enum):
    WELL = "well"
    WRONG = "wrong"
    UNKNOWN = "unknown"
    """It cannot be seen from here, or cannot be known at all."""


class Finding(NamedTuple):
    area: str
    state: State
    what: str
    remedy: str = ""

    def as_json(self) -> dict[str, str | None]:
        return {"area": self.area, "state": self.state.value, "what": self.what, "remedy": self.remedy or None}


class Area(NamedTuple):
    """Makes the findings of one area."""

    name: str

    def well(self, what: str) -> Finding:
        return Finding(self.name, State.WELL, what)

    def wrong(self, what: str, remedy: str) -> Finding:
        return Finding(self.name, State.WRONG, what, remedy)

    def unknown(self, what: str, remedy: str = "") -> Finding:
        return Finding(self.name, State.UNKNOWN, what, remedy)


SETTINGS = Area("settings")
PORTS = Area("ports")
LIMITS = Area("limits")
ADDRESSES = Area("addresses")
VERSIONS = Area("versions")
QUORUM = Area("quorum")
PARTITIONS = Area("partitions")
DISKS = Area("disks")
CLOCKS = Area("clocks")


def is_well(findings: Iterable[Finding]) -> bool:
    return all(each.state is not State.WRONG for each in findings)


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """By area; what is wrong has its remedy below it. The last line is the answer to the whole."""
    for area in dict.fromkeys(each.area for each in findings):
        yield area
        for each in findings:
            if each.area == area:
                yield f"  {_MARKS[each.state]}  {each.what}"
                if each.remedy:
                    yield f"           {each.remedy}"
    wrong = sum(each.state is State.WRONG for each in findings)
    unknown = sum(each.state is State.UNKNOWN for each in findings)
    more = f"; {unknown} could not be found out" if unknown else ""
    yield f"{'all is well' if not wrong else '1 thing is wrong' if wrong == 1 else f'{wrong} things are wrong'}{more}"


_MARKS = {State.WELL: "well   ", State.WRONG: "WRONG  ", State.UNKNOWN: "unknown"}


def listed(names: Iterable[object]) -> str:
    """`a, b, c`, or the first ones and how many more."""
    words = [str(each) for each in names]
    more = f" and {len(words) - MOST_NAMES} more" if len(words) > MOST_NAMES else ""
    return ", ".join(words[:MOST_NAMES]) + more


def brokers_named(ids: Iterable[int]) -> str:
    known = sorted(ids)
    return f"broker {known[0]}" if len(known) == 1 else f"brokers {listed(known)}"
