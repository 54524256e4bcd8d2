"""What a node has begun, and the order in which it ends that."""

from __future__ import annotations

import pytest

from highwater.config import ConfigError, NodeConfig
from highwater.log import names
from highwater.log.home import open_home
from highwater.node import STOPPING
from tests.unit.broker.living import DIRECTORY, NODE, PROPERTIES, Living


def begun_after(living: Living, part: str) -> list[str]:
    """What a node that is starting has begun by the time at which this part has."""
    start = living.world.spawn("start", living.node.start())
    living.sim.run(living.sim.until(lambda: part in living.node.closings.names))
    assert not start.done()
    start.cancel()
    return living.node.closings.names


def test_a_node_that_serves_ends_all_its_parts_in_their_order() -> None:
    with Living(highwater_http_listener=f"{NODE}:8080").start() as living:
        assert living.node.closings.names == list(STOPPING)
        living.stop()
        assert living.node.closings.names == []


def test_requests_end_before_the_logs_and_the_logs_before_the_lock() -> None:
    places = [STOPPING.index(part) for part in ("membership", "leadership", "listeners", "logs", "quorum", "lock")]
    assert places == sorted(places)


def test_a_node_that_is_stopped_while_it_opens_its_logs_marks_nothing_as_clean() -> None:
    """What it has not read it cannot vouch for: the checkpoints stay as they were."""
    with Living().start() as living:
        living.create_topic("t", 3)
        living.world.call(living.node.broker.store.high_watermarks.write)
        living.sim.run(living.sim.until(lambda: living.node.broker.store.high_watermarks.in_step))
        storage = living.sim.storage(NODE)
        before = storage.durable_bytes(DIRECTORY / names.HIGH_WATERMARKS)
        assert before is not None and b"t 0" in before
        living.sim.crash(NODE, power_loss=False)
        living.reborn()
        assert begun_after(living, "membership") == [
            "membership",
            "leadership",
            "listeners",
            "controller",
            "quorum",
            "lock",
        ]
        living.stop()
        assert storage.durable_bytes(DIRECTORY / names.HIGH_WATERMARKS) == before
        assert storage.durable_bytes(DIRECTORY / names.CLEAN_SHUTDOWN) is None
        assert living.reborn().start().node.broker.store.found.clean is False


def test_a_directory_that_is_not_the_nodes_own_is_not_kept_locked() -> None:
    with Living() as living:
        living.stop()
        stranger = NodeConfig.parse({**PROPERTIES, "node.id": "2"})
        for _ in range(2):
            with pytest.raises(ConfigError, match="belongs to node 1, this is 2"):
                living.sim.run(living.world.perform(open_home(living.world, stranger)))
