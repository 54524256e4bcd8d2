"""Leaders are killed with -9 again and again while real clients write; nothing acknowledged is lost or doubled.

Ten times in the ordinary run; `make soak` sets HIGHWATER_KILLS=100 and also holds the times to their limits, which an
otherwise idle machine is needed for. HIGHWATER_SEED repeats the draws of an earlier run, HIGHWATER_SOAK_REPORT names a
file that one line of JSON is appended to.
"""

from __future__ import annotations

import json
import os
import secrets
import statistics
from pathlib import Path

import pytest

from highwater.audit import verdict_text
from tests.cluster.feed import SETTINGS, Feed, feeding, verdict_on
from tests.cluster.soak import Soak
from tests.cluster.stage import staged

KILLS = int(os.environ.get("HIGHWATER_KILLS", "0"))
TOPIC = "soak"
BROKERS = 5
PARTITIONS = 6
REPLICATION_FACTOR = 4
MIN_ISR = 2
PRODUCERS = 3
MEDIAN_SECONDS = 0.5
WORST_SECONDS = 1.5


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_or_doubled_when_leaders_are_killed_again_and_again(tmp_path: Path) -> None:
    seed = int(os.environ.get("HIGHWATER_SEED", secrets.randbelow(1_000_000)))
    print(f"\nseed {seed}; clients: {PRODUCERS} librdkafka producers, {dict(SETTINGS)}, all else at its default")
    with staged(tmp_path / "cluster", BROKERS) as stage:
        stage.create_topic(TOPIC, PARTITIONS, REPLICATION_FACTOR, {"min.insync.replicas": str(MIN_ISR)})
        feeds = [Feed(stage.bootstrap, TOPIC, PARTITIONS, f"p{number}") for number in range(PRODUCERS)]
        pause = 1.0 if KILLS else 0.1
        soak = Soak(stage, feeds, TOPIC, PARTITIONS, MIN_ISR, KILLS or 10, seed, pause, print)
        with feeding(*feeds):
            soak.run()
        verdict = verdict_on(stage.bootstrap, TOPIC, PARTITIONS, feeds)
    print(soak.table())
    print(verdict_text(verdict))
    if report := os.environ.get("HIGHWATER_SOAK_REPORT"):
        with open(report, "a") as lines:
            lines.write(json.dumps({**soak.report(), "settings": dict(SETTINGS), "verdict": verdict.counts}) + "\n")
    assert [error for feed in feeds for error in feed.errors] == []
    assert verdict.ok and verdict.acked == sum(len(feed.sends) for feed in feeds), verdict_text(verdict)
    assert soak.controllers_killed >= soak.controllers_wanted
    assert soak.early >= soak.early_wanted
    if KILLS:
        assert statistics.median(soak.seconds) < MEDIAN_SECONDS
        assert max(soak.seconds) < WORST_SECONDS
