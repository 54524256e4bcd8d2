"""Deadlines by name: each expires once, at the time that was set last."""

from __future__ import annotations

from highwater.groups.deadlines import Deadlines, Joining

A, B, C = Joining("a"), Joining("b"), Joining("c")


def expired(deadlines: Deadlines, now: float) -> list[Joining]:
    return list(deadlines.expired(now))  # type: ignore[arg-type]


def test_due_deadlines_expire_in_their_order_and_the_others_stay() -> None:
    deadlines = Deadlines()
    for name, when in ((A, 3.0), (B, 1.0), (C, 1.0)):
        deadlines.set(name, when)
    assert deadlines.next() == 1.0
    assert expired(deadlines, 0.9) == []
    assert expired(deadlines, 1.0) == [B, C], "of two at one time, the one that was set first"
    assert (B in deadlines, A in deadlines, deadlines.next()) == (False, True, 3.0)
    assert expired(deadlines, 9.0) == [A]
    assert deadlines.next() is None


def test_a_postponed_deadline_expires_at_the_later_time() -> None:
    deadlines = Deadlines()
    deadlines.set(A, 1.0)
    deadlines.set(A, 5.0)
    assert (expired(deadlines, 4.0), deadlines.next()) == ([], 5.0)
    assert (expired(deadlines, 5.0), deadlines.next()) == ([A], None)


def test_a_deadline_that_is_brought_forward_expires_once() -> None:
    deadlines = Deadlines()
    deadlines.set(A, 5.0)
    deadlines.set(A, 1.0)
    assert expired(deadlines, 1.0) == [A]
    assert (deadlines.next(), expired(deadlines, 9.0)) == (None, [])


def test_a_cancelled_deadline_does_not_expire_and_may_be_set_again() -> None:
    deadlines = Deadlines()
    deadlines.set(A, 1.0)
    deadlines.cancel(A)
    deadlines.cancel(B)
    assert (A in deadlines, expired(deadlines, 2.0)) == (False, [])
    deadlines.set(A, 3.0)
    assert expired(deadlines, 3.0) == [A]


def test_a_cancelled_deadline_may_be_set_later_before_its_old_time() -> None:
    deadlines = Deadlines()
    deadlines.set(A, 1.0)
    deadlines.cancel(A)
    deadlines.set(A, 4.0)
    assert (expired(deadlines, 2.0), deadlines.next(), expired(deadlines, 4.0)) == ([], 4.0, [A])


def test_no_deadline_expires_after_all_are_cleared() -> None:
    deadlines = Deadlines()
    deadlines.set(A, 1.0)
    deadlines.clear()
    assert (A in deadlines, deadlines.next(), expired(deadlines, 9.0)) == (False, None, [])
    deadlines.set(A, 2.0)
    assert expired(deadlines, 2.0) == [A]


def test_the_handler_of_a_deadline_may_set_and_cancel_others() -> None:
    deadlines = Deadlines()
    deadlines.set(A, 1.0)
    deadlines.set(B, 1.0)
    seen = []
    for name in deadlines.expired(1.0):
        seen.append(name)
        if name == A:
            deadlines.cancel(B)
            deadlines.set(C, 0.5)
    assert seen == [A, C]
