from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.model import NodeId, Uuid
from highwater.quorum import CorruptElectionState, ElectionState, ReplicaKey

IDS = st.integers(0, 2**31 - 1)
STATES = st.builds(
    ElectionState,
    IDS,
    st.none() | IDS.map(NodeId),
    st.none() | st.builds(ReplicaKey, IDS.map(NodeId), st.binary(min_size=16, max_size=16).map(Uuid)),
)


def test_the_text_is_kafkas_own() -> None:
    voted = ReplicaKey(NodeId(2), Uuid(bytes(range(16))))
    assert ElectionState(7, None, voted).to_json() == (
        '{"leaderId":-1,"leaderEpoch":7,"votedId":2,"votedDirectoryId":"AAECAwQFBgcICQoLDA0ODw","data_version":1}'
    )
    assert ElectionState(8, NodeId(3)).to_json() == (
        '{"leaderId":3,"leaderEpoch":8,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )


@given(STATES)
def test_an_election_state_that_is_written_is_read_again(state: ElectionState) -> None:
    assert ElectionState.from_json(state.to_json()) == state


def test_version_0_is_read_without_a_directory_id() -> None:
    text = (
        '{"clusterId":"","leaderId":1,"leaderEpoch":4,"votedId":2,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    assert ElectionState.from_json(text) == ElectionState(4, NodeId(1), ReplicaKey(NodeId(2)))


GOOD = json.loads(ElectionState(7, NodeId(1), ReplicaKey(NodeId(2))).to_json())


@pytest.mark.parametrize(
    "fields",
    [
        {**GOOD, "data_version": 2},
        {**GOOD, "data_version": True},
        {**GOOD, "leaderEpoch": "7"},
        {**GOOD, "leaderEpoch": 2**31},
        {**GOOD, "leaderId": -2},
        {**GOOD, "votedId": None},
        {**GOOD, "votedDirectoryId": "short"},
        {**GOOD, "votedDirectoryId": 5},
        {name: value for name, value in GOOD.items() if name != "leaderEpoch"},
        {name: value for name, value in GOOD.items() if name != "data_version"},
    ],
)
def test_a_field_that_kafka_would_not_write_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(CorruptElectionState):
        ElectionState.from_json(json.dumps(fields))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"leaderId":1'])
def test_text_that_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(CorruptElectionState):
        ElectionState.from_json(text)


@given(STATES, st.data())
def test_a_torn_file_is_never_taken_for_another_vote(state: ElectionState, data: st.DataObject) -> None:
    text = state.to_json()
    with pytest.raises(CorruptElectionState):
        ElectionState.from_json(text[: data.draw(st.integers(0, len(text) - 1))])
