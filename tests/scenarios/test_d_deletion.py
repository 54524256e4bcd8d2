"""Group D, storage: what is deleted stays deleted, and no clock that is wrong deletes anything (D14, D15)."""

from __future__ import annotations

import pytest

from highwater.errors import Code
from tests.scenarios.stage import ORDERS, Stage

YEAR = 365 * 86_400
LEAPS = {"ahead": (1, 0, 0), "back": (-1, 0, 0), "strobing": (1, -2, 2, -2, 2, -1)}
"""By how many years the clocks are set, one time after the other."""


@pytest.mark.parametrize("seed", range(6))
def test_d14_a_segment_that_comes_back_after_a_power_cut_does_not_bring_its_records_back(seed: int) -> None:
    """DeleteRecords up to the end, the segment is let go, and the checkpoint of log starts is written again: now only
    the name of the next segment says where the log begins, and that name is not synced yet."""
    with Stage(1, seed=seed) as stage:
        stage.create(replicas=(1,))
        stage.send(b"m1", b"m2", b"m3")
        node, log = stage.node("n1"), stage.log("n1")
        assert node.broker is not None
        store, call = node.broker.store, node.world.call  # type: ignore[attr-defined]
        call(log.flush)
        stage.until(lambda: log.durable_end == 3)
        call(log.raise_log_start, 3)
        written: list[bool] = []
        call(store.log_starts.write, lambda: written.append(True))
        stage.until(lambda: written)
        call(log.roll)
        stage.until(lambda: not log.durability.under_way)
        assert call(log.drop_oldest)
        written.clear()
        call(store.log_starts.write, lambda: written.append(True))
        stage.until(lambda: written)
        stage.cut_power("n1")
        stage.start("n1")
        assert stage.log("n1", ORDERS).log_start == 3
        assert stage.read() == []


@pytest.mark.parametrize("last", ["n2", "n3"])
@pytest.mark.parametrize("power_loss", [False, True])
def test_d14_deleted_records_stay_deleted_whichever_replica_leads_after_both_died(power_loss: bool, last: str) -> None:
    """DeleteRecords is answered, and both are killed, or lose their power, the leader first or the follower. Who went
    last leads again, alone."""
    with Stage(3, log_flush_interval_messages=1) as stage:
        stage.create(replicas=(2, 3))
        stage.send(*(b"m%d" % number for number in range(10)))
        assert stage.run(stage.client.delete_records("n2", 7)) is Code.NONE
        assert [stage.log(name).log_start for name in ("n2", "n3")] == [7, 7]
        end = stage.cut_power if power_loss else stage.kill
        end("n3" if last == "n2" else "n2")
        stage.until(lambda: stage.image().isr == (int(last[1]),))
        end(last)
        stage.start(last)
        stage.until(lambda: stage.leads(last))
        assert stage.log(last).log_start == 7
        assert stage.read() == [b"m7", b"m8", b"m9"]


@pytest.mark.parametrize("leap", list(LEAPS))
def test_d15_a_wall_clock_that_is_a_year_off_deletes_nothing_rolls_nothing_and_fences_no_broker(leap: str) -> None:
    with Stage(3, log_retention_check_interval_ms=1000, log_initial_task_delay_ms=1000) as stage:
        stage.create(replicas=(2, 3))
        stage.send(*(b"m%d" % number for number in range(10)))
        stage.pass_time(3)
        before = (stage.image().leader_epoch, [len(stage.log(name).segments) for name in ("n2", "n3")])
        for years in LEAPS[leap]:
            for name in (*stage.cluster.names, "client"):
                stage.sim.jump_clock(name, years * YEAR)
            stage.pass_time(3)
            stage.send(b"later")
        stage.pass_time(10)
        assert stage.values("n2")[:10] == stage.values("n3")[:10] == [b"m%d" % number for number in range(10)]
        assert len(stage.values("n2")) == 10 + len(LEAPS[leap])
        now = (stage.image().leader_epoch, [len(stage.log(name).segments) for name in ("n2", "n3")])
        assert now[0] == before[0], "nobody was fenced"
        assert max(now[1]) <= max(before[1]) + len(LEAPS[leap]), "by age, once for each leap"
        assert all(stage.serves(name) for name in stage.cluster.names)


def test_d15_records_of_2099_stay_and_begin_no_segment_each() -> None:
    checks = {"log_retention_check_interval_ms": 1000, "log_initial_task_delay_ms": 1000, "log_retention_ms": 60_000}
    with Stage(1, **checks, log_message_timestamp_after_max_ms=2**62, log_roll_ms=3_600_000) as stage:
        stage.create(replicas=(1,))
        stage.send(b"of today")
        stage.sim.jump_clock("client", 74 * YEAR)
        for number in range(20):
            stage.send(b"%d" % number)
        stage.pass_time(120)
        assert stage.read() == [b"%d" % number for number in range(20)]
        assert len(stage.log("n1").segments) <= 2


def test_d15_a_wall_clock_that_is_a_year_off_forgets_no_producer() -> None:
    """Whose next batch could then come twice, or be refused."""
    with Stage(1, producer_id_expiration_check_interval_ms=1000) as stage:
        stage.create(replicas=(1,))
        stage.send(b"m1")
        stage.sim.jump_clock("n1", YEAR)
        stage.pass_time(5)
        assert stage.log("n1").producers.producers
        stage.send(b"m2")
        assert stage.read() == [b"m1", b"m2"]
