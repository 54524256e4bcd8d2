from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.model import ZERO_UUID, NodeId, Uuid
from highwater.quorum import ReplicaKey, VoterListener, VoterNode, VoterSet
from highwater.quorum.votes import Tally
from highwater.wire.messages.voters_record import VotersRecord
from tests.unit.quorum.replicas import voter_node, voter_set

NODES = st.lists(
    st.builds(
        VoterNode,
        st.builds(ReplicaKey, st.integers(0, 2**31 - 1).map(NodeId), st.binary(min_size=16, max_size=16).map(Uuid)),
        st.lists(
            st.builds(VoterListener, st.text(max_size=8), st.text(max_size=8), st.integers(0, 65535)),
            max_size=3,
            unique_by=lambda listener: listener.name,
        ).map(tuple),
        st.tuples(st.integers(0, 3), st.integers(0, 3)),
    ),
    max_size=6,
    unique_by=lambda node: node.key.id,
)


@given(NODES)
def test_a_voter_set_survives_its_record_and_the_wire(nodes: list[VoterNode]) -> None:
    voters = VoterSet.of(nodes)
    record = VotersRecord.decode(voters.to_record().encode(0), 0)
    assert VoterSet.from_record(record) == voters


def test_the_order_in_which_voters_are_given_does_not_matter() -> None:
    assert VoterSet.of([voter_node(3), voter_node(1)]) == VoterSet.of([voter_node(1), voter_node(3)])


def test_two_voters_with_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="share an id"):
        VoterSet.of([voter_node(1, disk=1), voter_node(1, disk=2)])


def test_a_voter_on_another_disk_is_another_replica() -> None:
    voters = voter_set(1, 2, 3)
    assert voters.is_voter(voter_node(1).key)
    assert not voters.is_voter(voter_node(1, disk=9).key)


def test_a_voter_whose_disk_is_not_known_is_known_by_its_id() -> None:
    voters = VoterSet.of([VoterNode(ReplicaKey(NodeId(1), ZERO_UUID))])
    assert voters.is_only_voter(voter_node(1, disk=9).key)


@pytest.mark.parametrize(("size", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4)])
def test_a_majority_is_more_than_half(size: int, majority: int) -> None:
    assert voter_set(*range(1, size + 1)).majority == majority


def test_a_voter_that_moved_needs_an_update_and_a_stranger_does_not() -> None:
    voters = voter_set(1, 2, 3)
    moved = VoterNode(voter_node(2).key, (VoterListener("CONTROLLER", "elsewhere", 1),))
    assert voters.needs_update(moved)
    assert not voters.needs_update(voter_node(2))
    assert not voters.needs_update(voter_node(4))
    assert not voters.needs_update(voter_node(2, disk=9))
    assert voters.with_voter(moved).node(NodeId(2)) == moved


@given(st.integers(1, 7), st.data())
def test_an_election_is_won_lost_or_open_and_never_two_of_these(size: int, data: st.DataObject) -> None:
    tally = Tally(voter_set(*range(1, size + 1)), NodeId(1))
    for voter in range(2, size + 1):
        vote = data.draw(st.sampled_from([True, False, None]))
        if vote is not None:
            tally.record(NodeId(voter), vote)
    yes, no = len(tally.granting), size - len(tally.granting) - len(tally.unrecorded)
    assert tally.is_granted == (yes > size / 2)
    assert tally.is_rejected == (no >= size / 2)
    assert not (tally.is_granted and tally.is_rejected)


def test_a_stranger_has_no_vote() -> None:
    tally = Tally(voter_set(1, 2, 3), NodeId(1))
    tally.record(NodeId(9), True)
    assert not tally.is_granted
    assert [key.id for key in tally.unrecorded] == [2, 3]
