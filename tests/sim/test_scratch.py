"""What is said of topics that come and go: of the last life of a name all that it took, and nothing of the others."""

from __future__ import annotations

from random import Random

import pytest

from highwater.errors import Code
from highwater.model import TopicPartition
from highwater.sim.health import unhealthy
from highwater.sim.scratch import NAMES, Scratch
from tests.scenarios.mishaps import delete_topic
from tests.scenarios.stage import Stage

SECONDS = 4.0
DRAW = 2
"""Takes the first name, two replicas, and writes to the first partition."""
TP = TopicPartition(NAMES[0], 0)
LAST = TopicPartition(NAMES[0], 1)


def turn_over(stage: Stage, scratch: Scratch) -> bool:
    """What is there is deleted, what is not is created and written to."""
    return stage.run(scratch.turn_over(stage.client.client, Random(DRAW), SECONDS))


def audit(stage: Stage, scratch: Scratch) -> list[str]:
    stage.client.client.forget_leaders()
    return [*scratch.wrong(stage.truth), *stage.run(scratch.audit(stage.client.client, stage.truth, SECONDS))]


def lose(stage: Stage) -> None:
    """Its records, without a word to the judge."""
    leader = stage.leader(TP)
    assert leader is not None
    assert stage.run(stage.client.delete_records(leader, -1, TP)) is Code.NONE


def test_a_record_that_the_last_life_of_a_topic_has_lost_is_reported() -> None:
    with Stage() as stage:
        scratch = Scratch(stage.cluster)
        for _ in ("created", "deleted", "created"):
            assert turn_over(stage, scratch)
        assert audit(stage, scratch) == []
        lose(stage)
        lost = [b"scratch-a 2 %d" % at for at in range(3)]
        assert audit(stage, scratch) == [f"{TP}: lost {lost}, of an earlier life []"]


def test_a_record_is_asked_for_until_it_is_known_that_its_topic_was_deleted() -> None:
    """The deletion never arrives, and the client gets no error."""
    with Stage() as stage:
        scratch = Scratch(stage.cluster)
        assert turn_over(stage, scratch)
        for name in stage.cluster.names:
            stage.cut("client", name)
            stage.sim.reset("client", name)
        deletion = stage.begin(scratch.turn_over(stage.client.client, Random(DRAW), SECONDS))
        stage.until(lambda: deletion.failed)
        stage.heal()
        lose(stage)
        assert "lost" in " ".join(audit(stage, scratch))


def test_records_of_a_topic_that_was_deleted_are_not_expected_in_the_next_topic_of_its_name() -> None:
    """n2 and n3 have not heard that the topic was deleted and created again: they take what is written to the life that
    they know, and it goes with that."""
    with Stage(broker_session_timeout_ms=60_000) as stage:
        scratch = Scratch(stage.cluster)
        stage.create(LAST, replicas=(2, 3))
        assert not turn_over(stage, scratch)  # it finds that the topic is there
        old = stage.truth.topics.by_name[TP.topic].id
        for name in ("n2", "n3"):
            stage.cut("n1", name)
            stage.cut("client", name)
        stage.cut("late", "n1")
        for _ in ("deleted", "created"):
            assert turn_over(stage, scratch)
        assert stage.truth.topics.by_name[TP.topic].id != old
        stage.run(scratch.write(stage.visitor("late").client, TP, SECONDS), by="late")
        assert stage.values("n2", TP) == stage.values("n3", TP) == [b"scratch-a 2 %d" % at for at in range(3)]
        stage.heal()
        stage.until(lambda: not unhealthy(stage.cluster, stage.truth))
        assert audit(stage, scratch) == []


@pytest.mark.parametrize("answered", [True, False])
def test_a_topic_that_goes_is_reported_unless_a_deletion_of_it_got_no_response(answered: bool) -> None:
    """A node may forward a deletion long after its client gave up, and after a creation found the topic there."""
    with Stage() as stage:
        scratch = Scratch(stage.cluster)
        assert turn_over(stage, scratch)
        if not answered:
            for name in stage.cluster.names:
                stage.cut(name, "client", one_way=True)
            deletion = stage.begin(scratch.turn_over(stage.client.client, Random(DRAW), SECONDS))
            stage.until(lambda: deletion.failed)
            stage.heal()
            stage.until(lambda: TP.topic not in stage.truth.topics.by_name)
            stage.create(LAST, replicas=(2, 3))
            assert not turn_over(stage, scratch)  # it finds that the topic is there
        stage.run(delete_topic(stage.client, TP.topic))
        assert list(scratch.wrong(stage.truth)) == ([f"{TP.topic}: created, and is not there"] if answered else [])
