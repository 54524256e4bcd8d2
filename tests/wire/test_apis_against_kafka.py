"""Which listener answers an API, and what brokers pass on, judged by Apache Kafka's own table."""

from __future__ import annotations

import pytest

from highwater.apis import APIS
from highwater.net.registry import Role
from tests.wire.java.oracle import ask


@pytest.fixture(scope="module")
def kafkas() -> dict[int, tuple[bool, set[str]]]:
    """By key: whether it is passed on, and its listeners."""
    rows = [line.split() for line in ask("ApiTable")]
    return {int(key): (forwarded == "true", set(listeners)) for key, forwarded, *listeners in rows}


def test_an_api_is_answered_by_no_listener_that_kafka_does_not_give_it(
    kafkas: dict[int, tuple[bool, set[str]]],
) -> None:
    wrong = [(role, api.key) for role in Role for api in APIS[role] if role.value not in kafkas[api.key][1]]
    assert not wrong


def test_brokers_pass_on_what_kafkas_brokers_pass_on(kafkas: dict[int, tuple[bool, set[str]]]) -> None:
    passed_on = {key for key, (forwarded, listeners) in kafkas.items() if forwarded and "broker" in listeners}
    wrong = [(role, api.key) for role in Role for api in APIS[role] if api.forwarded != (api.key in passed_on)]
    assert not wrong


def test_every_version_that_is_answered_is_one_of_kafkas() -> None:
    for api in (api for role in Role for api in APIS[role]):
        lowest, highest = api.request.VERSIONS
        assert lowest <= api.versions[0] <= api.versions[1] <= highest, api.request
