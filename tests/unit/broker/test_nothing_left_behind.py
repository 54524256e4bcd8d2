"""What a request was made of goes when it is answered. What is left for Python's collector of garbage is kept until
tens of thousands of objects have gathered, answers and all, and then the loop stands still while they are looked at."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from highwater.net.context import RequestContext
from highwater.net.registry import Role
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import FindCoordinatorResponse
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import MetadataResponse
from tests.unit.broker.grouping import serving
from tests.unit.broker.repeated import GROUP, TOPIC, all_long, ask

TIMES = 5


@contextmanager
def without_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def requests() -> int:
    """That anybody still knows, or that know each other in a circle."""
    return sum(type(each) is RequestContext for each in gc.get_objects())


@pytest.mark.parametrize("role", Role)
def test_no_request_of_any_kind_outlives_its_answer(role: Role) -> None:
    found: dict[str, int] = {}
    with serving() as living:
        for long in all_long():
            if long.role is role and not long.alike and len(long.path) == 1:
                with without_collections():
                    before = requests()
                    for _ in range(TIMES):
                        ask(living, long, 2)
                    if (left := requests() - before) >= TIMES:
                        found[long.name] = left
    assert found == {}


def test_metadata_and_coordinators_that_are_found_outlive_no_answer() -> None:
    with serving() as living, without_collections():
        before = requests()
        for _ in range(TIMES):
            wanted = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
            assert living.ask(wanted, MetadataResponse, 12).topics[0].error_code == 0
            sought = FindCoordinatorRequest(coordinator_keys=[GROUP])
            assert living.ask(sought, FindCoordinatorResponse, 4).coordinators[0].error_code == 0
        assert requests() == before
