"""How many requests of a node outlive their answers, in a process of its own: what other tests have left in theirs may
keep some."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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
def _without_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _requests() -> int:
    """That anybody still knows, or that know each other in a circle."""
    return sum(type(each) is RequestContext for each in gc.get_objects())


def of_role(role: Role) -> dict[str, int]:
    """By the kind of request."""
    found: dict[str, int] = {}
    with serving() as living:
        for long in all_long():
            if long.role is role and not long.alike and len(long.path) == 1:
                with _without_collections():
                    before = _requests()
                    for _ in range(TIMES):
                        ask(living, long, 2)
                    if (left := _requests() - before) >= TIMES:
                        found[long.name] = left
    return found


def of_look_ups() -> dict[str, int]:
    """Of topics and coordinators that are there."""
    with serving() as living, _without_collections():
        before = _requests()
        for _ in range(TIMES):
            wanted = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
            assert living.ask(wanted, MetadataResponse, 12).topics[0].error_code == 0
            sought = FindCoordinatorRequest(coordinator_keys=[GROUP])
            assert living.ask(sought, FindCoordinatorResponse, 4).coordinators[0].error_code == 0
        return {"look-ups": left} if (left := _requests() - before) else {}


if __name__ == "__main__":
    (what,) = sys.argv[1:]
    print(json.dumps(of_look_ups() if what == "look-ups" else of_role(Role(what))))
