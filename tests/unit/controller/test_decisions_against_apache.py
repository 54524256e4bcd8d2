"""Whole decisions of the controller, side by side with Apache Kafka's own on the same random states."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from highwater.controller.alter_partition import ANY_EPOCH, alter_partition, proposed
from highwater.controller.brokers import fence_broker, forget_incarnation, unfence_broker
from highwater.controller.directories import assign_replicas_to_dirs
from highwater.controller.leaders import elect_leaders, elect_unclean, rebalance
from highwater.controller.partition_moves import alter_partition_reassignments, list_partition_reassignments
from highwater.errors import Code
from highwater.metadata import records
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.pieces import whole
from highwater.metadata.topics import Recovery
from highwater.model import NodeId
from highwater.wire.codec import Message
from highwater.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from highwater.wire.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from highwater.wire.messages.alter_partition_response import AlterPartitionResponse
from highwater.wire.messages.alter_partition_response import PartitionData as Answer
from highwater.wire.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest, DirectoryData
from highwater.wire.messages.assign_replicas_to_dirs_request import PartitionData as Assigned
from highwater.wire.messages.assign_replicas_to_dirs_request import TopicData as AssignedTopic
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from highwater.wire.messages.elect_leaders_response import ElectLeadersResponse
from highwater.wire.messages.feature_level_record import FeatureLevelRecord
from highwater.wire.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.topic_record import TopicRecord
from tests.apache import classpath_file, java
from tests.unit.controller.clusters import (
    EMPTY,
    METADATA_VERSION,
    directory,
    epoch,
    node_config,
    registered,
    then,
    topic_id,
)

PROGRAM = Path(__file__).with_name("Decisions.java")
BROKERS = range(1, 6)
CONFIG = node_config()


@pytest.fixture(scope="module")
def classes(apache: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program is one of the package whose parts it drives, so it cannot be run from its source."""
    target = tmp_path_factory.mktemp("classes")
    classpath = classpath_file().read_text().strip()
    subprocess.run(["javac", "-J-Xmx256m", "-d", target, "-cp", classpath, PROGRAM], check=True, timeout=240)
    return target


def ask(classes: Path, questions: list[str]) -> list[str]:
    *options, classpath = java("-Xmx256m")
    command = [*options, f"{classes}:{classpath}", "org.apache.kafka.controller.Decisions"]
    done = subprocess.run(
        command, input="".join(f"{q}\n" for q in questions), capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def hexed(made: Sequence[Message]) -> list[str]:
    return [records.encode(record).hex() for record in made]


class State:
    """A cluster that may have come to be: brokers in all states, partitions led by any of their ISR or by nobody."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.elr = random.random() < 0.6
        self.made: list[Message] = [METADATA_VERSION]
        if self.elr:
            self.made.append(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
        for broker in BROKERS:
            self._register(broker)
        for name in ("a", "b"):
            self._create(name)
        self.image: MetadataImage = then(EMPTY, self.made)

    def chance(self, likely: float) -> bool:
        return self.random.random() < likely

    def _register(self, broker: int) -> None:
        if self.chance(0.1):
            return
        record = registered(broker, fenced=self.chance(0.3), shutting_down=self.chance(0.1))
        if self.chance(0.1):
            record.log_dirs = [directory(broker, 1)]
        self.made.append(record)

    def _create(self, name: str) -> None:
        self.made.append(TopicRecord(name=name, topic_id=topic_id(name)))
        factor, bound = self.random.randint(1, 4), self.random.randint(1, 3)
        settings = [("min.insync.replicas", str(bound))] if bound > 1 else []
        if self.chance(0.4):
            settings.append(("unclean.leader.election.enable", "true"))
        for key, value in settings:
            self.made.append(ConfigRecord(resource_type=2, resource_name=name, name=key, value=value))
        for index in range(3):
            self.made.append(self._partition(name, index, factor, min(factor, bound)))

    def _partition(self, name: str, index: int, factor: int, bound: int) -> PartitionRecord:
        replicas = self.random.sample(BROKERS, factor)
        isr = [replica for replica in replicas if self.chance(0.6)]
        if not isr and not self.elr:
            isr = replicas[:1]
        below = self.elr and len(isr) < bound
        elr = sorted(replica for replica in replicas if below and replica not in isr and self.chance(0.4))
        if bound == 1:  # Kafka has no more: it forgets the ELR with the bound that it was of
            elr = elr[:1]
        leader = self.random.choice([*isr, *isr, -1])
        # With ELR the end of a reassignment is another: see docs/divergence.md.
        moving = not self.elr and factor > 2 and self.chance(0.4)
        adding, removing = (replicas[1:2], replicas[-1:]) if moving else ([], [])
        if moving and self.chance(0.3):
            adding = []
        return PartitionRecord(
            topic_id=topic_id(name),
            partition_id=index,
            replicas=replicas,
            isr=isr,
            adding_replicas=adding,
            removing_replicas=removing,
            leader=leader,
            leader_epoch=5,
            partition_epoch=7,
            leader_recovery_state=int(len(isr) == 1 and self.chance(0.2)),
            directories=[directory(replica) for replica in replicas],
            eligible_leader_replicas=elr or None,
            last_known_elr=self.random.sample(replicas, 1) if self.elr and leader < 0 and self.chance(0.5) else None,
        )

    def question(self, *words: object) -> str:
        return " ".join([",".join(hexed(self.made)), *map(str, words)])


def proposals(state: State) -> AlterPartitionRequest:
    """Of a broker that leads something, mostly of what it leads and mostly in good order."""
    random = state.random
    places = list(state.image.topics.each_partition())
    leader = random.choice([partition.leader for _, _, partition in places if partition.has_leader] or [NodeId(1)])
    topics = []
    for name in random.sample(["a", "b", "c"], random.randint(1, 3)):
        asked = [
            proposal(state, index, partition.replicas, leader)
            for topic, index, partition in places
            if topic.name == name and state.chance(0.9 if partition.leader == leader else 0.1)
        ]
        if state.chance(0.1):
            asked.append(proposal(state, 3, (leader,), leader))
        topics.append(TopicData(topic_id=topic_id(name), partitions=asked))
    return AlterPartitionRequest(broker_id=leader, broker_epoch=random.choice([epoch(leader)] * 9 + [1]), topics=topics)


def proposal(state: State, index: int, replicas: Sequence[NodeId], leader: NodeId) -> PartitionData:
    random = state.random
    eligible = [r for r in replicas if state.image.brokers.is_active(r) or state.chance(0.1)]
    isr = [r for r in eligible if state.chance(0.9 if r == leader else 0.5)]
    if state.chance(0.05):
        isr.append(NodeId(random.choice(BROKERS)))
    random.shuffle(isr)
    return PartitionData(
        partition_index=index,
        leader_epoch=random.choice([5] * 18 + [4, 6]),
        partition_epoch=random.choice([7] * 18 + [6, 8]),
        leader_recovery_state=int(state.chance(0.1)),
        new_isr_with_epochs=[
            BrokerState(broker_id=b, broker_epoch=random.choice([epoch(b)] * 18 + [-1, 3])) for b in isr
        ],
    )


def in_version_2(request: AlterPartitionRequest) -> AlterPartitionRequest:
    for topic in request.topics:
        for asked in topic.partitions:
            asked.new_isr = [member.broker_id for member in asked.new_isr_with_epochs]
            asked.new_isr_with_epochs = []
    return request


def test_proposals_of_leaders_are_checked_and_decided_as_kafka_does(classes: Path) -> None:
    random = Random(3)
    questions, expected = [], []
    codes: set[int] = set()
    for _ in range(1600):
        state = State(random)
        request, version = proposals(state), 3
        if state.chance(0.3):
            request, version = in_version_2(request), 2
        if is_stricter_here(state.image, request, version):
            continue
        questions.append(state.question("alter", version, request.encode(version).hex()))
        decision = alter_partition(state.image, request, version, CONFIG)
        codes.add(decision.response.error_code)
        codes |= {answer.error_code for topic in decision.response.topics for answer in topic.partitions}
        if decision.response.error_code:
            expected.append(f"error {decision.response.error_code}")
        else:
            as_if_never_repeated(request, decision.response)
            written = decision.response.encode(version).hex()
            expected.append(f"{written} {','.join(hexed(without_refusals(decision.records))) or '-'}")
    compare(questions, ask(classes, questions), expected)
    assert codes >= {0, 3, 41, 42, 74, 77, 95, 100, 107, 108}
    assert sum(not line.endswith("-") for line in expected) > 250


def is_stricter_here(image: MetadataImage, request: AlterPartitionRequest, version: int) -> bool:
    """Whether somebody is to join whose incarnation is not named, or whose directory is not online: Kafka takes both
    in, see docs/divergence.md."""
    for topic in request.topics:
        known = image.topics.by_id.get(topic.topic_id)
        for asked in topic.partitions:
            partition = None if known is None else known.partitions.get(asked.partition_index)
            for member in proposed(asked, version):
                if partition is None or member.broker in partition.isr or member.broker not in partition.replicas:
                    continue
                broker = image.brokers.get(member.broker)
                online = broker is not None and broker.has_online(partition.directory(member.broker))
                if member.epoch == ANY_EPOCH or not online:
                    return True
    return False


def as_if_never_repeated(request: AlterPartitionRequest, response: AlterPartitionResponse) -> None:
    """Kafka has no kind word for a leader that repeats what was done already: see docs/divergence.md."""
    for asked_topic, topic in zip(request.topics, response.topics, strict=True):
        for at, asked in enumerate(asked_topic.partitions):
            if asked.partition_epoch == 6 and topic.partitions[at].error_code == Code.NONE:
                topic.partitions[at] = Answer(
                    partition_index=asked.partition_index, error_code=Code.INVALID_UPDATE_VERSION
                )


def without_refusals(made: Sequence[Message]) -> list[Message]:
    """A refusal raises the partition epoch here, and changes nothing else: see docs/divergence.md."""
    return [
        record
        for record in made
        if not isinstance(record, PartitionChangeRecord)
        or record != PartitionChangeRecord(topic_id=record.topic_id, partition_id=record.partition_id)
    ]


def compare(questions: list[str], theirs: list[str], ours: list[str]) -> None:
    different = [case for case in zip(questions, theirs, ours, strict=True) if case[1] != case[2]]
    assert not different, f"{len(different)} of {len(questions)}, such as {different[0]}"


def sorted_records(made: Sequence[Message]) -> str:
    """Kafka walks hash sets of partitions."""
    return ",".join(sorted(hexed(made))) or "-"


def results_of(response: ElectLeadersResponse) -> list[tuple[str, list[tuple[int, int]]]]:
    return sorted(
        (topic.topic, sorted((result.partition_id, result.error_code) for result in topic.partition_result))
        for topic in response.replica_election_results
    )


def test_elections_that_are_asked_for_are_held_as_kafka_does(classes: Path) -> None:
    random = Random(5)
    questions, expected, responses = [], [], []
    for _ in range(300):
        state = State(random)
        named = [TopicPartitions(topic=name, partitions=[0, 1, 2, 3]) for name in ("a", "b", "c")]
        request = ElectLeadersRequest(
            election_type=random.randint(0, 1), topic_partitions=None if state.chance(0.4) else named
        )
        questions.append(state.question("elect", request.encode(2).hex()))
        decision = whole(elect_leaders(state.image, request, CONFIG))
        expected.append(sorted_records(decision.records))
        responses.append(results_of(decision.response))
    theirs = [line.split(" ") for line in ask(classes, questions)]
    assert [results_of(ElectLeadersResponse.decode(bytes.fromhex(response), 2)) for response, _ in theirs] == responses
    compare(questions, [",".join(sorted(made.split(","))) for _, made in theirs], expected)


def happenings(state: State) -> Iterator[tuple[str, Sequence[Message]]]:
    image = state.image
    yield state.question("rebalance"), rebalance(image, CONFIG)
    yield state.question("unclean"), elect_unclean(image, CONFIG)
    for registration in image.brokers.by_id.values():
        broker, its_epoch = registration.id, registration.epoch
        for clean in (True, False):
            made = forget_incarnation(image, CONFIG, broker, clean=clean)
            yield state.question("return", broker, str(clean).lower()), made
        if registration.fenced:
            yield state.question("unfence", broker, its_epoch), unfence_broker(image, CONFIG, broker, its_epoch)
        else:
            yield state.question("fence", broker), fence_broker(image, CONFIG, broker, its_epoch)


def test_events_of_brokers_have_the_same_consequences_as_in_kafka(classes: Path) -> None:
    random = Random(11)
    cases = [case for _ in range(80) for case in happenings(State(random))]
    questions = [question for question, _ in cases]
    theirs = [",".join(sorted(line.split(" ")[1].split(","))) for line in ask(classes, questions)]
    compare(questions, theirs, [sorted_records(made) for _, made in cases])


def assignments(state: State) -> AssignReplicasToDirsRequest:
    """Of a broker that has another disk, or pretends to; each partition is named once."""
    random = state.random
    broker = random.choice(BROKERS)
    topics = [
        AssignedTopic(topic_id=topic_id(name), partitions=[Assigned(partition_index=index) for index in indexes])
        for name, indexes in (("a", random.sample(range(4), 2)), ("b", [0, 1, 2]), ("c", [0]))
    ]
    return AssignReplicasToDirsRequest(
        broker_id=broker,
        broker_epoch=random.choice([epoch(broker)] * 9 + [1]),
        directories=[DirectoryData(id=directory(broker, random.randint(0, 1)), topics=topics)],
    )


def test_replicas_are_put_where_their_brokers_say_as_kafka_does(classes: Path) -> None:
    random = Random(13)
    questions, expected = [], []
    codes: set[int] = set()
    for _ in range(300):
        state = State(random)
        request = assignments(state)
        decision = assign_replicas_to_dirs(state.image, request, CONFIG)
        if ends_a_move_uncleanly(decision.records):
            continue
        questions.append(state.question("assign", request.encode(0).hex()))
        if decision.response.error_code:
            codes.add(decision.response.error_code)
            expected.append(f"error {decision.response.error_code}")
        else:
            codes |= {row.error_code for topic in decision.response.directories[0].topics for row in topic.partitions}
            expected.append(f"{decision.response.encode(0).hex()} {sorted_records(decision.records)}")
    theirs = [line.split(" ") for line in ask(classes, questions)]
    compare(questions, [f"{word} {','.join(sorted(made.split(',')))}" for word, made in theirs], expected)
    assert codes == {0, 3, 6, 77, 100}


def ends_a_move_uncleanly(made: Sequence[Message]) -> bool:
    """In Kafka an unclean election does not end a reassignment; the next change does: see docs/divergence.md."""
    changes = [record for record in made if isinstance(record, PartitionChangeRecord)]
    return any(
        change.leader_recovery_state == Recovery.RECOVERING and [] in (change.adding_replicas, change.removing_replicas)
        for change in changes
    )


def reassignments(state: State) -> AlterPartitionReassignmentsRequest:
    """Targets and cancellations, mostly in good order. A partition that is moving already is only cancelled: a further
    target is handled in another way here, see docs/divergence.md."""
    random = state.random
    topics = []
    for name in ("a", "b", "c"):
        rows = []
        for index in random.sample(range(4), random.randint(0, 4)):
            found = state.image.topics.partition(name, index)
            is_moving = found is not None and bool(found.adding or found.removing)
            target = random.sample(BROKERS, random.randint(1, 4))
            if found is not None and state.chance(0.3):
                target = random.sample(found.replicas, random.randint(1, len(found.replicas)))
            if state.chance(0.05):
                target = random.choice([[], [1, 1], [9]])
            rows.append(
                ReassignablePartition(
                    partition_index=index, replicas=None if is_moving or state.chance(0.1) else target
                )
            )
        topics.append(ReassignableTopic(name=name, partitions=rows))
    return AlterPartitionReassignmentsRequest(topics=topics, allow_replication_factor_change=state.chance(0.8))


def test_reassignments_are_decided_as_kafka_does(classes: Path) -> None:
    random = Random(17)
    questions, expected = [], []
    codes: set[int] = set()
    for _ in range(600):
        state = State(random)
        request = reassignments(state)
        decision = whole(alter_partition_reassignments(state.image, request, CONFIG))
        if removes_an_eligible_replica(state.image, decision.records):
            continue
        questions.append(state.question("reassign", request.encode(1).hex()))
        codes |= {row.error_code for topic in decision.response.responses for row in topic.partitions}
        expected.append(f"{decision.response.encode(1).hex()} {','.join(hexed(decision.records)) or '-'}")
    compare(questions, ask(classes, questions), expected)
    assert codes == {0, 3, 38, 39, 85}
    assert len(questions) > 300


def removes_an_eligible_replica(image: MetadataImage, made: Sequence[Message]) -> bool:
    """With ELR, Kafka keeps such a replica in its lists, and remembers a leader -1 if there was none: see
    docs/divergence.md."""
    for record in made if image.features.elr_enabled else ():
        assert isinstance(record, PartitionChangeRecord)
        before = image.topics.by_id[record.topic_id].partitions[record.partition_id]
        after = before.changed_by(record)
        removed = set(before.replicas) - set(after.replicas)
        if removed and (removed & {*before.elr, *before.last_known_elr, *before.isr} or not before.has_leader):
            return True
    return False


def test_reassignments_are_listed_as_kafka_does(classes: Path) -> None:
    random = Random(19)
    questions, expected = [], []
    for _ in range(100):
        state = State(random)
        named = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[2, 0, 3]) for name in ("b", "c", "a")]
        request = ListPartitionReassignmentsRequest(topics=named)
        questions.append(state.question("moves", request.encode(0).hex()))
        expected.append(f"{whole(list_partition_reassignments(state.image, request)).response.encode(0).hex()} -")
    compare(questions, ask(classes, questions), expected)
    assert len(set(expected)) > 10
