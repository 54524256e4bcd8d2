"""The walks that ARCHITECTURE.md draws: a node takes the hops in that order. The one of Spark is not walked here."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tests.scenarios.stage import ORDERS, Stage
from tests.scenarios.test_e_groups import Consumers

ROOT = Path(__file__).parents[2]
HOP = re.compile(r"^\| (a [^|]+) \| [^|]+ \| `(src/[^`]+\.py)` \| `([\w.]+)` \|$", re.MULTILINE)
ONE_OFFSETS_PARTITION = {
    "offsets_topic_num_partitions": 1,
    "offsets_topic_replication_factor": 1,
    "group_initial_rebalance_delay_ms": 0,
}
Hop = tuple[str, str]
"""The file, and the name of the function in it."""


def hops_of(walk: str) -> list[Hop]:
    found = HOP.findall((ROOT / "ARCHITECTURE.md").read_text())
    return [(file, function) for name, file, function in found if name == walk]


@contextmanager
def calls_of(hops: list[Hop]) -> Iterator[list[Hop]]:
    """Which of these functions were called meanwhile, in their order."""
    wanted = {(str(ROOT / file), function): (file, function) for file, function in hops}
    called: list[Hop] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            hop = wanted.get((frame.f_code.co_filename, frame.f_code.co_qualname))
            if hop is not None:
                called.append(hop)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)


def first_missing(hops: list[Hop], called: list[Hop]) -> Hop | None:
    """The first hop that was not called after all the hops before it."""
    calls = iter(called)
    return next((hop for hop in hops if hop not in calls), None)


def test_a_write_walks_as_drawn() -> None:
    hops = hops_of("a write")
    with Stage(3) as stage:
        stage.create(replicas=(2, 3))
        with calls_of(hops) as called:
            stage.send(b"m1")
        assert first_missing(hops, called) is None


def test_a_copy_walks_as_drawn() -> None:
    """The fetch that acknowledges one batch is answered with the next one."""
    hops = hops_of("a copy")
    with Stage(3) as stage:
        stage.create(replicas=(2, 3))
        with calls_of(hops) as called:
            stage.send(b"m1")
            stage.send(b"m2")
            stage.until(lambda: stage.log("n3").high_watermark == 2)
        assert first_missing(hops, called) is None


def test_a_decision_walks_as_drawn() -> None:
    hops = hops_of("a decision")
    with Stage(3) as stage, calls_of(hops) as called:
        stage.create(replicas=(2, 3))
        assert first_missing(hops, called) is None


def test_a_group_join_walks_as_drawn() -> None:
    hops = hops_of("a group join")
    with Stage(1, **ONE_OFFSETS_PARTITION) as stage:
        stage.create(ORDERS, replicas=(1,))
        consumers = Consumers(stage)
        member = consumers.client("member")
        consumers.run("member", member.find)
        stage.until(lambda: not stage.node("n1").broker.groups.shards.is_loading)
        with calls_of(hops) as called:
            consumers.run("member", member.join)
        assert first_missing(hops, called) is None


def test_hops_in_another_order_are_noticed() -> None:
    one, two = ("f.py", "one"), ("f.py", "two")
    assert first_missing([one, two], [one, one, two]) is None
    assert first_missing([one, two], [two, one]) == two
