"""The settings of groups, on a running node and on virtual time."""

from __future__ import annotations

import pytest

from highwater.broker.groups import _settings as group_settings
from highwater.broker.metrics import BrokerMetrics
from highwater.config import NodeConfig
from highwater.errors import Code
from highwater.groups import MOST_KEPT, MOST_MEMBERS
from highwater.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from highwater.wire.messages.join_group_response import JoinGroupResponse
from tests.unit.broker.grouping import (
    commit,
    committed,
    described,
    heartbeat,
    join_request,
    joined,
    leave,
    serving,
    synced,
)
from tests.unit.broker.living import PROPERTIES

MINUTE = 60


@pytest.mark.parametrize(
    ("setting", "value", "code"),
    [
        ("group_min_session_timeout_ms", "10000", Code.MEMBER_ID_REQUIRED),
        ("group_min_session_timeout_ms", "10001", Code.INVALID_SESSION_TIMEOUT),
        ("group_max_session_timeout_ms", "10000", Code.MEMBER_ID_REQUIRED),
        ("group_max_session_timeout_ms", "9999", Code.INVALID_SESSION_TIMEOUT),
    ],
)
def test_a_session_of_ten_seconds_is_taken_where_the_bounds_have_it(setting: str, value: str, code: Code) -> None:
    with serving(**{setting: value}) as living:
        assert living.ask(join_request(), JoinGroupResponse, 9).error_code == code


def test_a_group_of_the_largest_size_takes_no_other_member() -> None:
    with serving(group_max_size="1") as living:
        synced(living, joined(living))
        assert living.ask(join_request(), JoinGroupResponse, 9).error_code == Code.GROUP_MAX_SIZE_REACHED


def test_a_note_longer_than_the_setting_is_refused() -> None:
    for limit, code in (("4", Code.NONE), ("3", Code.OFFSET_METADATA_TOO_LARGE)):
        with serving(offset_metadata_max_bytes=limit) as living:
            assert commit(living, 1) == [code]


def test_the_first_member_of_a_group_is_kept_waiting_for_others() -> None:
    with serving(group_initial_rebalance_delay_ms="5000") as living:
        begun = living.sim.now
        joined(living)
        assert 5.0 <= living.sim.now - begun < 5.5


def test_offsets_of_subscribed_topics_stay_and_those_of_an_empty_group_expire() -> None:
    settings = {"offsets_retention_minutes": "1", "offsets_retention_check_interval_ms": "5000"}
    with serving(**settings) as living:
        request = join_request()
        request.protocols[0].metadata = bytes(2) + ConsumerProtocolSubscription(topics=["t"]).encode(0)
        expected = living.ask(request, JoinGroupResponse, 9)
        request.member_id = expected.member_id
        member = living.ask(request, JoinGroupResponse, 9)
        synced(living, member)
        assert commit(living, 5, member=member.member_id, generation=member.generation_id) == [Code.NONE]
        for _ in range(2 * MINUTE // 8):
            living.sim.advance(8)
            assert heartbeat(living, member) == Code.NONE
        assert committed(living) == [(5, 0)], "two minutes later"
        leave(living, member.member_id)
        living.sim.advance(MINUTE - 10)
        assert (committed(living), described(living).group_state) == ([(5, 0)], "Empty")
        living.sim.advance(20)
        assert committed(living) == [(-1, 0)]
        assert described(living).error_code == Code.GROUP_ID_NOT_FOUND


def test_offsets_are_looked_through_as_often_as_the_setting_says() -> None:
    settings = {"offsets_retention_minutes": "1", "offsets_retention_check_interval_ms": str(3 * MINUTE * 1000)}
    with serving(**settings) as living:
        commit(living, 5)
        living.sim.advance(2 * MINUTE)
        assert committed(living) == [(5, 0)], "it is over, and nobody has looked"
        living.sim.advance(MINUTE + 10)
        assert committed(living) == [(-1, 0)]


@pytest.mark.parametrize(("setting", "size"), [("2147483647", MOST_MEMBERS), ("2500", 2_500), ("2499", 2_499)])
def test_a_group_never_has_more_than_2_500_members(setting: str, size: int) -> None:
    assert group_settings(NodeConfig.parse({**PROPERTIES, "group.max.size": setting})).max_size == size


def test_all_groups_of_a_broker_take_56_mib_at_most(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as living:
        assert commit(living, 1) == [Code.NONE]

        def ask(number: int) -> JoinGroupResponse:
            request = join_request(group=f"g{number}")
            request.session_timeout_ms = request.rebalance_timeout_ms = 1_800_000
            request.protocols[0].metadata = bytes(1_000_000)
            return living.ask(request, JoinGroupResponse, 3)

        answers = [ask(number) for number in range(59)]
        codes = [answer.error_code for answer in answers]
        assert codes == [Code.NONE] * 58 + [Code.GROUP_MAX_SIZE_REACHED]
        kept = living.node.broker.groups.kept
        assert (56 << 20) - 1_100_000 < kept <= MOST_KEPT == 56 << 20
        families = {family.name: family.rows for family in BrokerMetrics(living.node.broker).collect()}
        assert [value for _, value in families["highwater_groups_kept_bytes"]] == [kept]
        assert ask(59).error_code == Code.GROUP_MAX_SIZE_REACHED
        warnings = [each.getMessage() for each in caplog.records if "the most that they may" in each.getMessage()]
        assert warnings == [
            "groups and offsets take 56 MiB, the most that they may: new ones are refused. Delete unused groups, or"
            " lower offsets.retention.minutes"
        ]
        assert commit(living, 2) == [Code.NONE]
        leave(living, answers[0].member_id, group="g0")
        assert ask(60).error_code == Code.NONE
