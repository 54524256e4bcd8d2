"""What is named twice in one request, or said at too great length by a member, is refused and not done again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from highwater.broker.k11_join_group import MOST_METADATA
from highwater.errors import Code
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from highwater.wire.messages.join_group_request import JoinGroupRequestProtocol
from highwater.wire.messages.join_group_response import JoinGroupResponse
from highwater.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from highwater.wire.messages.offset_fetch_response import OffsetFetchResponse
from tests.unit.broker.grouping import commit, join_request, serving
from tests.unit.broker.living import Living
from tests.unit.broker.repeated import labour_of

BROKER = 4


@pytest.fixture(scope="module")
def living() -> Iterator[Living]:
    with serving() as node:
        yield node


def test_the_offsets_of_a_group_that_is_named_twice_are_answered_once(living: Living) -> None:
    commit(living, 7)
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "other", "g", "g")]
    answer = living.ask(OffsetFetchRequest(groups=groups), OffsetFetchResponse, 9)
    rows = [(group.group_id, Code(group.error_code), len(group.topics)) for group in answer.groups]
    assert rows == [
        ("g", Code.NONE, 1),
        ("other", Code.NONE, 0),
        ("g", Code.INVALID_REQUEST, 0),
        ("g", Code.INVALID_REQUEST, 0),
    ]


def test_groups_whose_offsets_are_asked_for_take_turns(living: Living) -> None:
    groups = [OffsetFetchRequestGroup(group_id=f"g{number}", topics=None) for number in range(400)]
    with labour_of(living) as labour:
        living.ask(OffsetFetchRequest(groups=groups), OffsetFetchResponse, 9)
    assert labour.most < 40_000


def test_a_broker_whose_settings_are_changed_twice_is_not_looked_at_twice(living: Living) -> None:
    """To check whether they suit it takes a while: a thousand times would hold everybody up."""
    resources = [
        AlterConfigsResource(
            resource_type=BROKER,
            resource_name="1",
            configs=[AlterableConfig(name="log.cleaner.threads", config_operation=0, value="2")],
        )
        for _ in range(100)
    ]
    with labour_of(living) as labour:
        request = IncrementalAlterConfigsRequest(resources=resources, validate_only=True)
        answer = living.ask(request, IncrementalAlterConfigsResponse, 1)
    assert {row.error_code for row in answer.responses} == {Code.INVALID_REQUEST}
    assert labour.most < 40_000


@pytest.mark.parametrize(("size", "code"), [(MOST_METADATA, Code.MEMBER_ID_REQUIRED), (MOST_METADATA + 1, 42)])
def test_a_member_says_one_mebibyte_at_most(living: Living, size: int, code: int) -> None:
    request = join_request(group="large")
    half = size // 2
    request.protocols = [
        JoinGroupRequestProtocol(name="range", metadata=bytes(half)),
        JoinGroupRequestProtocol(name="sticky", metadata=bytes(size - half)),
    ]
    assert living.ask(request, JoinGroupResponse, 9).error_code == code
