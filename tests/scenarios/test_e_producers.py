"""Scenarios of group E: what a partition knows of its producers, through failures, restarts, cuts and deletions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater.errors import Code
from highwater.log.producer_state import MAX_SEQUENCE
from tests.scenarios.mishaps import batch_as, decided
from tests.scenarios.stage import ORDERS, Stage
from tests.scenarios.visitor import OffsetAnswer

PRODUCER = 7


def sent(
    stage: Stage, node: str, sequence: int, *values: bytes, producer: int = PRODUCER, acks: int = -1
) -> OffsetAnswer:
    topic = stage.truth.topics.by_name[ORDERS.topic].id
    return stage.run(batch_as(stage.client, node, topic, producer, sequence, *values, acks=acks))


def last_sequences(stage: Stage, node: str) -> dict[int, int]:
    """What the replica would take next, by producer."""
    return {pid: known.last_sequence for pid, known in sorted(stage.log(node).producers.producers.items())}


def test_e1_batches_that_are_repeated_after_a_leader_change_keep_their_offsets_and_a_gap_is_refused() -> None:
    """Setup: five batches are on leader 2 and follower 3. Fault: 2 dies before it has answered, and all five are sent
    again to 3. Must hold: they are answered with their first offsets and written once; a gap is refused."""
    with Stage(3, watched=True) as stage:
        stage.create(replicas=(2, 3))
        topic = stage.truth.topics.by_name[ORDERS.topic].id
        stage.run(stage.client.list_offset("n2"))
        stage.cut("n2", "client", one_way=True)
        for number in range(5):
            stage.begin(batch_as(stage.client, "n2", topic, PRODUCER, 2 * number, b"a%d" % number, b"b%d" % number))
        stage.until(lambda: stage.log("n3").log_end == 10)
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n3")
        stage.heal()
        for number in range(5):
            again = sent(stage, "n3", 2 * number, b"a%d" % number, b"b%d" % number)
            assert again[:2] == (Code.NONE, 2 * number)
        assert sent(stage, "n3", 11, b"after a gap").code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert sent(stage, "n3", 10, b"next")[:2] == (Code.NONE, 10)
        assert sent(stage, "n3", 0, b"a0", b"b0").code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER, "older than the last five"
        assert stage.log("n3").log_end == 11


def test_e2_producer_state_follows_the_log_after_a_cut_and_a_crash() -> None:
    """Setup: segments of a few batches, so that there are producer snapshots. Fault: leader 2, cut off, writes more of
    the same producers, with more snapshots, has to give that up, and crashes. Must hold: both times it knows what its
    log says and nothing else (KAFKA-6683, KAFKA-9892, KAFKA-12153)."""
    with Stage(3) as stage:
        stage.create(replicas=(2, 3), internal_segment_bytes=300)
        for sequence in range(6):
            assert sent(stage, "n2", sequence, b"kept").code is Code.NONE
        stage.until(lambda: stage.log("n3").log_end == 6)
        stage.isolate("n2")
        for sequence in range(6, 12):
            assert sent(stage, "n2", sequence, b"given up", acks=1).code is Code.NONE
            assert sent(stage, "n2", sequence, b"given up", producer=9, acks=1).code is Code.NONE
        stage.pass_time(0.5)
        stage.until(lambda: stage.leader() == "n3")
        assert sent(stage, "n3", 6, b"other").code is Code.NONE
        stage.heal()
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert last_sequences(stage, "n2") == last_sequences(stage, "n3") == {PRODUCER: 6}
        stage.cut_power("n2")
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert last_sequences(stage, "n2") == {PRODUCER: 6}


@pytest.mark.parametrize("ended", [Stage.cut_power, Stage.kill], ids=["cut_power", "kill"])
def test_e2_five_batches_in_segments_of_their_own_are_known_after_the_end_of_every_node(
    ended: Callable[..., None],
) -> None:
    """Setup: leader 2 and follower 3 have five batches, and segments were rolled between them; none was answered.
    Fault: all nodes end at once, and the client sends the five again. Must hold: the leader answers each with its
    first offset and writes none, nor gives an error on which a client gives up."""
    with Stage(3) as stage:
        stage.create(replicas=(2, 3), internal_segment_bytes=100, flush_messages=1)
        topic = stage.truth.topics.by_name[ORDERS.topic].id
        for number in range(3):
            assert sent(stage, "n2", 2 * number, b"a%d" % number, b"b%d" % number).code is Code.NONE
        stage.cut("n2", "client", one_way=True)
        for number in range(3, 8):
            stage.begin(batch_as(stage.client, "n2", topic, PRODUCER, 2 * number, b"a%d" % number, b"b%d" % number))
        stage.until(lambda: all(stage.log(name).durable_end == 16 for name in ("n2", "n3")))
        assert len(stage.log("n2").segments) == len(stage.log("n3").segments) == 8
        stage.pass_time(1)  # the snapshots are written
        ended(stage, "n1", "n2", "n3")
        stage.heal()
        stage.start("n1", "n2", "n3")
        stage.until(lambda: stage.leader() in ("n2", "n3"))
        leader = stage.leader()
        for number in range(3, 8):
            again = sent(stage, leader, 2 * number, b"a%d" % number, b"b%d" % number)
            assert again[:2] == (Code.NONE, 2 * number)
        assert sent(stage, leader, 16, b"next")[:2] == (Code.NONE, 16)


def test_e3_a_producer_whose_records_are_deleted_goes_on_and_no_follower_stalls() -> None:
    """Setup: all that a producer wrote is deleted. Fault: both replicas restart, and the other one leads. Must hold:
    its next batch is taken and a gap is refused, as if nothing had been deleted; the follower has it, too."""
    with Stage(3) as stage:
        stage.create(replicas=(2, 3), internal_segment_bytes=300)
        for sequence in range(4):
            assert sent(stage, "n2", sequence, b"deleted").code is Code.NONE
        for sequence in range(4):
            assert sent(stage, "n2", sequence, b"deleted too", producer=9).code is Code.NONE
        assert stage.run(stage.client.delete_records("n2", 6)) is Code.NONE
        stage.until(lambda: all(stage.log(name).segments[0].base_offset >= 4 for name in ("n2", "n3")))
        for number in range(2):
            for name, heir in (("n2", "n3"), ("n3", "n2")):
                stage.kill(name)
                stage.until(lambda heir=heir: stage.leader() == heir)  # type: ignore[misc]
                stage.start(name)
                stage.until(lambda: set(decided(stage).isr) == {2, 3})
            assert sent(stage, "n2", 5 + number, b"after a gap").code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert sent(stage, "n2", 4 + number, b"next").code is Code.NONE
        stage.until(lambda: stage.log("n3").log_end == stage.log("n2").log_end)
        assert last_sequences(stage, "n2") == last_sequences(stage, "n3") == {PRODUCER: 5, 9: 3}


def test_e4_sequences_go_round_from_the_largest_number_to_zero() -> None:
    """Setup: a producer is at the largest sequence. Fault: its leader dies between a batch that goes round and its
    repetition. Must hold: that is known for one, and the next is taken (KAFKA-7692)."""
    with Stage(3) as stage:
        stage.create(replicas=(2, 3))
        assert sent(stage, "n2", MAX_SEQUENCE - 2, b"a", b"b")[:2] == (Code.NONE, 0)
        assert sent(stage, "n2", MAX_SEQUENCE, b"c", b"d", b"e")[:2] == (Code.NONE, 2)
        stage.until(lambda: stage.log("n3").log_end == 5)
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n3")
        assert sent(stage, "n3", MAX_SEQUENCE, b"c", b"d", b"e")[:2] == (Code.NONE, 2)
        assert sent(stage, "n3", 3, b"after a gap").code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert sent(stage, "n3", 2, b"f")[:2] == (Code.NONE, 5)
