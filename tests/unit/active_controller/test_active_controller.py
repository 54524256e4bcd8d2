from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

from highwater.active_controller.active_controller import ActiveController
from highwater.controller.batches import MAX_BYTES
from highwater.controller.decision import Deciding, Decision
from highwater.controller.leaders import MAX_ELECTIONS
from highwater.model import NodeId
from highwater.raft_node.metadata_loader import load_metadata
from highwater.wire.codec import Message
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.topic_record import TopicRecord
from highwater.world.jobs import finished
from tests.unit.broker.living import METADATA, NODE, Living
from tests.unit.controller.clusters import directory, epoch, registered, topic_id

PARTITIONS = 2 * MAX_ELECTIONS + 50
DYING, OTHER = NodeId(2), NodeId(3)


def controller_of(living: Living) -> ActiveController:
    assert living.node.controller is not None
    return living.node.controller


def decide(living: Living, records: Sequence[Message]) -> None:
    answers: list[bool | None] = []
    living.world.call(controller_of(living).decide, lambda: Decision(True, records), answers.append)
    living.sim.run(living.sim.until(lambda: bool(answers)))
    assert answers == [True]


def with_partitions(living: Living, replicas: Sequence[NodeId], leader: NodeId) -> None:
    """On brokers 2 and 3, of which only the controller knows."""
    partitions = [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id("many"),
            replicas=list(replicas),
            isr=list(replicas),
            leader=leader,
            directories=[directory(replica) for replica in replicas],
        )
        for index in range(PARTITIONS)
    ]
    topic = TopicRecord(name="many", topic_id=topic_id("many"))
    decide(living, [registered(DYING), registered(OTHER), topic, *partitions])


def led_by(living: Living, leader: NodeId) -> int:
    partitions = living.node.raft.committed.topics.by_name["many"].partitions
    return sum(partition.leader == leader for partition in partitions.values())


def sizes_of_elections(living: Living) -> list[int]:
    """How many partitions each batch of the metadata log gives another leader."""
    loaded = living.sim.run(living.world.perform(finished(living.world, load_metadata, METADATA)))
    counts = [sum(isinstance(each, PartitionChangeRecord) for each in batch.records) for batch in loaded.batches]
    return [count for count in counts if count]


def test_a_broker_is_fenced_in_slices_and_itself_last() -> None:
    with Living().start() as living:
        with_partitions(living, [DYING, OTHER], leader=DYING)
        now = living.world.clock.monotonic()
        controller_of(living).watch.liveness.heard(DYING, epoch(DYING), now, 0)
        living.sim.run(living.sim.until(lambda: living.node.raft.committed.brokers.by_id[DYING].fenced, limit=60))

        assert led_by(living, OTHER) == PARTITIONS
        assert sizes_of_elections(living) == [MAX_ELECTIONS, MAX_ELECTIONS, 50]


def test_a_rebalance_that_leaves_something_to_do_goes_on_at_once() -> None:
    with Living(leader_imbalance_check_interval_seconds="5").start() as living:
        with_partitions(living, [OTHER, DYING], leader=DYING)
        living.sim.run(living.sim.until(lambda: led_by(living, OTHER) > 0, limit=20))
        living.sim.run(living.sim.until(lambda: led_by(living, OTHER) == PARTITIONS, limit=1))

        assert sizes_of_elections(living) == [MAX_ELECTIONS, MAX_ELECTIONS, 50]


def test_a_rebalance_waits_while_the_preferred_leader_is_being_fenced() -> None:
    """A fencing takes several turns, and the broker counts as active until the last of them. What a rebalance gives it
    back in between would be taken from it again, without end."""
    with Living(leader_imbalance_check_interval_seconds="10").start() as living:
        with_partitions(living, [OTHER, DYING], leader=DYING)
        living.sim.advance(12.0)
        brokers = living.node.raft.committed.brokers
        assert brokers.by_id[OTHER].fenced and brokers.by_id[DYING].fenced
        assert led_by(living, OTHER) == led_by(living, DYING) == 0


def test_a_decision_is_written_in_batches_of_the_size_that_the_quorum_takes() -> None:
    with Living().start() as living:
        records = [
            ConfigRecord(resource_type=4, resource_name="1", name=f"some.{number}", value="x" * 30_000)
            for number in range(600)
        ]
        decide(living, records)
        loaded = living.sim.run(living.world.perform(finished(living.world, load_metadata, METADATA)))
        assert max(batch.size for batch in loaded.batches) <= MAX_BYTES
        written = [each for batch in loaded.batches for each in batch.records if isinstance(each, ConfigRecord)]
        assert [record.name for record in written[-600:]] == [record.name for record in records]


def test_changes_of_topics_are_decided_in_their_order_behind_what_brokers_ask_for() -> None:
    """A deletion that takes one piece does not overtake a creation that waits for its turn."""
    with Living().start() as living:
        controller, decided = controller_of(living), list[str]()

        def by_pieces(name: str) -> Deciding[bool]:
            yield
            decided.append(name)
            return Decision(True)

        def at_once(name: str) -> Decision[bool]:
            decided.append(name)
            return Decision(True)

        def ask_all() -> None:
            controller.deliberate(lambda: by_pieces("wide topic"), lambda _: None)
            controller.deliberate(lambda: by_pieces("creation"), lambda _: None)
            controller.decide(lambda: at_once("deletion"), lambda _: None, takes_long=True)
            controller.decide(lambda: at_once("heartbeat"), lambda _: None)

        living.world.call(ask_all)
        living.sim.run(living.sim.until(lambda: len(decided) == 4))
        assert decided == ["wide topic", "heartbeat", "creation", "deletion"]


def test_an_election_that_waits_for_a_fencing_is_given_up_with_the_controller() -> None:
    """The fencing was given up as well, and never ends here: nobody may look for its end for ever."""
    with Living().start() as living:
        controller, world = controller_of(living), living.node.world
        controller.watch._fencings.add((DYING, 1))
        looked: list[float] = []
        elect_some = controller._clockwork._elect_some

        def counted(*election: Any) -> None:
            looked.append(living.sim.now)
            elect_some(*election)

        controller._clockwork._elect_some = counted  # type: ignore[method-assign]
        world.call(counted, lambda head, config: [], "a test asks for it")
        living.sim.advance(1.0)
        assert len(looked) > 5, "it waits"
        world.call(controller._resign)
        living.sim.advance(1.0)
        before = len(looked)
        living.sim.advance(5.0)
        assert len(looked) == before


def test_a_fencing_of_an_earlier_term_keeps_no_broker_out_of_an_isr_for_ever() -> None:
    """It was given up when the controller resigned, so nothing else would end it."""
    with Living().start() as living:
        controller = controller_of(living)
        controller.watch._fencings.add((DYING, 1))
        before = controller.epoch
        assert before is not None and controller.watch.leaving == {DYING}
        living.world.call(living.node.raft.resign, before)
        living.sim.run(living.sim.until(lambda: controller.is_active and controller.epoch != before))
        assert not controller.watch.is_fencing and not controller.watch.leaving


def test_a_decision_that_was_written_in_part_leaves_elections_to_be_made() -> None:
    """Its second batch finds no room: partitions of the first one may have no leader."""
    with Living().start() as living:
        controller, owed = controller_of(living), list[tuple[bool | None, bool]]()
        records = [
            ConfigRecord(resource_type=4, resource_name="1", name=f"some.{number}", value="x" * 30_000)
            for number in range(600)
        ]
        controller.owes_elections = False
        living.sim.storage(NODE).fail("append", f"{METADATA}/*.log", errno.ENOSPC, nth=2)
        living.world.call(
            controller.decide,
            lambda: Decision(True, records),
            lambda answer: owed.append((answer, controller.owes_elections)),
        )
        living.sim.run(living.sim.until(lambda: bool(owed)))
        assert owed == [(None, True)]
