"""The table of moves, and the queue of deadlines."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from highwater.effects import Now, Outbox
from highwater.groups import GroupSettings, IllegalTransition, State
from highwater.groups.deadlines import Deadline, Deadlines, Joining, Session, Syncing
from highwater.groups.group import Group
from highwater.groups.rebalance import Rebalance
from highwater.groups.registry import Registry
from highwater.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from highwater.groups.states import TRANSITIONS, check_transition


def test_only_the_moves_of_the_table_are_legal() -> None:
    legal = {(row.source, row.target) for row in TRANSITIONS}
    assert len(legal) == len(TRANSITIONS)
    for source, target in product(State, State):
        if (source, target) in legal:
            check_transition(source, target)
        else:
            with pytest.raises(IllegalTransition):
                check_transition(source, target)


def test_a_group_cannot_leave_the_table() -> None:
    group = Group("g", 0)
    with pytest.raises(IllegalTransition):
        group.move(State.STABLE, 1)
    assert (group.state, group.since_ms) == (State.EMPTY, 0)


def test_generations_stay_positive_when_they_run_out_of_numbers() -> None:
    group = Group("g", 0)
    group.generation = 2**31 - 1
    group.state = State.PREPARING
    group.next_generation(1)
    assert group.generation == 1


def test_deadlines_of_different_kinds_do_not_meet() -> None:
    deadlines = Deadlines()
    deadlines.set(Joining("g"), 1)
    deadlines.set(Syncing("g"), 2)
    deadlines.cancel(Joining("g"))
    assert list(deadlines.expired(3)) == [Syncing("g")]


def test_deadlines_expire_as_a_plain_table_of_them_says() -> None:
    random = Random(7)
    for _ in range(200):
        deadlines, table = Deadlines(), dict[Deadline, float]()
        now = 0.0
        for _ in range(60):
            name = Session("g", random.choice("abcd"))
            match random.randrange(4):
                case 0 | 1:
                    table[name] = now + random.randrange(1, 20)
                    deadlines.set(name, table[name])
                case 2:
                    table.pop(name, None)
                    deadlines.cancel(name)
                case 3:
                    now += random.randrange(5)
                    due = {name: when for name, when in table.items() if when <= now}
                    found = list(deadlines.expired(now))
                    assert (len(found), set(found)) == (len(due), set(due))
                    assert [due[name] for name in found] == sorted(due.values())
                    table = {name: when for name, when in table.items() if when > now}
            assert deadlines.next() == min(table.values(), default=None)


def test_deadlines_that_are_cancelled_or_put_forward_take_no_room_until_their_time() -> None:
    deadlines = Deadlines()
    deadlines.set(Joining("g"), 9)
    for number in range(20_000):
        deadlines.set(Session("g", f"m{number}"), 1_800)
        deadlines.cancel(Session("g", f"m{number}"))
        deadlines.set(Session("g", "m"), 100_000 - number)
        assert len(deadlines._heap) < 1_010
    assert list(deadlines.expired(100_000)) == [Joining("g"), Session("g", "m")]
    assert not deadlines._entries


def test_a_deadline_that_is_put_off_all_day_takes_the_room_of_one() -> None:
    deadlines = Deadlines()
    for second in range(10_000):
        deadlines.set(Session("g", "m"), second + 10)
        assert list(deadlines.expired(second)) == []
    assert len(deadlines._heap) == 1


def test_deadlines_that_were_cleared_are_gone_and_can_be_set_anew() -> None:
    deadlines = Deadlines()
    deadlines.set(Joining("g"), 1)
    deadlines.clear()
    assert Joining("g") not in deadlines
    assert deadlines.next() is None
    deadlines.set(Joining("g"), 2)
    assert Joining("g") in deadlines
    assert list(deadlines.expired(1)) == []
    assert list(deadlines.expired(2)) == [Joining("g")]


def test_two_deadlines_of_one_time_expire_in_the_order_they_were_set() -> None:
    deadlines = Deadlines()
    for name in ("b", "a", "c"):
        deadlines.set(Joining(name), 1)
    assert list(deadlines.expired(1)) == [Joining("b"), Joining("a"), Joining("c")]


def test_the_end_of_a_time_that_everybody_kept_changes_nothing() -> None:
    rebalance = Rebalance(GroupSettings(), Deadlines(), Outbox(), lambda more: True)
    group = Group("g", 0)
    for state in (State.PREPARING, State.COMPLETING, State.STABLE):
        group.move(state, 0)
    rebalance.syncing_is_over(group, Now(0.0, 0))
    assert group.state is State.STABLE
    group.move(State.PREPARING, 0)
    group.unsynced["m"] = None
    rebalance.syncing_is_over(group, Now(0.0, 0))
    assert group.unsynced == {"m": None}


def test_the_settings_are_kafkas() -> None:
    assert GroupSettings() == GroupSettings(
        min_session_timeout_ms=6_000,
        max_session_timeout_ms=1_800_000,
        initial_rebalance_delay_ms=3_000,
        max_size=2_147_483_647,
        offset_metadata_max_size=4_096,
        offsets_retention_ms=604_800_000,
        offsets_retention_check_interval_ms=600_000,
    )
    assert NEW_MEMBER_JOIN_TIMEOUT_MS == 300_000


def test_a_deadline_that_is_set_again_to_the_same_time_takes_the_room_of_one() -> None:
    deadlines = Deadlines()
    for _ in range(100):
        deadlines.set(Joining("g"), 1)
    assert len(deadlines._heap) == 1


def test_a_registry_that_is_cleared_knows_no_group_of_any_kind() -> None:
    registry = Registry()
    registry.get_or_create("g", 0)
    registry.foreign["h"] = "share"
    registry.clear()
    assert (list(registry), registry.foreign) == ([], {})
