"""Topics of thousands of partitions: decided as a whole, and no loop is held by any of them."""

from __future__ import annotations

from highwater.errors import Code
from highwater.wire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from highwater.wire.messages.create_partitions_response import CreatePartitionsResponse
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.elect_leaders_request import ElectLeadersRequest
from highwater.wire.messages.elect_leaders_response import ElectLeadersResponse
from tests.scenarios.metadata import controller
from tests.scenarios.stage import Stage
from tests.scenarios.turns import MOST_CALLS, Turns, counted_turns

WIDE = "wide"
NO_SNAPSHOTS = {"metadata_log_max_record_bytes_between_snapshots": 2**40}
"""They are made off the loop, which a simulated world has not."""


def width(stage: Stage, name: str) -> int:
    """As this node's broker has put it into effect."""
    broker = stage.node(name).broker
    assert broker is not None
    topic = broker.metadata.image.topics.by_name.get(WIDE)
    return 0 if topic is None else len(topic.partitions)


def held_too_long(turns: Turns) -> dict[str, int]:
    return {node: calls for node, calls in turns.most.items() if node.startswith("n") and calls > MOST_CALLS}


def wanted(partitions: int) -> CreateTopicsRequest:
    topic = CreatableTopic(name=WIDE, num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=60_000)


def create(stage: Stage, partitions: int) -> None:
    answer = stage.run(stage.client.ask_any(wanted(partitions), CreateTopicsResponse))
    assert [row.error_code for row in answer.topics] == [0]


def test_no_loop_is_held_by_a_topic_of_thousands_of_partitions() -> None:
    with Stage(3, voters=3, **NO_SNAPSHOTS) as stage:
        with counted_turns(stage.sim) as turns:
            create(stage, 1_000)
            stage.until(lambda: all(width(stage, name) == 1_000 for name in ("n1", "n2", "n3")), 120.0)
        assert held_too_long(turns) == {}
        assert {"n1", "n2", "n3"} <= turns.most.keys()


def test_no_loop_is_held_by_thousands_of_partitions_that_are_added_or_elected() -> None:
    with Stage(1, **NO_SNAPSHOTS) as stage:
        create(stage, 1)
        stage.until(lambda: width(stage, "n1") == 1)
        more = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=WIDE, count=1_200, assignments=None)], timeout_ms=60_000
        )
        everything = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=60_000)
        with counted_turns(stage.sim) as turns:
            added = stage.run(stage.client.ask_any(more, CreatePartitionsResponse))
            elected = stage.run(stage.client.ask_any(everything, ElectLeadersResponse))
            stage.until(lambda: width(stage, "n1") == 1_200, 120.0)
        assert [row.error_code for row in added.results] == [0]
        assert elected.error_code == 0
        assert held_too_long(turns) == {}


def test_of_two_wide_topics_of_one_name_one_is_made() -> None:
    """The second is decided once the first is: not amid it."""
    with Stage(1) as stage:
        asked = [stage.begin(stage.client.ask("n1", wanted(300), CreateTopicsResponse)) for _ in range(2)]
        stage.until(lambda: all(each.done for each in asked))
        codes = sorted(each.result.topics[0].error_code for each in asked if each.result is not None)
        assert codes == [Code.NONE, Code.TOPIC_ALREADY_EXISTS]
        stage.until(lambda: width(stage, "n1") == 300)


def test_a_wide_topic_is_there_with_all_its_partitions_or_not_at_all() -> None:
    """Its controller loses its quorum amid the decision: nobody has a part of it, and it can be made afterwards."""
    with Stage(3, voters=3) as stage:
        leader = controller(stage)
        deciding = stage.node(leader).controller
        assert deciding is not None
        making = stage.begin(stage.client.ask(leader, wanted(1_000), CreateTopicsResponse))
        stage.until(lambda: not deciding._docket.is_free)
        stage.kill(leader)
        others = [name for name in ("n1", "n2", "n3") if name != leader]
        stage.until(lambda: stage.cluster.active_controller() in others)
        assert not making.done or making.failed
        assert [width(stage, name) for name in others] == [0, 0]
        create(stage, 1_000)
        stage.until(lambda: all(width(stage, name) == 1_000 for name in others), 60.0)
