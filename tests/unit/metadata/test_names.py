"""Which names a topic may have."""

from __future__ import annotations

import pytest

from highwater.metadata.names import colliding, why_illegal


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "...", "x" * 249])
def test_letters_digits_periods_underscores_and_hyphens_are_legal(name: str) -> None:
    assert why_illegal(name) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "is longer than the max allowed length 249"),
        ("a b", "contains one or more characters other than"),
        ("ä", "contains one or more characters other than"),
    ],
)
def test_other_names_are_refused_with_kafkas_reason(name: str, why: str) -> None:
    reason = why_illegal(name)
    assert reason is not None
    assert reason.startswith("Topic name is invalid: ")
    assert why in reason


def test_names_collide_that_differ_in_periods_and_underscores_alone() -> None:
    assert colliding("a.b", ["c", "a_b"]) == "a_b"
    assert colliding("a_b", ["a.b"]) == "a.b"
    assert colliding("a.b", ["a.c", "ab"]) is None
    assert colliding("ab", ["ab"]) is None
