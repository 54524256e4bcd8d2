from __future__ import annotations

from highwater.model import NodeId, Uuid
from highwater.quorum import NEVER_LOGGED, ReplicaKey, VoterNode, VoterSet
from highwater.raft_node.voter_history import VoterHistory


def voters(*nodes: int) -> VoterSet:
    return VoterSet.of(VoterNode(ReplicaKey(NodeId(node), Uuid(bytes([node]) * 16)), ()) for node in nodes)


def test_there_are_no_voters_before_anything_is_known() -> None:
    assert (VoterHistory().latest, VoterHistory().offset) == (VoterSet(), NEVER_LOGGED)


def test_the_last_voter_set_is_in_force() -> None:
    history = VoterHistory()
    history.add([(3, voters(1)), (7, voters(1, 2))])
    assert (history.latest, history.offset) == (voters(1, 2), 7)


def test_a_truncation_takes_back_the_sets_that_it_cuts_off() -> None:
    history = VoterHistory()
    history.begin_with(3, voters(1))
    history.add([(7, voters(1, 2)), (9, voters(1, 2, 3))])
    assert not history.cut(10)
    assert history.offset == 9
    assert history.cut(7)
    assert (history.latest, history.offset) == (voters(1), 3)


def test_a_snapshot_takes_the_place_of_all_sets_before_it() -> None:
    history = VoterHistory()
    history.add([(7, voters(1, 2))])
    history.begin_with(20, voters(4))
    assert history.cut(20)
    assert history.latest == VoterSet()


def test_a_snapshot_gets_the_voters_in_force_at_its_offset() -> None:
    history = VoterHistory()
    history.add([(-1, voters(1)), (7, voters(1, 2))])
    assert (history.at(-1), history.at(6), history.at(7), history.at(8)) == (
        voters(1),
        voters(1),
        voters(1, 2),
        voters(1, 2),
    )
    assert VoterHistory().at(8) is None
