"""What a follower and its leader send each other for a partition in which nothing is written any more."""

from __future__ import annotations

from pathlib import PurePath

from highwater.errors import Code
from tests.scenarios.stage import Stage


def test_records_are_deleted_on_every_replica_though_nothing_is_written() -> None:
    with Stage() as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1", b"m2")
        stage.pass_time(1.0)
        begun = stage.now
        assert stage.run(stage.client.delete_records("n2", 1)) is Code.NONE
        assert (stage.log("n2").log_start, stage.log("n3").log_start) == (1, 1)
        assert stage.now - begun < 1.0


def test_every_follower_hears_what_is_committed_though_nothing_is_written() -> None:
    """The first of two that has a record hears of its commitment only after the second has it, too."""
    with Stage(4) as stage:
        stage.create(replicas=(2, 3, 4))
        stage.send(b"m1")
        stage.until(lambda: stage.log("n3").high_watermark == stage.log("n4").high_watermark == 1, seconds=1.0)


def test_a_follower_that_has_nothing_to_ask_for_asks_nothing() -> None:
    """All that it follows is refused and waits: it does not talk to its leader in the meantime."""
    segment = PurePath("/data/orders-0/00000000000000000000.log")
    with Stage() as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        stage.kill("n3")
        stage.send(b"m2")
        stage.storage("n2").damage(segment, len(stage.storage("n2").file(segment).data) - 1, b"\xff")
        stage.start("n3")
        stage.pass_time(1.0)
        before = stage.sim.trace.counts["n3", "send"]
        stage.pass_time(2.0)
        assert stage.log("n3").log_end == 1
        assert stage.sim.trace.counts["n3", "send"] - before < 100
