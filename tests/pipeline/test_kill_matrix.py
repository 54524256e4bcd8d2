"""The kill matrix: brokers, drivers and executors die with -9 at named moments of a batch, while `highwater pipeline
land` lands a topic that is written all the while. Each acknowledged record is in the table once, or the judge says
which is not.

Every run plays six cells (`FEW`), by two commands: on this machine into a folder, and on a standalone cluster into an
object store. HIGHWATER_KILL_MATRIX=1 plays all pairwise cells, and the judge is shown two tables that are wrong.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pytest

from highwater.model import TopicPartition
from highwater.pipeline.shipping import CODE
from tests.cluster.feed import Feed, feeding
from tests.cluster.stage import Led, Stage, staged, wait_until
from tests.pipeline.drivers import SECONDS, SparkCluster, is_running, kill_family, parent, spark_cluster
from tests.pipeline.kill_matrix import COLUMNS, FEW, MOST_CELLS, Cell, Run, by_run, is_possible, pairs, pairwise_cells
from tests.pipeline.killed_land import SECRET, Land
from tests.pipeline.ledger import Account, Ledger, check
from tests.pipeline.object_store import KEYS, ObjectStore, object_store

WHOLE = bool(os.environ.get("HIGHWATER_KILL_MATRIX"))
CELLS = pairwise_cells() if WHOLE else list(FEW)
RUNS = list(by_run(CELLS))
BROKERS = PARTITIONS = 3
WORKERS = 2
PACE_SECONDS = 0.1

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("brokers") / "cluster", BROKERS) as brokers:
        yield brokers


@dataclass
class Scene:
    stage: Stage
    topic: str
    feed: Feed
    land: Land
    ledger: Ledger
    spark: SparkCluster | None

    def play(self, cell: Cell) -> None:
        """Until the batch at hand is done, and rows that came later are in the table."""
        land = self.land
        self._wait_for_rows()
        wait_until(lambda: self.stage.is_whole(self.topic, PARTITIONS), "the cluster is whole", SECONDS)
        land.arm(cell.moment)
        land.wait(lambda: land.parked, f"a process stands at {cell.moment}")
        found = land.parked
        assert found is not None and found["point"] == cell.moment
        batch, landed = land.logged, land.landed()
        assert land.committed == batch - 1, "Spark has logged the batch, and not committed it"
        is_shipped = self.spark is None or cell.moment != "fetched" or f"{CODE}/highwater/" in found["code"]
        assert is_shipped, f"an executor has run other code than was shipped: {found['code']}"
        kills = {"driver": self._kill_driver, "executor": self._kill_executor, "broker": self._kill_broker}
        evidence = kills[cell.victim](found["pid"])
        land.release()
        land.wait(lambda: land.committed >= batch, "the batch is done all the same")
        self._wait_for_rows()
        self.ledger.happened(_named(cell), f"{evidence}, in batch {batch}; the table ended at {sorted(landed.items())}")

    def _kill_driver(self, _: int) -> str:
        pid, before = self.land.driver, self.land.restarts
        assert pid is not None
        kill_family(pid)
        self.land.wait(lambda: self.land.restarts > before, "the command starts another one")
        return f"driver {pid} is gone"

    def _kill_executor(self, stopped: int) -> str:
        """Where Spark runs in the driver, its executor is the processes in which tasks run Python."""
        victims = self.land.task_processes() if self.spark is None else [self._executor(self.spark, stopped)]
        assert victims
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        self.land.wait(lambda: not any(map(is_running, victims)), "they are gone")
        return f"executor processes {victims} are gone"

    def _executor(self, spark: SparkCluster, stopped: int) -> int:
        """The one whose task stands still, else any."""
        self.land.wait(lambda: len(spark.executors()) == WORKERS, "every worker has an executor")
        found = spark.executors()
        return next((pid for pid in ancestors(stopped) if pid in found), found[0])

    def _kill_broker(self, _: int) -> str:
        old = self._led()[0]
        acknowledged = self.feed.acked[TopicPartition(self.topic, 0)]
        killed_at = self.stage.kill(old.leader)
        wait_until(lambda: self._is_replaced(old), f"node {old.leader} leads no more")
        wait_until(
            lambda: any(sent > killed_at for sent, _ in acknowledged[-1000:]), "another one acknowledges records"
        )
        self.stage.start(old.leader)
        return f"node {old.leader} led in epoch {old.epoch}, node {self._led()[0].leader} leads"

    def _is_replaced(self, old: Led) -> bool:
        led = self.stage.led(self.topic).get(old.index)
        return led is not None and led.leader != old.leader and led.epoch > old.epoch

    def _led(self) -> dict[int, Led]:
        found: dict[int, Led] = {}

        def is_led() -> bool:
            found.update(self.stage.led(self.topic))
            return len(found) == PARTITIONS

        wait_until(is_led, "every partition has a leader that reports it", SECONDS)
        return found

    def _wait_for_rows(self) -> None:
        ends = {index: led.log_end for index, led in self._led().items()}
        self.wait_beyond(ends)

    def wait_beyond(self, ends: dict[int, int]) -> None:
        def is_beyond() -> bool:
            reached = self.land.reached()
            return all(reached.get(index, 0) >= end for index, end in ends.items())

        self.land.wait(is_beyond, f"rows beyond {ends}")

    def finish(self) -> None:
        """All that was acknowledged is landed."""
        self.feed.stop()
        self.wait_beyond({index: led.high_watermark for index, led in self._led().items()})

    def account(self) -> Account:
        return self.ledger.account(self.topic, self.feed.sends, self.land.rows())


def ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        pid = parent(pid)
        yield pid


def _named(cell: Cell) -> str:
    return f"{cell.victim} killed, batch {cell.moment}, on {cell.place} into {cell.kind} on {cell.store}, {cell.mode}"


def played(stage: Stage, folder: Path, run: Run, cells: list[Cell], topic: str, mistake: str = "") -> Account:
    """The account of one command's table, after all cells."""
    stage.create_topic(topic, PARTITIONS, BROKERS, {"min.insync.replicas": "2"})
    feed = Feed(stage.bootstrap, topic, PARTITIONS, "feed", pace=PACE_SECONDS)
    ledger = Ledger(*map(_named, cells))
    with ExitStack() as opened:
        # For the executors, too, which have the environment of the workers.
        opened.enter_context(pytest.MonkeyPatch.context()).setenv(SECRET, KEYS["secret"])
        store: ObjectStore | None = opened.enter_context(object_store()) if run.store == "s3" else None
        spark = opened.enter_context(spark_cluster(folder / "spark", WORKERS)) if run.place == "standalone" else None
        land = Land(run, folder / topic, stage.bootstrap, topic, spark.master if spark else "local[4]", store)
        scene = Scene(stage, topic, feed, land, ledger, spark)
        if mistake:
            land.sabotage(mistake)
        with feeding(feed), land.running():
            for cell in cells:
                scene.play(cell)
            scene.finish()
        assert feed.errors == []
        return scene.account()


@pytest.mark.parametrize(("run", "cells"), RUNS, ids=["-".join(run) for run, _ in RUNS])
def test_every_acknowledged_record_is_in_the_table_once_whoever_dies(
    stage: Stage, tmp_path: Path, run: Run, cells: list[Cell]
) -> None:
    began = time.monotonic()
    account = played(stage, tmp_path, run, cells, "-".join(run))
    print(account.text(), f"\n{len(cells)} cells in {time.monotonic() - began:.0f} s")
    check([account])


@pytest.mark.skipif(not WHOLE, reason="a part of the whole matrix: HIGHWATER_KILL_MATRIX=1")
@pytest.mark.parametrize(("mistake", "found"), [("forgets", "doubled"), ("loses", "missing")])
def test_a_table_that_forgets_or_loses_is_found_out(stage: Stage, tmp_path: Path, mistake: str, found: str) -> None:
    cell = Cell("driver", "after-commit", "local", "disk", "delta", "direct")
    account = played(stage, tmp_path, cell.run, [cell], f"sabotaged-{mistake}", mistake)
    assert account.cases(found), account.text()


def test_the_cells_are_pairwise_and_few_enough() -> None:
    cells = pairwise_cells()
    assert len(cells) <= MOST_CELLS
    assert all(map(is_possible, [*cells, *FEW]))
    possible = sum(len(some) * len(others) for some, others in combinations(COLUMNS, 2)) - 1
    assert len({pair for cell in cells for pair in pairs(cell)}) == possible, "but for Parquet in a store"
    few = [set(column) for column in zip(*FEW, strict=True)]
    assert few[:4] == [set(values) for values in COLUMNS[:4]], "each victim, moment, place and store"
