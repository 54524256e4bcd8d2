"""Exactly once, from a topic into tables, while brokers, drivers and executors are killed with -9.

The feed notes every acknowledgement; in the end each table is compared with the ledger. Every fault is promised to the
ledger before the run, and counts only by what was seen of it.

In the ordinary run a driver with three queries dies twice: with each query at a named point of its batch, and at a
random moment. HIGHWATER_PIPELINE_KILLS=n is for every format at every point, then drivers killed n times at random; of
a cluster that lands in Iceberg 2n executors, and the driver at every point. HIGHWATER_SEED repeats the draws of an
earlier run. `test_kill_matrix.py` does the same to the command, on a standalone cluster in every run.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from highwater.model import TopicPartition
from highwater.pipeline.shipping import CODE
from tests.cluster.feed import Feed, feeding
from tests.cluster.stage import Led, Stage, staged, wait_for_moment, wait_until
from tests.pipeline.drivers import SECONDS, Driver, SparkCluster, Target, driving, is_running, parent, spark_cluster
from tests.pipeline.ledger import Ledger, check, table_rows

KILLS = int(os.environ.get("HIGHWATER_PIPELINE_KILLS", "0"))
BROKERS = PARTITIONS = 3
WORKERS = 2
PACE_SECONDS = 0.1
"""Dozens of records in each batch: more would only keep the processors from Spark, which is slow enough."""
POINTS = ("planned", "fetched", "landed")
"""Where a query stands: its batch is in the log of offsets; its records are in a task; its rows are in the table."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600 if KILLS else 1200)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("brokers") / "cluster", BROKERS) as brokers:
        yield brokers


@pytest.fixture
def draw() -> random.Random:
    seed = int(os.environ.get("HIGHWATER_SEED", secrets.randbelow(1_000_000)))
    print(f"\nseed {seed}")
    return random.Random(seed)


@dataclass
class Scene:
    """A topic that is written all the while, a driver that lands it, and what becomes of both."""

    stage: Stage
    topic: str
    feed: Feed
    driver: Driver
    targets: list[Target]
    ledger: Ledger

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """For as long as the driver lives."""
        wait_until(lambda: self.driver.check() and condition(), what, SECONDS)

    def wait_for_rows(self) -> None:
        """Every query has finished a batch with records that came after this moment."""
        ends = {index: led.log_end for index, led in self.led().items()}
        self.wait(lambda: all(is_beyond(target, ends) for target in self.targets), f"rows beyond {ends}")

    def kill_leader(self, fault: str, index: int) -> None:
        """Until another one leads, and acknowledges; the old one starts again."""
        wait_until(lambda: self.stage.is_whole(self.topic, PARTITIONS), "the cluster is whole", SECONDS)
        old = self.led()[index]
        acknowledged = self.feed.acked[TopicPartition(self.topic, index)]
        killed_at = self.stage.kill(old.leader)
        wait_until(lambda: self._is_replaced(index, old.leader, old.epoch), f"node {old.leader} leads no more")
        wait_until(lambda: any(sent > killed_at for sent, _ in acknowledged[-1000:]), "it acknowledges records")
        new = self.led()[index]
        self.stage.start(old.leader)
        self.ledger.happened(
            fault, f"{self.topic}-{index} went from node {old.leader}, epoch {old.epoch} to {new.leader}, {new.epoch}"
        )

    def led(self) -> dict[int, Led]:
        """Of all partitions: a busy node may not report its own at once."""
        found: dict[int, Led] = {}

        def is_led() -> bool:
            found.update(self.stage.led(self.topic))
            return len(found) == PARTITIONS

        wait_until(is_led, "every partition has a leader that reports it", SECONDS)
        return found

    def _is_replaced(self, index: int, leader: int, epoch: int) -> bool:
        led = self.stage.led(self.topic).get(index)
        return led is not None and led.leader != leader and led.epoch > epoch

    def kill_driver_at(self, points: dict[Target, str], faults: dict[Target, str]) -> None:
        """When every query stands at its point, and its logs and its table say so too."""
        for target, point in points.items():
            target.arm(point)
        self.wait(lambda: all(target.parked() for target in self.targets), f"every query at its point: {points}")
        for target, point in points.items():
            found = target.parked()
            assert found is not None and found["point"] == point
            batch = target.logged
            assert target.committed == batch - 1, "Spark has not committed the batch that it has logged"
            assert target.landed == batch if point == "landed" else target.landed < batch
            assert (found["batch"] == str(batch)) is (point == "fetched"), "a task stops where records are fetched"
        self.driver.kill()
        for target, fault in faults.items():
            batch = target.logged
            assert target.committed == batch - 1
            if self.driver.was_killed:
                self.ledger.happened(fault, f"in batch {batch}, whose rows were {_where(target, batch)}")

    def kill_driver_at_random(self, moment: float, fault: str) -> None:
        wait_for_moment(moment)
        self.driver.kill()
        stood = (f"{target.name} in batch {target.logged}, {target.committed} done" for target in self.targets)
        if self.driver.was_killed:
            self.ledger.happened(fault, "; ".join(stood))

    def kill_executor(self, fault: str, spark: SparkCluster, target: Target) -> None:
        """While one of its tasks has its records and another may be at work; until the batch is done all the same."""
        self.wait(lambda: len(spark.executors()) == WORKERS, "every worker has an executor")
        target.arm("fetched")
        self.wait(target.parked, "a task has its records")
        found = target.parked()
        assert found is not None
        batch = int(found["batch"])
        executor = next(pid for pid in ancestors(found["pid"]) if pid in spark.executors())
        assert target.committed == batch - 1
        os.kill(executor, signal.SIGKILL)
        self.wait(lambda: not is_running(executor), "the executor is gone")
        self.wait(lambda: target.committed >= batch, "another one does the batch")
        attempts = [line for line in target.lines("attempts") if int(line[0]) == batch]
        assert any(int(attempt) > 0 for _, _, attempt, *_ in attempts), "the task was tried again"
        self.ledger.happened(fault, f"process {executor} in batch {batch}, which took {len(attempts)} tasks")

    def kill_executor_at_random(self, fault: str, spark: SparkCluster, draw: random.Random) -> None:
        self.wait(lambda: len(spark.executors()) == WORKERS, "every worker has an executor")
        executor = draw.choice(sorted(spark.executors()))
        wait_for_moment(time.monotonic() + draw.uniform(0, 2))
        os.kill(executor, signal.SIGKILL)
        self.wait(lambda: not is_running(executor), "the executor is gone")
        self.wait_for_rows()
        self.ledger.happened(fault, f"process {executor}, and rows came after it")

    def judge(self) -> None:
        accounts = [
            self.ledger.account(target.name, self.feed.sends, table_rows(target.kind, target.path))
            for target in self.targets
        ]
        print(*(account.text() for account in accounts), sep="\n\n")
        check(accounts)
        assert self.feed.errors == []


def ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        pid = parent(pid)
        yield pid


def is_beyond(target: Target, ends: dict[int, int]) -> bool:
    reached = target.reached()
    return all(reached.get(index, 0) > end for index, end in ends.items())


def _where(target: Target, batch: int) -> str:
    return "in the table" if target.landed == batch else "in no table"


def rotations(targets: list[Target]) -> list[dict[Target, str]]:
    """Each gives every query a point; after all of them each query has been at each point."""
    return [
        {target: POINTS[(at + shift) % len(POINTS)] for at, target in enumerate(targets)}
        for shift in range(len(POINTS) if KILLS else 1)
    ]


def test_every_acknowledged_record_lands_once_though_leaders_and_drivers_are_killed(
    stage: Stage, tmp_path: Path, draw: random.Random
) -> None:
    topic = "landed"
    stage.create_topic(topic, PARTITIONS, BROKERS, {"min.insync.replicas": "2"})
    targets = [Target("parquet", tmp_path), Target("delta", tmp_path, direct=True), Target("delta", tmp_path)]
    targets += [Target("iceberg", tmp_path)] if KILLS else []
    named = rotations(targets)
    by_point = [
        {target: f"the driver is killed with {target.name} {points[target]}" for target in points} for points in named
    ]
    at_random = [f"the driver is killed at random, {number}" for number in range(KILLS or 1)]
    leaders = [f"a leader is killed, {number}" for number in range(len(named) + len(at_random))]
    ledger = Ledger(*leaders, *(fault for faults in by_point for fault in faults.values()), *at_random)
    feed = Feed(stage.bootstrap, topic, PARTITIONS, "feed", pace=PACE_SECONDS)
    driver = Driver(tmp_path, stage.bootstrap, topic, targets)
    scene = Scene(stage, topic, feed, driver, targets, ledger)
    with feeding(feed), driving(driver):
        for number, leader in enumerate(leaders):
            if number:
                driver.start()
            scene.wait_for_rows()
            scene.kill_leader(leader, number % PARTITIONS)
            if number < len(named):
                scene.wait_for_rows()
                scene.kill_driver_at(named[number], by_point[number])
            else:
                moment = time.monotonic() + draw.uniform(0, 4)
                scene.kill_driver_at_random(moment, at_random[number - len(named)])
        feed.stop()
        driver.start()
        driver.finish()
    scene.judge()
    assert driver.starts == len(leaders) + 1
    for target in targets:
        skipped = [batch for batch, landed in target.lines("landings") if landed == "False"]
        tries = sum(points[target] == "landed" for points in named)
        assert len(skipped) >= tries, f"{target.name} passes over a batch that is in the table"


@pytest.mark.skipif(not KILLS, reason="in every run tests/pipeline/test_kill_matrix.py kills executors")
def test_every_acknowledged_record_lands_once_though_executors_and_their_driver_are_killed(
    stage: Stage, tmp_path: Path, draw: random.Random
) -> None:
    """On a cluster of Spark's own, whose executors have our code from the driver alone."""
    topic = "executed"
    stage.create_topic(topic, PARTITIONS, BROKERS, {"min.insync.replicas": "2"})
    target = Target("iceberg", tmp_path)
    in_tasks = [f"an executor is killed with the records of a task, {number}" for number in range(KILLS or 1)]
    at_random = [f"an executor is killed at random, {number}" for number in range(KILLS)]
    by_point = {point: f"the driver is killed with the batch {point}" for point in (POINTS if KILLS else POINTS[-1:])}
    ledger = Ledger("a leader is killed", *in_tasks, *at_random, *by_point.values())
    feed = Feed(stage.bootstrap, topic, PARTITIONS, "feed", pace=PACE_SECONDS)
    with spark_cluster(tmp_path / "spark", WORKERS) as spark:
        driver = Driver(tmp_path, stage.bootstrap, topic, [target], spark.master)
        scene = Scene(stage, topic, feed, driver, [target], ledger)
        with feeding(feed), driving(driver):
            scene.wait_for_rows()
            for fault in in_tasks:
                scene.kill_executor(fault, spark, target)
            for fault in at_random:
                scene.kill_executor_at_random(fault, spark, draw)
            scene.kill_leader("a leader is killed", draw.randrange(PARTITIONS))
            scene.wait_for_rows()
            assert driver.starts == 1, "the query has gone on by itself"
            for point, fault in by_point.items():
                scene.kill_driver_at({target: point}, {target: fault})
                driver.start()
                scene.wait_for_rows()
            feed.stop()
            driver.finish()
        assert driver.starts == 1 + len(by_point)
    ran = {file for *_, file in target.lines("attempts")}
    assert all(f"{CODE}/highwater/" in file for file in ran), f"executors have run other code than was shipped: {ran}"
    scene.judge()
