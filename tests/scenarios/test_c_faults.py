"""Group C, controller quorum: what cannot be applied, written or kept is never half done (C11)."""

from __future__ import annotations

import pytest

from highwater.controller.decision import Decision
from highwater.errors import Code
from highwater.metadata.draft import Inconsistent
from highwater.metadata.records import encode
from highwater.model import Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.topic_record import TopicRecord
from tests.scenarios.metadata import agree, controller, create, create_topic, failures, others, raft, topics
from tests.scenarios.stage import Stage

MAX_RECORDS = 10_000
"""That one decision of the controller may have."""


def half() -> list[Message]:
    """A topic, and a partition of a topic that is not there: the first could be applied, the second cannot."""
    return [
        TopicRecord(name="half", topic_id=Uuid(bytes(15) + b"\1")),
        PartitionRecord(partition_id=0, topic_id=Uuid(bytes(15) + b"\2"), replicas=[1], isr=[1], leader=1),
    ]


def test_c11_a_batch_that_cannot_be_applied_stops_the_node_that_commits_it_and_is_never_seen() -> None:
    """A batch whose second record contradicts the metadata is committed, as a controller with a bug would write it:
    a node that is to apply it stops, and so does the next leader. Not one goes on with half of it, or without it."""
    with Stage(3, voters=3, expects_failures=True) as stage:
        active = controller(stage)
        node = stage.node(active)
        node.world.call(node.raft.append, half(), [encode(each) for each in half()], node.raft.epoch)  # type: ignore[attr-defined]

        def over() -> bool:
            assert not any("half" in topics(stage, member.name) for member in stage.cluster.live())
            return len(failures(stage)) == 2

        stage.until(over)
        (last,) = [member.name for member in stage.cluster.live()]
        stage.holds_for(2.0, lambda: "half" not in topics(stage, last))
        assert all("gave up: Inconsistent" in failure for failure in stage.cluster.failures)


def test_c11_a_decision_that_cannot_be_applied_is_not_even_written() -> None:
    """The same batch, decided by the active controller: the client is refused, the log has nothing of it, and
    the controller goes on."""
    with Stage(3, voters=3) as stage:
        active = controller(stage)
        node = stage.node(active)
        assert node.controller is not None
        end, answers = node.raft.log.written_end, list[object]()
        with pytest.raises(Inconsistent):
            node.world.call(node.controller.decide, lambda: Decision("done", half()), answers.append)  # type: ignore[attr-defined]
        assert (node.raft.log.written_end, answers) == (end, [])
        create(stage, active, "next")
        stage.until(lambda: agree(stage, *stage.cluster.names))
        assert topics(stage, active) == ["next"]
        assert controller(stage) == active


def test_c11_an_oversized_decision_is_refused_as_a_whole() -> None:
    """A topic of more partitions than one batch may have records: nothing of it is created."""
    with Stage(3, voters=3) as stage:
        active = controller(stage)
        assert stage.run(create_topic(stage, active, "huge", partitions=MAX_RECORDS + 1)) is not Code.NONE
        create(stage, active, "small")
        stage.until(lambda: agree(stage, *stage.cluster.names))
        assert topics(stage, active) == ["small"]


def test_c11_a_node_whose_metadata_cannot_be_synced_stops_and_the_others_go_on() -> None:
    """A voter's disk fails to sync the metadata log once: it stops, and is whole again after its next start."""
    with Stage(3, voters=3, expects_failures=True) as stage:
        active = controller(stage)
        victim, other = others(stage, active)
        stage.storage(victim).fail("sync", "/data/__cluster_metadata-0/*.log")
        create(stage, active, "t1")
        stage.until(lambda: failures(stage))
        assert stage.cluster.failures[0].startswith(f"{victim} gave up: ")
        create(stage, active, "t2")
        stage.until(lambda: topics(stage, other) == ["t1", "t2"])
        stage.cluster.failures.clear()
        stage.start(victim)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        assert raft(stage, victim).committed.topics.by_name.keys() == {"t1", "t2"}
