"""A compacted topic of a running node: written and read over the wire, its old values gone."""

from __future__ import annotations

from highwater.errors import Code
from highwater.wire import records
from tests.unit.broker.living import Living
from tests.unit.broker.test_divergence import log_of, produce


def test_a_running_node_keeps_the_last_value_of_each_key() -> None:
    settings = {"log_cleanup_policy": "compact", "log_segment_bytes": "1048576", "log_cleaner_backoff_ms": "500"}
    with Living(**settings, log_cleaner_min_cleanable_ratio="0").start() as living:
        living.create_topic("t")
        now = living.world.clock.wall_ms()
        for number in range(5):
            rows = [(now, b"key-%d" % (each % 3), b"%d" % number * 100_000, ()) for each in range(4)]
            assert produce(living, records.build(rows)).error_code == Code.NONE
        log = log_of(living)
        assert len(log.segments) > 1
        living.sim.advance(3)
        assert log.clean_end == log.active.base_offset
        assert sum(segment.size for segment in log.segments[:-1]) < 320_000
        assert log.log_end == 20
