"""Scenarios A7 to A9 and A15 to A17: what moves a high watermark, and what is shown or kept by it."""

from __future__ import annotations

from highwater.errors import Code
from highwater.model import NO_NODE
from tests.scenarios.pair import in_step, lead_again
from tests.scenarios.stage import Stage
from tests.scenarios.visitor import EARLIEST, UNCLEAN


def test_a7_a_fetch_that_was_sent_in_another_epoch_is_refused_and_acknowledges_nothing() -> None:
    """KIP-320. n2 leads anew; m2 is only there. A fetch of n3 from an older epoch, in which offset 1 was another
    record, comes late: FENCED_LEADER_EPOCH; one from a newer epoch: UNKNOWN_LEADER_EPOCH. Neither commits m2."""
    with Stage() as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n3")
        stage.start("n2")
        stage.until(lambda: in_step(stage))
        epoch = lead_again(stage, "n2")
        stage.until(lambda: in_step(stage) and stage.log("n2").high_watermark == 1)
        stage.pause("n3")
        stage.write("n2", b"m2", acks=1)
        incarnation = stage.node("n3").broker.lifecycle.epoch
        for other, code in (
            (epoch - 2, Code.FENCED_LEADER_EPOCH),
            (epoch - 1, Code.FENCED_LEADER_EPOCH),
            (epoch + 1, Code.UNKNOWN_LEADER_EPOCH),
        ):
            answered = stage.run(stage.client.fetch("n2", 2, epoch=other, replica=3, broker_epoch=incarnation))
            assert (answered.code, stage.log("n2").high_watermark) == (code, 1)
        stage.resume("n3")
        stage.until(lambda: stage.log("n2").high_watermark == 2)


def test_a8_an_old_leader_cuts_its_tail_before_it_takes_the_new_leaders_high_watermark() -> None:
    """KAFKA-14704. n2 is cut off with a tail that is not committed; n3 leads and commits as much of its own. In one
    answer n2 gets the end of its history and a higher high watermark: at no moment is its tail below that."""
    with Stage() as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        stage.isolate("n2")
        for value in (b"t1", b"t2", b"t3"):
            stage.write("n2", value, acks=1)
        stage.until(lambda: stage.leader() == "n3")
        assert stage.run(stage.client.fetch("n2", 0)).values == [b"m1"]
        epoch = stage.partition("n3").epoch
        stage.write("n3", b"m2")
        stage.write("n3", b"m3")
        assert (stage.log("n3").high_watermark, stage.log("n2").high_watermark) == (3, 1)
        stage.heal()

        def over() -> bool:
            log = stage.log("n2")
            assert log.high_watermark == 1 or log.epoch_cache.latest == epoch, "the tail counts as committed"
            return in_step(stage)

        stage.until(over)
        assert stage.values("n2") == [b"m1", b"m2", b"m3"]


def test_a9_a_follower_that_begins_anew_at_its_leaders_start_can_lead_from_there() -> None:
    """KAFKA-9491. n3 was away while the leader's log start passed its end: it drops all it has. Before it fetches
    anything it is elected: its high watermark is not below its log start, and it can be read and written."""
    with Stage() as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        stage.until(lambda: stage.log("n3").log_end == 1)
        stage.kill("n3")
        for at in range(8):
            stage.send(b"m%d" % (at + 2))
        assert stage.run(stage.client.delete_records("n2", 8)) is Code.NONE
        stage.start("n3", waits=False)

        def begun_anew() -> bool:
            if not stage.has("n3"):
                return False
            log = stage.log("n3")
            assert log.log_start <= log.high_watermark
            return log.log_start == 8

        stage.until(begun_anew)
        assert stage.log("n3").log_end == 8
        stage.kill("n2")
        stage.until(lambda: stage.serves("n3") and stage.image().leader == NO_NODE)
        assert stage.run(stage.client.elect(UNCLEAN)) is Code.NONE
        stage.until(lambda: stage.leader() == "n3")
        fetched = stage.run(stage.client.fetch("n3", 8))
        assert (fetched.code, fetched.log_start, fetched.high_watermark) == (Code.NONE, 8, 8)
        assert stage.run(stage.client.list_offset("n3", EARLIEST)).offset == 8
        assert stage.write("n3", b"next") == 8
        assert stage.read() == [b"next"]


def test_a15_nothing_above_the_high_watermark_is_read_wherever_a_segment_ends() -> None:
    """KAFKA-9196, 9835, 9838. The follower keeps up or is cut off while segments roll, so that the high watermark is
    the log's end, a segment's end, or neither. At every offset up to the end: committed records or none, no error."""
    with Stage(replica_lag_time_max_ms=60_000) as stage:
        stage.create(replicas=(2, 3), internal_segment_bytes=2000)
        written: list[bytes] = []
        at_a_roll = 0
        for at in range(16):
            written.append(b"%d" % at * 450)
            if at % 4 == 1:
                stage.cut("n2", "n3")
            elif at % 4 == 3:
                stage.heal()
            stage.write("n2", written[-1], acks=1)
            if at % 4 in (0, 3):
                stage.until(lambda: stage.log("n2").high_watermark == len(written))
            committed = stage.log("n2").high_watermark
            at_a_roll += committed in [segment.base_offset for segment in stage.log("n2").segments]
            for offset in range(len(written) + 1):
                answered = stage.run(stage.client.fetch("n2", offset))
                assert (answered.code, answered.high_watermark) == (Code.NONE, committed)
                assert bool(answered.values) == (offset < committed)
                assert answered.values == written[offset:committed][: len(answered.values)]
        assert at_a_roll
        assert len(stage.log("n2").segments) > 5


def test_a16_a_new_leader_that_does_not_know_what_is_committed_does_not_answer_an_older_end() -> None:
    """m2 is acknowledged, and on all three replicas; the followers have not heard that it is committed. Whoever is
    elected among them says OFFSET_NOT_AVAILABLE until the other has fetched, never the end of before."""
    with Stage(4) as stage:
        stage.create(replicas=(2, 3, 4))
        stage.send(b"m1")
        stage.until(lambda: stage.log("n3").high_watermark == stage.log("n4").high_watermark == 1)
        sending = stage.begin(stage.client.send(b"m2"))
        behind = ["n3", "n4"]
        while behind:
            stage.until(lambda: any(stage.log(name).log_end == 2 for name in behind))
            there = next(name for name in behind if stage.log(name).log_end == 2)
            behind.remove(there)
            stage.cut("n2", there, one_way=True)
        stage.until(lambda: sending.done)
        assert stage.run(stage.client.list_offset("n2")).offset == 2
        stage.cut("n3", "n4")
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n3")
        assert (stage.image().isr, stage.log("n3").high_watermark) == ((3, 4), 1)
        assert stage.run(stage.client.list_offset("n3")).code is Code.OFFSET_NOT_AVAILABLE
        stage.heal()
        stage.until(lambda: stage.log("n3").high_watermark == 2)
        assert stage.run(stage.client.list_offset("n3"))[:2] == (Code.NONE, 2)


def test_a17_retention_takes_nothing_that_is_not_committed() -> None:
    """KAFKA-5634. The follower is away and the high watermark stands still, while the log grows far beyond what it may
    keep: not a segment at or above the high watermark goes. Once all is committed, they go, up to there at most."""
    with Stage(replica_lag_time_max_ms=60_000) as stage:
        stage.create(replicas=(2, 3), internal_segment_bytes=2000, retention_bytes=2000, min_insync_replicas=2)
        stage.send(b"m1")
        stage.cut("n2", "n3")
        for _ in range(12):
            stage.write("n2", bytes(900), acks=1)
        log = stage.log("n2")
        assert len(log.segments) > 5
        stage.holds_for(2.0, lambda: (log.log_start, log.high_watermark, log.log_end) == (0, 1, 13))
        stage.heal()
        stage.until(lambda: log.high_watermark == 13)

        def retained() -> bool:
            logs = [stage.log("n2"), stage.log("n3")]
            assert all(each.log_start <= each.high_watermark for each in logs)
            return all(each.log_start >= 8 for each in logs)

        stage.until(retained)
