"""Links that are cut and joined, each direction by itself."""

from __future__ import annotations

import pytest

from highwater.cluster.links import Links
from highwater.faults import CLEAR, Condition
from highwater.model import NodeId

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def test_one_direction_is_joined_and_the_others_stay_cut() -> None:
    links = Links()
    links.cut(ONE, TWO, one_way=False)
    links.cut(ONE, THREE, one_way=False)
    links.join(ONE, TWO, one_way=True)
    assert links.between(ONE, TWO) == Condition(outgoing_held=False, incoming_held=True)
    assert links.between(TWO, ONE) == Condition(outgoing_held=True, incoming_held=False)
    links.join(THREE, ONE, one_way=False)
    assert links.between(ONE, THREE) == CLEAR and links.touches(TWO) and not links.touches(THREE)


def test_joining_what_is_not_cut_changes_nothing_and_leaves_a_delay() -> None:
    links = Links()
    links.slow(ONE, TWO, 0.5)
    links.join(ONE, TWO, one_way=False)
    assert links.between(ONE, TWO) == Condition(delay=0.5)


@pytest.mark.parametrize("seconds", [-0.001, float("nan"), float("inf")])
def test_a_delay_that_is_no_time_is_refused_and_changes_nothing(seconds: float) -> None:
    links = Links()
    with pytest.raises(ValueError, match="a link cannot be slower by"):
        links.slow(ONE, TWO, seconds)
    assert links.between(ONE, TWO) == CLEAR
