"""What the examinations make of what they are told: clocks, the quorum, disks, and the answer to the whole."""

from __future__ import annotations

import pytest

from highwater.cli.doctor.clocks import NodeClock, clock_of, clock_of_leader, examine_clocks
from highwater.cli.doctor.disk_space import Space, judged
from highwater.cli.doctor.finding import ADDRESSES, QUORUM, Finding, State, is_well, lines, listed
from highwater.cli.doctor.metadata_quorum import examine_cut_off, examine_quorum
from highwater.cli.doctor.status_pages import StatusPage
from highwater.model import Endpoint, NodeId
from highwater.wire.messages.describe_quorum_response import PartitionData, ReplicaState

AT = Endpoint("kafka-1", 9644)
NOW = 50_000_000
GIB = 1 << 30


def page(time_ms: object, asked: float = NOW, answered: float = NOW + 20) -> StatusPage:
    return StatusPage(NodeId(1), AT, {"time_ms": time_ms, "version": "1.2"}, asked, answered)


def states(findings: list[Finding]) -> list[State]:
    return [each.state for each in findings]


@pytest.mark.parametrize(
    ("cut_off", "told"),
    [((), None), ((2,), "broker 2 does not reach"), ((1, 3), "brokers 1, 3 do not"), ((1, 2, 3), None)],
)
def test_brokers_that_reach_no_controller_are_named_while_others_do(cut_off: tuple[int, ...], told: str | None) -> None:
    """If none does, it is the quorum that is wrong."""
    found = list(examine_cut_off([NodeId(each) for each in cut_off], 3))
    assert states(found) == ([] if told is None else [State.WRONG])
    assert all(each.what.startswith(str(told)) for each in found)


def test_a_clock_is_compared_with_the_middle_of_the_question() -> None:
    assert clock_of(page(NOW + 10)) == NodeClock(NodeId(1), 0, 10, "1.2")
    assert clock_of(page(NOW + 2010)) == NodeClock(NodeId(1), 2000, 10, "1.2")


@pytest.mark.parametrize("shown", [None, "now"])
def test_a_page_that_does_not_tell_the_time_is_no_clock(shown: object) -> None:
    assert clock_of(page(shown)) is None
    assert clock_of(StatusPage(NodeId(1), AT, None, NOW, NOW)) is None


@pytest.mark.parametrize(
    ("ahead", "uncertain", "state"),
    [
        (1000, 0, State.WELL),
        (1001, 0, State.WRONG),
        (-1001, 0, State.WRONG),
        (1500, 600, State.WELL),  # the answer took so long that the clock may be right
        (-4000, 600, State.WRONG),
    ],
)
def test_a_clock_is_off_by_more_than_can_be_the_way_s(ahead: float, uncertain: float, state: State) -> None:
    [found] = examine_clocks([NodeClock(NodeId(1), ahead, uncertain)], [], [])
    assert found.state is state
    assert ("ahead of" if ahead > 0 else "behind") in found.what


def test_clocks_that_nobody_tells_are_not_judged() -> None:
    found = list(examine_clocks([NodeClock(NodeId(2), 0, 1)], [page(0)], [NodeId(2), NodeId(3)]))
    assert states(found) == [State.WELL, State.UNKNOWN, State.UNKNOWN]
    assert "1 (kafka-1:9644)" in found[1].what
    assert "broker 3: they serve no status page" in found[2].what


def quorum(*voters: tuple[int, int], leader: int = 1) -> PartitionData:
    return PartitionData(
        leader_id=leader,
        leader_epoch=5,
        current_voters=[ReplicaState(replica_id=node, last_fetch_timestamp=at) for node, at in voters],
    )


def test_the_leader_of_the_quorum_tells_its_time_by_its_own_progress() -> None:
    found = clock_of_leader(quorum((2, NOW - 9), (1, NOW + 105)), NOW, NOW + 10)
    assert found == NodeClock(NodeId(1), 100, 5)
    assert clock_of_leader(quorum((1, -1)), NOW, NOW) is None


def test_a_voter_that_does_not_fetch_is_told_and_so_is_what_one_more_would_do() -> None:
    found = list(examine_quorum(quorum((1, NOW), (2, NOW - 5001), (3, NOW - 400))))
    assert states(found) == [State.WELL, State.WRONG, State.WRONG]
    assert found[0].what == "node 1 leads in epoch 5; voters: 1, 2, 3"
    assert found[1].what == "voter 2 has not fetched for 5 s"
    assert found[2].what.startswith("of 3 voters 2 follow, and 2 are needed: the next loss stops")


@pytest.mark.parametrize("voters", [[(1, NOW)], [(1, NOW), (2, NOW - 5000)], [(1, -1), (2, -1)]])
def test_voters_that_fetch_or_of_whom_nothing_is_known_are_well(voters: list[tuple[int, int]]) -> None:
    assert states(list(examine_quorum(quorum(*voters)))) == [State.WELL]


def test_a_leader_that_is_no_voter_is_told() -> None:
    [found] = examine_quorum(quorum((1, NOW), leader=4))
    assert found.state is State.WRONG


@pytest.mark.parametrize(
    ("space", "state"),
    [
        (Space(100 * GIB, 5 * GIB), State.WELL),
        (Space(100 * GIB, 5 * GIB - 1), State.WRONG),
        (Space(1000 * GIB, 10 * GIB), State.WELL),  # of a large disk, five percent is much
        (Space(1000 * GIB, 10 * GIB - 1), State.WRONG),
        (Space(100 * GIB, 90 * GIB, files_left=False), State.WRONG),
    ],
)
def test_a_disk_is_nearly_full_by_its_share_and_by_its_bytes(space: Space, state: State) -> None:
    assert judged("data", space).state is state


def test_the_answer_to_the_whole_is_the_last_line() -> None:
    well, wrong = ADDRESSES.well("one answers"), QUORUM.wrong("nobody leads", "Start them.")
    unknown = ADDRESSES.unknown("two")
    assert list(lines([well, wrong, unknown])) == [
        "addresses",
        "  well     one answers",
        "  unknown  two",
        "quorum",
        "  WRONG    nobody leads",
        "           Start them.",
        "1 thing is wrong; 1 could not be found out",
    ]
    assert list(lines([well]))[-1] == "all is well"
    assert list(lines([wrong, wrong]))[-1] == "2 things are wrong"
    assert is_well([well, unknown]) and not is_well([well, wrong])


def test_many_names_are_counted() -> None:
    assert listed(range(8)) == "0, 1, 2, 3, 4, 5, 6, 7"
    assert listed(range(11)) == "0, 1, 2, 3, 4, 5, 6, 7 and 3 more"
