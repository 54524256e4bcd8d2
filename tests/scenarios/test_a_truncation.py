"""Scenarios A1 to A6 and A18: what a follower cuts off, and what it must not."""

from __future__ import annotations

import logging
from pathlib import PurePath

import pytest

from highwater.errors import Code
from highwater.model import NO_NODE
from tests.scenarios.mishaps import decided
from tests.scenarios.pair import in_step, lead, write_alone
from tests.scenarios.stage import Stage
from tests.scenarios.visitor import OffsetAnswer

EPOCHS = PurePath("/data/orders-0/leader-epoch-checkpoint")


def test_a1_a_follower_whose_high_watermark_lags_restarts_and_keeps_what_its_leader_committed() -> None:
    """KIP-101, first scenario. m2 is on both replicas and acknowledged; its follower has not heard so yet. The
    follower restarts, then the leader dies: m2 survives, for nobody cuts a log to its own high watermark."""
    with Stage() as stage:
        stage.create(replicas=(2, 3), min_insync_replicas=2)
        stage.send(b"m1")
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        sending = stage.begin(stage.client.send(b"m2"))
        stage.until(lambda: stage.log("n3").log_end == 2)
        stage.cut("n2", "n3", one_way=True)
        stage.until(lambda: sending.done)
        assert (stage.log("n2").high_watermark, stage.log("n3").high_watermark) == (2, 1)
        stage.stop("n3")
        stage.start("n3")
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n3")
        assert stage.values("n3") == [b"m1", b"m2"]
        stage.heal()
        stage.start("n2")
        stage.until(lambda: in_step(stage))
        assert stage.read() == [b"m1", b"m2"]


def test_a2_after_both_replicas_lost_power_the_longer_log_cuts_what_the_other_replaced() -> None:
    """KIP-101, second scenario. Both replicas lose power; n3, which never had m2, is back first and writes m3 in its
    place. n2 returns: it drops m2, and one (offset, epoch) has the same bytes everywhere."""
    with Stage() as stage:
        stage.create(replicas=(2, 3), flush_messages=1)
        stage.send(b"m1")
        stage.cut("n2", "n3")
        stage.write("n2", b"m2", acks=1)
        stage.until(lambda: stage.log("n2").durable_end == 2)
        stage.cut_power("n2", "n3")
        stage.heal()
        lead(stage, "n3")
        assert stage.write("n3", b"m3") == 1
        stage.start("n2")
        stage.until(lambda: in_step(stage))
        assert stage.values("n2") == [b"m1", b"m3"]
        assert stage.records("n2") == stage.records("n3")


def test_a3_a_follower_with_epochs_that_its_leader_never_saw_cuts_until_they_agree() -> None:
    """KIP-279. The two replicas lead in turn, each without the other. Asked for an epoch that it does not know, a
    leader names the largest below it and its end; the follower cuts there and asks again, as often as it takes."""
    with Stage() as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"both")
        stage.until(lambda: stage.log("n3").log_end == 1)
        stage.kill("n3", "n2")
        mine = [write_alone(stage, "n2", *(b"n2 %d" % at for at in range(5)))]
        theirs = [write_alone(stage, "n3", *(b"n3 %d" % at for at in range(3)))]
        mine.append(write_alone(stage, "n2", b"n2 5"))
        theirs.append(write_alone(stage, "n3", *(b"n3 %d" % at for at in range(3, 6))))
        lead(stage, "n2")
        assert mine[0] < theirs[0] < mine[1] < theirs[1]
        assert stage.run(stage.client.epoch_end("n2", theirs[1])) == OffsetAnswer(Code.NONE, 7, mine[1])
        assert stage.run(stage.client.epoch_end("n2", theirs[0])) == OffsetAnswer(Code.NONE, 6, mine[0])
        stage.write("n2", b"the end")
        stage.start("n3", waits=False)
        ends: list[int] = []

        def seen() -> bool:
            if stage.has("n3"):
                end = stage.log("n3").log_end
                if not ends or ends[-1] != end:
                    ends.append(end)
            return stage.serves("n3") and in_step(stage)

        stage.until(seen)
        assert ends[:3] == [7, 4, 1], "cut to the end of its first own epoch, then to what both have"
        assert stage.records("n3") == stage.records("n2")


def test_a4_a_leader_remembers_its_epoch_before_it_has_written_anything() -> None:
    """KAFKA-7415. n3 is elected and writes nothing; it loses power and is elected again. Both elections are in its
    history with the log's end of then; a question about an epoch before the first gets the log's start."""
    with Stage() as stage:
        stage.create(replicas=(2, 3), flush_messages=1)
        stage.send(b"m1")
        stage.send(b"m2")
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n3")
        epoch = stage.partition("n3").epoch
        assert stage.run(stage.client.epoch_end("n3", epoch)) == OffsetAnswer(Code.NONE, 2, epoch)
        assert stage.run(stage.client.epoch_end("n3", 0)) == OffsetAnswer(Code.NONE, 2, 0)
        stage.until(lambda: stage.log("n3").epoch_file.in_step)
        stage.cut_power("n3")
        assert stage.storage("n3").file(EPOCHS).data == b"0\n2\n0 0\n%d 2\n" % epoch
        later = lead(stage, "n3")
        assert stage.run(stage.client.epoch_end("n3", later)) == OffsetAnswer(Code.NONE, 2, later)
        stage.write("n3", b"m3")
        assert stage.run(stage.client.delete_records("n3", 2)) is Code.NONE
        assert stage.run(stage.client.epoch_end("n3", 0)) == OffsetAnswer(Code.NONE, 2, 0)


def test_a5_a_follower_forgets_epochs_in_which_it_wrote_nothing_when_its_leader_has_none_of_them() -> None:
    """KAFKA-10706. n3 led three times and wrote nothing; n2, with a longer log, leads now and never heard of those
    epochs. There is no record to cut, but the epochs go all the same: else it would have to cut its log for ever."""
    with Stage() as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        stage.cut("n2", "n3")
        stage.write("n2", b"m2", acks=1)
        stage.kill("n2")
        epochs: list[int] = []
        for _ in range(3):
            stage.heal("n1", "n3")
            stage.until(lambda: stage.leads("n3"))
            epochs.append(stage.partition("n3").epoch)
            stage.cut("n1", "n3")
            stage.until(lambda: stage.image().leader == NO_NODE)
        assert stage.log("n3").epoch_cache.entries == [(0, 0), (epochs[-1], 1)]
        epoch = lead(stage, "n2")
        stage.write("n2", b"m3")
        stage.heal()
        stage.until(lambda: in_step(stage), seconds=5.0)
        assert stage.values("n3") == [b"m1", b"m2", b"m3"]
        assert stage.log("n3").epoch_cache.entries == [(0, 0), (epoch, 2)]


def test_a6_a_follower_that_missed_an_epoch_of_the_same_leader_checks_its_history_again() -> None:
    """KAFKA-7164. n2 leads, loses what was not synced, and leads again; n3 hears of neither loss nor epoch until all
    is over. The leader has the same name: n3 still finds out that its own tail is not the leader's."""
    with Stage() as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        stage.run(stage.client.send(b"m2"))
        stage.until(lambda: stage.log("n3").log_end == 2)
        stage.isolate("n3")
        stage.until(lambda: stage.image().isr == (2,))
        stage.kill("n2")
        stage.lose_records("n2", from_offset=1)
        epoch = lead(stage, "n2")
        stage.write("n2", b"m2 anew")
        leaders: set[tuple[int, int]] = set()
        stage.heal()

        def over() -> bool:
            leaders.add((stage.partition("n3").leader_id, stage.partition("n3").epoch))
            return in_step(stage)

        stage.until(over, seconds=5.0)
        assert leaders == {(2, 0), (2, epoch)}
        assert stage.values("n3") == [b"m1", b"m2 anew"]


def test_a18_a_follower_ahead_of_an_unclean_leader_cuts_what_was_committed_and_says_so_aloud() -> None:
    """KAFKA-7414. n3 is elected uncleanly and lacks what n2 has committed. n2 returns, ahead even by its high
    watermark: it warns, cuts, follows, and stays up."""
    with Stage() as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        stage.until(lambda: stage.log("n3").log_end == 1)
        stage.kill("n3")
        for value in (b"m2", b"m3", b"m4"):
            stage.send(value)
        assert stage.log("n2").high_watermark == 4
        stage.stop("n2")
        lead(stage, "n3")
        stage.start("n2")
        stage.until(lambda: in_step(stage), seconds=5.0)
        assert stage.values("n2") == [b"m1"]
        assert stage.said("n2", "below its high watermark", at_least=logging.WARNING)
        stage.write("n3", b"m5")
        assert stage.read() == [b"m1", b"m5"]
        stage.until(lambda: in_step(stage))
        assert stage.records("n2") == stage.records("n3")


@pytest.mark.parametrize("more", [0, 6], ids=["to the end", "beyond its end"])
def test_a_follower_whose_log_begins_beyond_the_end_of_its_leader_begins_anew(more: int) -> None:
    """Setup: 2 has [8, 10), since what came before was deleted; 3, elected uncleanly, has [0, 5), or goes on from there
    to [0, 11). Must hold: 2 follows and has all that 3 has, and a crash finds no log start beyond its end."""
    with Stage(3) as stage:
        stage.create(replicas=(2, 3))
        for at in range(5):
            stage.write("n2", b"v%d" % at)
        stage.until(lambda: stage.log("n3").log_end == 5)
        stage.kill("n3")
        stage.until(lambda: set(decided(stage).isr) == {2})
        for _ in range(5):
            stage.write("n2", b"only here")
        assert stage.run(stage.client.delete_records("n2", 8)) is Code.NONE
        stage.kill("n2")
        stage.until(lambda: decided(stage).leader == -1)
        stage.start("n3")
        assert stage.run(stage.client.elect(1)) is Code.NONE
        for _ in range(more):
            stage.write("n3", b"anew")
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.values("n2") == [b"v%d" % at for at in range(5)] + [b"anew"] * more
        stage.kill("n2")
        stage.start("n2")
        assert (stage.log("n2").log_start, stage.log("n2").log_end) == (0, 5 + more)
