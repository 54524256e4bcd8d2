"""Observers, and voter sets that change."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from highwater.errors import Code
from highwater.model import Endpoint, NodeId
from highwater.quorum import (
    ElectionState,
    FetchAnswer,
    Identity,
    IllegalTransition,
    Quorum,
    QuorumViolation,
    ReplicaKey,
    Role,
    Timing,
)
from highwater.quorum.leader import OBSERVER_SESSION_TIMEOUT, OBSERVERS_MAX, Leader, ReplicaProgress
from highwater.wire.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from highwater.wire.messages.describe_quorum_response import DescribeQuorumResponse
from tests.unit.quorum.bench import ONE, THREE, TWO, Bench, Loaded, begin, fetch, records, vote, vote_of
from tests.unit.quorum.memory_log import MemoryLog
from tests.unit.quorum.replicas import identity, voter_node, voter_set

METADATA = DescribeQuorumRequest(topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData()])])


def test_an_observer_looks_for_the_leader_and_is_never_a_candidate() -> None:
    bench = Bench(node=9)
    assert bench.role() == Role.UNATTACHED
    assert len(bench.receivers) == 1
    for _ in range(20):
        bench.pass_time(1.0)
        assert bench.role() == Role.UNATTACHED
    bench.request(begin(2, 4, voter=voter_node(9).key))
    bench.answer(2, records(2, 4))
    for _ in range(20):
        bench.pass_time(1.0)
        assert bench.role() == Role.FOLLOWER


def test_an_observer_cannot_be_made_a_candidate() -> None:
    with pytest.raises(IllegalTransition):
        Bench(node=9).quorum._core.become_prospective(100.0)


def test_a_replica_that_a_newer_voter_set_names_gives_its_vote_though_it_does_not_know_yet() -> None:
    bench = Bench(node=9)
    assert vote_of(bench.request(vote(TWO, 1, voter=voter_node(9).key)))


def test_bootstrap_servers_are_asked_where_no_voter_is_known() -> None:
    me: Identity = replace(identity(9), bootstrap=(Endpoint("localhost", 9009), Endpoint("seed", 1)))
    quorum = Quorum(me, voter_set(), MemoryLog(), Loaded(), None, 0.0, voters_offset=-1)
    [request] = quorum.start(0.0).requests
    assert request.peer == (-2, Endpoint("seed", 1))


def test_a_new_voter_counts_with_what_it_had_fetched_as_observer() -> None:
    bench = Bench().to_leader()
    bench.flush()
    four = voter_node(4).key
    bench.request(fetch(four, 1, 1, 1))
    assert bench.quorum.high_watermark is None
    ready = bench.quorum.voters_changed(voter_set(1, 4), 1, bench.now)
    assert ready.high_watermark == 1


def test_a_leader_outside_the_voters_does_not_count_itself_and_can_resign() -> None:
    bench = Bench().to_leader()
    bench.flush()
    bench.quorum.voters_changed(voter_set(2, 3), 1, bench.now)
    bench.request(fetch(THREE, 1, 1, 1))
    bench.flush()
    assert bench.quorum.high_watermark is None
    bench.request(fetch(TWO, 1, 1, 1))
    assert bench.quorum.high_watermark == 1
    bench.quorum.resign(1, bench.now)
    assert bench.role() == Role.RESIGNED


def test_a_smaller_majority_after_a_change_of_voters_takes_nothing_back() -> None:
    bench = Bench().to_leader()
    bench.flush()
    bench.request(fetch(TWO, 1, 1, 1))
    ready = bench.quorum.voters_changed(voter_set(1, 2, 3, 4, 5), 1, bench.now)
    assert ready.high_watermark is None
    assert bench.quorum.high_watermark == 1


def test_a_candidate_that_is_no_longer_a_voter_ends_its_candidacy() -> None:
    bench = Bench().to_candidate()
    bench.quorum.voters_changed(voter_set(2, 3), 1, bench.now)
    assert bench.role() == Role.UNATTACHED


def test_a_voter_that_lost_its_disk_is_an_observer() -> None:
    bench = Bench(voters=voter_set(2, 3).with_voter(voter_node(1, disk=9)))
    bench.pass_time(10)
    assert bench.role() == Role.UNATTACHED


# DescribeQuorum


def test_a_leader_describes_every_replica_with_dates() -> None:
    bench = Bench().to_leader()
    bench.flush()
    bench.request(fetch(TWO, 1, 1, 1))
    bench.pass_time(0.5)
    bench.request(fetch(voter_node(9).key, 1, 0))
    response = bench.quorum.describe(METADATA, 2, bench.now, 1_700_000_000_000)
    assert DescribeQuorumResponse.decode(response.encode(2), 2) == response
    partition = response.topics[0].partitions[0]
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 1, 1)
    seen = [
        (r.replica_id, r.log_end_offset, r.last_fetch_timestamp, r.last_caught_up_timestamp)
        for r in [*partition.current_voters, *partition.observers]
    ]
    now = 1_700_000_000_000
    assert seen == [(1, 1, now, now), (2, 1, now - 500, now - 500), (3, -1, -1, -1), (9, 0, now, -1)]
    assert [node.node_id for node in response.nodes] == [1, 2, 3]
    assert partition.current_voters[1].replica_directory_id == TWO.directory_id


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_the_description_can_be_written(version: int) -> None:
    for bench in (Bench(), Bench().to_leader()):
        written = bench.quorum.describe(METADATA, version, bench.now, 0).encode(version)
        assert DescribeQuorumResponse.decode(written, version).encode(version) == written


def test_only_the_leader_describes_and_only_its_own_log() -> None:
    bench = Bench()
    assert bench.quorum.describe(METADATA, 2, bench.now, 0).topics[0].partitions[0].error_code == 6
    other = DescribeQuorumRequest(topics=[TopicData(topic_name="other", partitions=[PartitionData(partition_index=4)])])
    partition = bench.quorum.describe(other, 2, bench.now, 0).topics[0].partitions[0]
    assert (partition.partition_index, partition.error_code) == (4, 3)


def test_observers_that_went_away_are_forgotten_after_five_minutes() -> None:
    bench = Bench(voters=voter_set(1))
    bench.request(fetch(voter_node(9).key, 1, 0))
    leader = bench.quorum._core.role
    assert isinstance(leader, Leader)
    bench.quorum.describe(METADATA, 2, bench.now + OBSERVER_SESSION_TIMEOUT - 1, 0)
    assert len(leader.observers) == 1
    bench.quorum.describe(METADATA, 2, bench.now + OBSERVER_SESSION_TIMEOUT, 0)
    assert leader.observers == {}


def test_invented_observers_do_not_fill_the_memory() -> None:
    leader = Leader(voter_node(1), 1, 0, voter_set(1), Timing(), 0.0)
    for node in range(2, OBSERVERS_MAX + 100):
        leader.fetched(ReplicaKey(NodeId(node)), 0, 0.0)
    assert len(leader.observers) == OBSERVERS_MAX
    assert ReplicaKey(NodeId(2)) not in leader.observers


def test_a_replica_caught_up_at_its_last_fetch_if_it_has_what_the_leader_had_then() -> None:
    bench = Bench(stored=ElectionState(1), log=MemoryLog.of_epochs(1, 1)).to_leader()
    bench.flush()
    leader = bench.quorum._core.role
    assert isinstance(leader, Leader)
    leader.fetched(TWO, 1, 10.0)
    leader.flushed(4, 10.0)
    leader.fetched(TWO, 3, 11.0)
    assert leader.voters[NodeId(2)].last_caught_up == 10.0
    assert ONE in [voter.key for voter in leader.voters.values()]


def test_a_new_leader_describes_its_own_log_as_far_as_it_is_durable() -> None:
    bench = Bench(stored=ElectionState(1), log=MemoryLog.of_epochs(1, 1)).to_leader()
    partition = bench.quorum.describe(METADATA, 2, bench.now, 0).topics[0].partitions[0]
    own, *_ = partition.current_voters
    assert (own.replica_id, own.log_end_offset) == (1, 2)
    assert partition.high_watermark == -1, "it is not known yet"


def test_dates_are_written_to_the_millisecond() -> None:
    bench = Bench().to_leader()
    bench.request(fetch(TWO, 1, 0))
    response = bench.quorum.describe(METADATA, 2, bench.now + 7.25, 1_700_000_000_000)
    _, two, _ = response.topics[0].partitions[0].current_voters
    assert two.last_fetch_timestamp == 1_700_000_000_000 - 7_250


@pytest.mark.parametrize(
    ("leader_end", "offset", "caught_up"), [(1, 1, 10.0), (1, 0, None), (2, 1, None), (2, 2, 10.0)]
)
def test_a_replica_with_all_that_the_leader_had_at_its_last_fetch_was_caught_up_then(
    leader_end: int, offset: int, caught_up: float | None
) -> None:
    progress = ReplicaProgress(TWO)
    progress.fetched(0, leader_end, 10.0)
    progress.fetched(offset, 9, 11.0)
    assert (progress.last_caught_up, progress.last_fetch, progress.end_offset) == (caught_up, 11.0, offset)


def test_a_voter_set_is_as_long_as_it_has_voters() -> None:
    assert [len(voter_set(*ids)) for ids in ((), (1,), (1, 2, 3))] == [0, 1, 3]


@pytest.mark.parametrize("own", [(), (Endpoint("localhost", 9009),)])
def test_a_node_that_knows_addresses_alone_ends_once_all_of_them_are_of_another_cluster(
    own: tuple[Endpoint, ...],
) -> None:
    seeds = (Endpoint("seed", 1), Endpoint("seed", 2))
    quorum = Quorum(
        replace(identity(9), bootstrap=(*own, *seeds)), voter_set(), MemoryLog(), Random(1), None, 0.0, voters_offset=-1
    )
    asked, now = list(quorum.start(0.0).requests), 0.0
    foreign = FetchAnswer(Code.INCONSISTENT_CLUSTER_ID, None, 0)
    asked_peers: list[int] = []
    with pytest.raises(QuorumViolation, match="controller.quorum.bootstrap.servers"):
        for _ in range(30):
            while asked:
                request = asked.pop()
                asked_peers.append(request.peer.id)
                asked += quorum.answered(request.correlation, foreign, now).requests
            now = quorum.next_deadline() or now
            asked += quorum.tick(now).requests
    assert len(set(asked_peers)) == 2
