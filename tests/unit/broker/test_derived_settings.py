"""What is made of the settings is made again only when they have changed."""

from __future__ import annotations

from highwater.config import REPLICA_FETCH_WAIT_MAX_MS, NodeConfig
from tests.unit.broker.living import PROPERTIES, Living


def test_what_is_made_of_the_settings_follows_their_changes_and_is_made_once_for_each() -> None:
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
