"""Each invariant holds in an ordinary state, and has a crafted one that it does not let pass."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from highwater.metadata.brokers import BrokerRegistration, BrokersImage
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import ConfigsImage, topic_resource
from highwater.metadata.partitions import PartitionImage
from highwater.metadata.topics import TopicImage, TopicsImage
from highwater.model import NO_NODE, NodeId, TopicPartition, Uuid
from highwater.sim import invariants
from highwater.sim.invariants import Invariant, Violation, all_invariants
from highwater.sim.view import BatchView, ClusterView, NodeView, QuorumView, ReplicaView, ReportedEnd

TP = TopicPartition("t", 0)
TOPIC = Uuid(b"t" * 16)
NODES = (NodeId(1), NodeId(2), NodeId(3))


def broker(number: int, epoch: int = 7, fenced: bool = False) -> BrokerRegistration:
    return BrokerRegistration(
        NodeId(number),
        epoch,
        Uuid(bytes(16)),
        (),
        {},
        None,
        fenced,
        in_controlled_shutdown=False,
        directories=(),
        cordoned=None,
    )


def part(
    isr: Sequence[int] = (1, 2, 3),
    leader: int = 1,
    leader_epoch: int = 5,
    partition_epoch: int = 9,
    elr: Sequence[int] = (),
) -> PartitionImage:
    members, eligible = tuple(map(NodeId, isr)), tuple(map(NodeId, elr))
    directories = (Uuid(bytes(16)),) * 3
    return PartitionImage(NODES, directories, members, NodeId(leader), leader_epoch, partition_epoch, elr=eligible)


def image(
    partition: PartitionImage | None = None, offset: int = 100, brokers: Sequence[BrokerRegistration] = ()
) -> MetadataImage:
    topic = TopicImage("t", TOPIC, {0: partition or part()})
    by_id = {each.id: each for each in brokers or [broker(number) for number in NODES]}
    topics = TopicsImage({TOPIC: topic}, {"t": topic})
    configs = ConfigsImage({topic_resource("t"): {"min.insync.replicas": "2"}})
    return MetadataImage("c", offset, 3, brokers=BrokersImage(by_id), topics=topics, configs=configs)


BATCHES = (BatchView(0, 3, 4, 111), BatchView(4, 9, 5, 222))
FOLLOWER = ReplicaView(
    epoch=5, partition_epoch=9, log_end=12, durable_end=12, high_watermark=10, flushed=True, fetchers=1, batches=BATCHES
)
LEADER = FOLLOWER._replace(leads=True, isr=(1, 2, 3), maximal_isr=(1, 2, 3), fetchers=0)
QUORUM = QuorumView(epoch=3, vote=1, log_end=100, high_watermark=100, batches=BATCHES)
QUORUM_LEADER = QUORUM._replace(leads=True, active_epoch=3)


def node(number: int, seen: MetadataImage) -> NodeView:
    if number == 1:
        return NodeView(number, 1, QUORUM_LEADER, 7, seen, {TP: LEADER})
    return NodeView(number, 1, QUORUM, 7, seen, {TP: FOLLOWER})


def healthy(seen: MetadataImage | None = None) -> ClusterView:
    truth = seen or image()
    nodes = tuple(node(number, truth) for number in NODES)
    return ClusterView(nodes, truth, acked={TP: 10}, reported_ends={TP: ReportedEnd(5, 10)})


def with_node(number: int, **changes: object) -> ClusterView:
    view = healthy()
    nodes = [replace(each, **changes) if each.id == number else each for each in view.nodes]  # type: ignore[arg-type]
    return replace(view, nodes=tuple(nodes))


def with_quorum(number: int, **changes: object) -> ClusterView:
    before = QUORUM_LEADER if number == 1 else QUORUM
    return with_node(number, quorum=before._replace(**changes))  # type: ignore[arg-type]


def with_replica(number: int, **changes: object) -> ClusterView:
    before = LEADER if number == 1 else FOLLOWER
    return with_node(number, replicas={TP: before._replace(**changes)})  # type: ignore[arg-type]


OTHER_BYTES, OTHER_EPOCH, GAP = BatchView(4, 9, 5, 333), BatchView(4, 9, 4, 222), BatchView(6, 9, 5, 444)
CRAFTED: list[tuple[Callable[[], Invariant], ClusterView]] = [
    (invariants.OneQuorumLeader, with_quorum(2, leads=True)),
    (invariants.OneQuorumLeader, with_node(1, life=2)),
    (invariants.QuorumEpochRises, with_quorum(3, epoch=2)),
    (invariants.OneVote, with_quorum(3, vote=2)),
    (invariants.OneActiveController, with_quorum(2, active_epoch=3)),
    (invariants.CommittedMetadataStays, with_quorum(2, high_watermark=99)),
    (invariants.MetadataLogMatching, with_quorum(2, batches=(BATCHES[0], OTHER_BYTES))),
    (invariants.MetadataLogMatching, with_quorum(2, batches=(BATCHES[0], OTHER_EPOCH))),
    (invariants.MetadataLogMatching, with_quorum(2, batches=(BATCHES[0], GAP))),
    (invariants.SameImage, with_node(2, image=image(part(isr=(1, 2))))),
    (invariants.OnePartitionLeader, with_replica(2, leads=True)),
    (invariants.PartitionEpochsRise, healthy(image(part(leader_epoch=4), 101))),
    (invariants.PartitionEpochsRise, healthy(image(part(partition_epoch=8), 101))),
    (invariants.PartitionEpochsRise, healthy(image(part(isr=(1, 2)), 101))),
    (invariants.PartitionEpochsRise, healthy(image(part(leader=2, partition_epoch=10), 101))),
    (invariants.ReplicaEpochRises, with_replica(2, epoch=4)),
    (invariants.LeaderInIsr, healthy(image(part(isr=(2, 3))))),
    (invariants.LeaderInIsr, healthy(image(part(isr=(), leader=NO_NODE)))),
    (invariants.FencedNotInIsr, healthy(image(brokers=[broker(1), broker(2), broker(3, fenced=True)]))),
    (invariants.FencedNotInIsr, healthy(image(part(isr=(1,)), brokers=[broker(1, fenced=True), broker(2), broker(3)]))),
    (invariants.EligibleReplicas, healthy(image(part(isr=(1,), elr=(1, 2))))),
    (invariants.EligibleReplicas, healthy(image(part(isr=(1, 2), elr=(3,))))),
    (invariants.EligibleReplicas, healthy(image(part(isr=(1,), elr=(4,))))),
    (invariants.EligibleReplicas, healthy(image(part(isr=(1, 1), partition_epoch=10)))),
    (invariants.OffsetsInOrder, with_replica(2, log_end=9)),
    (invariants.OffsetsInOrder, with_replica(2, log_start=11)),
    (invariants.OffsetsInOrder, with_replica(2, durable_end=13)),
    (invariants.HighWatermarkRises, with_replica(2, high_watermark=9)),
    (invariants.IsrHoldsCommitted, with_replica(3, log_end=9, high_watermark=9)),
    (invariants.FlushedIsrHoldsCommitted, with_replica(3, durable_end=9)),
    (invariants.LeaderComplete, with_replica(1, log_end=9, high_watermark=9)),
    (invariants.MaximalIsr, with_replica(1, maximal_isr=(1, 2))),
    (invariants.LogMatching, with_replica(3, batches=(BATCHES[0], OTHER_BYTES))),
    (invariants.LogMatching, with_replica(3, batches=(BATCHES[0], OTHER_EPOCH))),
    (invariants.LogMatching, with_replica(3, batches=(BATCHES[0], GAP))),
    (invariants.OneFetcher, with_replica(2, fetchers=2)),
    (invariants.OneFetcher, with_replica(1, fetchers=1)),
    (invariants.BrokerEpochsRise, healthy(image(offset=101, brokers=[broker(1), broker(2), broker(3, epoch=6)]))),
    (invariants.AckedIsCommitted, replace(healthy(), acked={TP: 11})),
    (invariants.ReadersNeverGoBack, replace(healthy(), reported_ends={TP: ReportedEnd(6, 9)})),
]


def test_a_healthy_cluster_breaks_nothing() -> None:
    for invariant in all_invariants():
        invariant.check(healthy())
        invariant.check(healthy())


@pytest.mark.parametrize(("make", "view"), CRAFTED, ids=lambda each: getattr(each, "__name__", ""))
def test_an_invariant_does_not_let_its_violation_pass(make: Callable[[], Invariant], view: ClusterView) -> None:
    invariant = make()
    invariant.check(healthy())
    with pytest.raises(Violation):
        invariant.check(view)


def test_every_invariant_has_a_crafted_violation() -> None:
    apart = {"CalmIsr", "TroubleHasACause"}
    assert {type(each).__name__ for each in all_invariants()} == {make.__name__ for make, _ in CRAFTED} | apart


def test_an_isr_may_change_often_and_not_hundreds_of_times_in_a_second() -> None:
    images = [image(part(isr=isr), offset) for offset, isr in enumerate([(1, 2, 3), (1, 2)] * 20)]
    calm = invariants.CalmIsr()
    for seen in images:
        calm.check(replace(healthy(seen), now=seen.offset / 20))
    flapping = invariants.CalmIsr()
    with pytest.raises(Violation, match="30 changes of its ISR"):
        for seen in images:
            flapping.check(replace(healthy(seen), now=seen.offset / 200))


def test_a_log_is_in_trouble_only_where_its_disk_is() -> None:
    invariant, damaged = invariants.TroubleHasACause(), OSError(errno.EIO, "damaged")
    invariant.trouble(healthy().nodes[0], TP, damaged, is_harmed=True)
    with pytest.raises(Violation, match="nothing is wrong with its disk"):
        invariant.trouble(healthy().nodes[0], TP, damaged, is_harmed=False)


def test_a_broker_that_has_not_registered_its_life_yet_is_not_counted_on() -> None:
    lost = FOLLOWER._replace(log_end=9, high_watermark=9, durable_end=9)
    view = with_node(3, broker_epoch=-1, replicas={TP: lost})
    for make in (invariants.IsrHoldsCommitted, invariants.FlushedIsrHoldsCommitted):
        invariant: Invariant = make()
        invariant.check(healthy())
        invariant.check(view)


def test_an_old_leader_may_answer_an_old_end() -> None:
    invariant = invariants.ReadersNeverGoBack()
    invariant.check(healthy())
    invariant.check(replace(healthy(), reported_ends={TP: ReportedEnd(4, 9)}))


EXCUSED = {"HighWatermarkRises", "IsrHoldsCommitted", "FlushedIsrHoldsCommitted", "LeaderComplete", "LogMatching"}
EXCUSED |= {"AckedIsCommitted", "ReadersNeverGoBack"}


@pytest.mark.parametrize(("make", "view"), CRAFTED, ids=lambda each: getattr(each, "__name__", ""))
def test_an_unclean_election_excuses_the_loss_of_data_and_nothing_else(
    make: Callable[[], Invariant], view: ClusterView
) -> None:
    invariant = make()
    invariant.check(healthy())
    lossy = replace(view, lossy=frozenset({TP}))
    if make.__name__ in EXCUSED:
        invariant.check(lossy)
    else:
        with pytest.raises(Violation):
            invariant.check(lossy)
