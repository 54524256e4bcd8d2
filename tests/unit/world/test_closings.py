from __future__ import annotations

import asyncio

import pytest

from highwater.world.boundary import Failures
from highwater.world.closings import Closings


def closings(*order: str) -> tuple[Closings, Failures]:
    failures = Failures(lambda: 0.0)
    return Closings(failures, order), failures


def test_parts_are_closed_in_the_given_order_whenever_they_were_begun() -> None:
    parts, _ = closings("a", "b", "c")
    closed: list[str] = []

    async def close_b() -> None:
        await asyncio.sleep(0)
        closed.append("b")

    parts.add("c", lambda: closed.append("c"))
    parts.add("a", lambda: closed.append("a"))
    parts.add("b", close_b)
    assert parts.names == ["a", "b", "c"]
    asyncio.run(parts.close())
    assert closed == ["a", "b", "c"]


def test_only_what_was_begun_is_closed_and_once() -> None:
    parts, _ = closings("a", "b")
    closed: list[str] = []
    parts.add("b", lambda: closed.append("b"))
    asyncio.run(parts.close())
    asyncio.run(parts.close())
    assert closed == ["b"]


def test_a_part_that_cannot_be_closed_does_not_keep_the_others_open() -> None:
    parts, failures = closings("a", "b")
    closed: list[str] = []

    def fails() -> None:
        raise ValueError("it is stuck")

    parts.add("a", fails)
    parts.add("b", lambda: closed.append("b"))
    asyncio.run(parts.close())
    assert closed == ["b"]
    assert failures.counts["node"] == 1


def test_a_part_without_a_place_in_the_order_is_refused() -> None:
    parts, _ = closings("a")
    with pytest.raises(ValueError, match="has no place"):
        parts.add("z", lambda: None)
