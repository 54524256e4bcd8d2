"""Leadership goes back to where it belongs, once who should have it is there again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from highwater.audit import verdict_text
from tests.cluster.feed import Feed, feeding, verdict_on
from tests.cluster.stage import Stage, staged, wait_until

TOPIC = "spread"
PARTITIONS = 6
INTERVAL_SECONDS = 2
"""Where nobody says else, it is longer than this test would wait."""


def leaderships(stage: Stage) -> dict[int, int]:
    return Counter(led.leader for led in stage.led(TOPIC).values())


@pytest.mark.slow
def test_leadership_is_spread_again_after_a_broker_was_down_and_came_back(tmp_path: Path) -> None:
    settings = {"leader.imbalance.check.interval.seconds": str(INTERVAL_SECONDS)}
    with staged(tmp_path / "cluster", brokers=3, settings=settings) as stage:
        stage.create_topic(TOPIC, PARTITIONS, 3, {"min.insync.replicas": "2"})
        assert leaderships(stage) == {1: 2, 2: 2, 3: 2}
        feeds = [Feed(stage.bootstrap, TOPIC, PARTITIONS, f"p{number}") for number in range(2)]
        with feeding(*feeds):
            stage.kill(2)
            wait_until(lambda: 2 not in leaderships(stage) and sum(leaderships(stage).values()) == 6, "others lead")
            stage.start(2)
            wait_until(lambda: stage.is_whole(TOPIC, PARTITIONS), "it is back in every ISR")
            wait_until(lambda: leaderships(stage) == {1: 2, 2: 2, 3: 2}, "leadership is spread again")
            wait_until(lambda: all(led.is_whole for led in stage.led(TOPIC).values()), "all in sync")
        verdict = verdict_on(stage.bootstrap, TOPIC, PARTITIONS, feeds)
    assert verdict.ok and verdict.acked == sum(len(feed.sends) for feed in feeds), verdict_text(verdict)
