"""Every array of every request, made long: a node gives way before it has done much, and is not held up by any."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from highwater.net.registry import ELEMENTS_AT_ONCE, MOST_ELEMENTS, Role
from highwater.wire.messages.list_groups_request import ListGroupsRequest
from highwater.wire.messages.list_groups_response import ListGroupsResponse
from tests.unit.broker.grouping import serving
from tests.unit.broker.living import Living
from tests.unit.broker.repeated import TOPIC, Long, all_long, ask, labour_of

MOST_CALLS = 40_000
"""Of functions, in one go: some five milliseconds."""


@pytest.fixture(scope="module")
def living() -> Iterator[Living]:
    with Living().start() as node:
        yield node


def calls_in_one_go(living: Living, long: Long, length: int) -> int:
    """Answered or refused by an end of the connection: what matters is what it takes."""
    broker = living.node.broker
    assert broker is not None
    if broker.metadata.topic(TOPIC) is None:
        living.create_topic(TOPIC, 3)
    with labour_of(living) as labour:
        ask(living, long, length)
    assert not living.failed
    return labour.most


CASES = all_long()


@pytest.mark.slow
@pytest.mark.parametrize("role", Role)
def test_a_request_that_is_decoded_at_once_takes_few_calls(living: Living, role: Role) -> None:
    found = {
        long.name: calls
        for long in CASES
        if long.role is role and not long.alike
        if (calls := calls_in_one_go(living, long, ELEMENTS_AT_ONCE * 9 // 10)) > MOST_CALLS
    }
    assert found == {}


@pytest.mark.slow
def test_a_forwarded_request_is_not_encoded_again(living: Living) -> None:
    found = {
        long.name: calls
        for long in CASES
        if long.api.forwarded and long.role is Role.BROKER and not long.alike
        if (calls := calls_in_one_go(living, long, long.api.most_elements * 9 // 10 // len(long.path))) > MOST_CALLS
    }
    assert found == {}


@pytest.mark.slow
def test_a_very_long_request_is_handled_in_several_turns(living: Living) -> None:
    found = {
        long.name: calls
        for long in CASES
        if long.api.most_elements == MOST_ELEMENTS and long.role is Role.BROKER and len(long.path) < 3
        if (calls := calls_in_one_go(living, long, 4 * ELEMENTS_AT_ONCE)) > MOST_CALLS
    }
    assert found == {}


def test_very_many_groups_are_listed_by_turns() -> None:
    """Whatever the filters are, they are read once, not for each partition of groups."""
    with serving() as living:
        broker = living.node.broker
        assert broker is not None
        machine = next(iter(broker.groups.shards.active)).machine
        for number in range(5_000):
            machine._registry.get_or_create(f"g{number}", 0)
        request = ListGroupsRequest(states_filter=[*(f"{number:0300}" for number in range(400)), "empty"])
        with labour_of(living) as labour:
            answer = living.ask(request, ListGroupsResponse, 5)
        assert len(answer.groups) == 5_000
        assert labour.most <= MOST_CALLS
