"""No request of a stranger makes a controller's own files useless to it."""

from __future__ import annotations

import errno
from pathlib import PurePath

import pytest

from highwater.active_controller.active_controller import NO_ROOM_SECONDS
from highwater.errors import Code
from highwater.log.names import META_PROPERTIES
from highwater.quorum.core import LONGEST_LEAP
from highwater.quorum.election_state import LAST_EPOCH
from highwater.sim import Event
from highwater.sim.cluster import CLUSTER_ID
from highwater.sim.storage import Operation
from highwater.wire.messages import vote_request as v
from highwater.wire.messages.vote_response import PartitionData, VoteResponse
from tests.scenarios.stage import ORDERS, Stage

STRANGER = 77
NAMES = ("n1", "n2", "n3")


def ask_for_vote(stage: Stage, name: str, candidate: int, epoch: int) -> PartitionData:
    """In version 0, which says neither whose vote is meant nor on which disk the candidate is."""
    partition = v.PartitionData(partition_index=0, replica_epoch=epoch, replica_id=candidate)
    request = v.VoteRequest(topics=[v.TopicData(topic_name="__cluster_metadata", partitions=[partition])])
    asked = stage.client.client.ask(stage.member(name).controller, request, VoteResponse, 20.0, highest=0)
    return stage.run(asked).topics[0].partitions[0]


@pytest.mark.parametrize("epoch", [2**31 - 1, 2**31 - 2, 2**30])
@pytest.mark.parametrize("of_a_voter", [False, True])
def test_a_vote_in_one_of_the_last_epochs_leaves_the_controller_as_it_is(epoch: int, of_a_voter: bool) -> None:
    with Stage(3, voters=3) as stage:
        for name, other in zip(NAMES, (2, 3, 1), strict=True):
            answer = ask_for_vote(stage, name, other if of_a_voter else STRANGER, epoch)
            assert answer.error_code == Code.INVALID_REQUEST
        stage.pass_time(5)
        for _ in range(2):
            stage.kill(*stage.cluster.names)
            stage.start(*stage.cluster.names)
        stage.create(ORDERS, replicas=(1, 2))
        stage.send(b"one")


def leap(stage: Stage, name: str, candidate: int, times: int) -> None:
    """As far as a voter believes, each time anew."""
    epoch = stage.node(name).raft.epoch
    for _ in range(times):
        epoch += (LAST_EPOCH - epoch) // LONGEST_LEAP
        ask_for_vote(stage, name, candidate, epoch)


@pytest.mark.parametrize(
    ("operation", "code"),
    [("open", errno.EMFILE), ("create", errno.EMFILE), ("create", errno.ENOSPC), ("append", errno.ENOSPC)],
)
def test_a_vote_that_cannot_be_written_yet_is_answered_once_it_is(operation: Operation, code: int) -> None:
    """Of three voters one is dead, so the vote of each of the others is needed."""
    with Stage(3, voters=3, watched=False) as stage:
        leader = next(name for name in NAMES if stage.node(name).controller.is_active)  # type: ignore[union-attr]
        left = [name for name in NAMES if name != leader]
        fault = stage.storage(left[0]).fail(operation, "*quorum-state*", code, times=None)
        stage.kill(leader)
        stage.until(lambda: fault.struck > 10)
        assert not any(stage.node(name).controller.is_active for name in left)  # type: ignore[union-attr]
        stage.storage(left[0]).mend()
        stage.until(lambda: any(stage.node(name).controller.is_active for name in left))  # type: ignore[union-attr]
        assert all(stage.cluster.is_up(name) for name in left)


METADATA_LOG = "/data/__cluster_metadata-0/*.log"


def active(stage: Stage) -> str | None:
    up = (name for name in stage.cluster.names if stage.cluster.is_up(name))
    return next((name for name in up if (own := stage.node(name).controller) is not None and own.is_active), None)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_voter_that_is_elected_and_has_no_room_for_its_epoch_lets_another_lead(code: int) -> None:
    """The first batch of an epoch is an append like others: a full disk is waited out, and ends no node."""
    with Stage(3, voters=3, watched=True) as stage:
        first = active(stage)
        assert first is not None
        left = [name for name in NAMES if name != first]
        faults = [stage.storage(name).fail("append", METADATA_LOG, code, times=None) for name in left]
        stage.kill(first)
        stage.until(lambda: all(fault.struck for fault in faults))
        assert all(stage.cluster.is_up(name) for name in left)
        assert not any(stage.said(name, "active controller of epoch") for name in left)
        for name in left:
            stage.storage(name).mend()
        stage.until(lambda: active(stage))
        stage.create(ORDERS, replicas=[int(name[1:]) for name in left])
        stage.send(b"one")


def test_the_only_voter_begins_its_epoch_once_there_is_room() -> None:
    with Stage(3, voters=1, watched=True) as stage:
        stage.create(ORDERS, replicas=(2, 3))
        stage.kill("n1")
        fault = stage.storage("n1").fail("append", METADATA_LOG, errno.ENOSPC, times=None)
        stage.start("n1", waits=False)
        stage.until(lambda: fault.struck >= 3)
        assert active(stage) is None
        stage.storage("n1").mend()
        stage.until(lambda: active(stage) == "n1")
        stage.send(b"one")


def test_the_first_controller_of_a_cluster_waits_for_room_for_its_first_records() -> None:
    with Stage(3, voters=1, starts=False, watched=True) as stage:
        fault = stage.storage("n1").fail("append", METADATA_LOG, errno.ENOSPC, nth=2, times=1)
        stage.start("n1", "n2", "n3")
        assert fault.struck
        stage.create(ORDERS, replicas=(2, 3))


def test_a_metadata_log_that_cannot_be_written_at_all_ends_its_node() -> None:
    with Stage(3, voters=1, expects_failures=True) as stage:
        stage.kill("n1")
        stage.storage("n1").fail("append", METADATA_LOG, errno.EIO, times=None)
        stage.start("n1", waits=False)
        stage.until(lambda: stage.member("n1").hosted.gave_up is not None or stage.cluster.failures)


def test_votes_of_a_stranger_leave_the_voters_in_the_epoch_they_are_in() -> None:
    with Stage(3, voters=3) as stage:
        before = [stage.node(name).raft.epoch for name in NAMES]
        leap(stage, "n1", STRANGER, 2)
        leap(stage, "n2", STRANGER, 4)
        assert [stage.node(name).raft.epoch for name in NAMES] == before


def test_voters_whose_epochs_lie_far_apart_find_together_again() -> None:
    """A peer that calls itself a voter can take each of them to an epoch that the others do not believe in."""
    with Stage(3, voters=3, expects_failures=True) as stage:
        leap(stage, "n1", 3, 2)
        leap(stage, "n2", 3, 4)
        far = max(stage.node(name).raft.epoch for name in NAMES)
        stage.until(lambda: len({stage.node(name).raft.epoch for name in NAMES}) == 1)
        assert stage.node("n1").raft.epoch >= far
        stage.create(ORDERS, replicas=(1, 2, 3))
        stage.send(b"one")


def give_to_another_cluster(stage: Stage, name: str) -> None:
    """The node is down. Its directory was formatted with the id of another cluster."""
    data = stage.storage(name).file(PurePath("/data") / META_PROPERTIES).data
    at = data.index(CLUSTER_ID.encode())
    data[at : at + len(CLUSTER_ID)] = CLUSTER_ID[::-1].encode()


@pytest.mark.parametrize("voters", [1, 3])
def test_a_node_of_another_cluster_ends_with_an_error_that_names_both_the_file_and_the_voters(voters: int) -> None:
    """It would wait for a leader for ever: its voters refuse it. The cluster goes on without it."""
    with Stage(3, voters=voters) as stage:
        stage.create(ORDERS, replicas=(2, 1))
        stage.stop("n3")
        give_to_another_cluster(stage, "n3")
        stage.start("n3", waits=False)
        stage.until(lambda: stage.cluster.failures)
        (failure,) = stage.cluster.failures
        assert "meta.properties" in failure and "voters [1" in failure
        stage.cluster.failures.clear()
        stage.send(b"one")


def test_a_new_broker_of_another_cluster_ends_as_well_though_it_knows_no_voter_yet() -> None:
    with Stage(2, voters=1) as stage:
        stage.kill("n2")
        stage.member("n2").hosted.begin_anew(CLUSTER_ID[::-1])
        stage.start("n2", waits=False)
        stage.until(lambda: stage.cluster.failures)
        (failure,) = stage.cluster.failures
        assert "meta.properties" in failure and "bootstrap.servers" in failure
        stage.cluster.failures.clear()


def test_a_vote_that_was_renamed_just_before_a_kill_is_durable_after_the_start() -> None:
    """The voter finds it in its cache and gives it to the one that it names, without writing it again. Without it on
    the disk, a power cut would let the voter vote for another in the same epoch."""
    state = PurePath("/data/__cluster_metadata-0/quorum-state")
    with Stage(3, voters=3, watched=False) as stage:
        leader = active(stage)
        assert leader is not None
        voter = next(name for name in NAMES if name != leader)
        renamed: list[bool] = []

        def is_to_be_synced(event: Event) -> bool:
            if event.kind == "rename" and event.subject.endswith(str(state)):
                renamed.append(True)
            return bool(renamed) and event.kind == "sync_dir" and event.subject == str(state.parent)

        stage.sim.crash_at(voter, is_to_be_synced, power_loss=False)
        stage.kill(leader)
        stage.until(lambda: not stage.cluster.is_up(voter))
        storage = stage.storage(voter)
        assert storage.durable_bytes(state) != bytes(storage.file(state).data)
        stage.start(voter, waits=False)
        stage.until(lambda: hasattr(getattr(stage.member(voter).node, "raft", None), "quorum"))
        assert storage.durable_bytes(state) == bytes(storage.file(state).data)


def test_a_controller_whose_disk_stays_full_gives_way_to_one_that_has_room() -> None:
    """It would lead the quorum on and decide nothing: brokers that die are fenced by nobody."""
    with Stage(4, voters=3, watched=True) as stage:
        full = active(stage)
        assert full is not None
        stage.create(ORDERS, replicas=(4, int(next(name for name in NAMES if name != full)[1])))
        stage.send(b"one")
        stage.storage(full).fail("append", METADATA_LOG, errno.ENOSPC, times=None)
        stage.kill("n4")
        stage.until(lambda: active(stage) not in (None, full))
        stage.until(lambda: stage.leader() not in (None, "n4"))
        stage.send(b"two")
        stage.storage(full).mend()
        stage.start("n4")
        stage.until(lambda: len(stage.image().isr) == 2)


def test_a_controller_that_had_room_in_between_does_not_give_way() -> None:
    """Only a disk that stays full counts, not two moments without room."""
    with Stage(3, voters=3, watched=True) as stage:
        name = active(stage)
        assert name is not None
        epoch = stage.node(name).raft.epoch
        for _ in range(2):
            fault = stage.storage(name).fail("append", METADATA_LOG, errno.ENOSPC, times=1)
            stage.until(lambda fault=fault: fault.struck == 1)  # type: ignore[misc]
            stage.pass_time(2 * NO_ROOM_SECONDS)
        assert (active(stage), stage.node(name).raft.epoch) == (name, epoch)


def test_the_only_controller_waits_until_its_disk_has_room() -> None:
    with Stage(3, voters=1, watched=True) as stage:
        fault = stage.storage("n1").fail("append", METADATA_LOG, errno.ENOSPC, times=None)
        epoch = stage.node("n1").raft.epoch
        stage.until(lambda: fault.struck > 10)
        assert (active(stage), stage.node("n1").raft.epoch) == ("n1", epoch)
        stage.storage("n1").mend()
        stage.create(ORDERS, replicas=(2, 3))
