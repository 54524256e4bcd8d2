"""What is made of the settings is made again only when they have changed."""

from __future__ import annotations

from highwater.config import REPLICA_FETCH_WAIT_MAX_MS, NodeConfig
from tests.unit.broker.living import PROPERTIES, Living


def test_a_value_that_follows_from_settings_is_computed_once_for_each_change() -> None:
    with Living().start() as living:
        broker = living.node.broker
        assert broker is not None
        made: list[int] = []

        def read(config: NodeConfig) -> int:
            made.append(config.get(REPLICA_FETCH_WAIT_MAX_MS))
            return made[-1]

        current = broker.metadata.derived(read)
        assert [current(), current()] == [500, 500]
        assert made == [500]
        broker.metadata.config = NodeConfig.parse(PROPERTIES | {"replica.fetch.wait.max.ms": "70"})
        assert [current(), current()] == [70, 70]
        assert made == [500, 70]


def test_no_throttle_is_set_before_a_rate_is_set() -> None:
    with Living().start() as living:
        broker = living.node.broker
        assert broker is not None
        assert not broker.throttles.leader.is_set
        rate = {"leader.replication.throttled.rate": "1000"}
        broker.metadata.config = broker.metadata.config.with_dynamic(rate, {})
        assert broker.throttles.leader.is_set
        assert not broker.throttles.follower.is_set
