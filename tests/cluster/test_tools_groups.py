"""groups prints what Apache's kafka-consumer-groups prints, on both servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.cli.group_reset import duration, milliseconds
from highwater.client import Admin, Client, NewTopic, Producer
from highwater.client.groups import Groups
from highwater.model import TopicPartition
from tests.apache import Ran
from tests.cluster.group_member import LONG_SESSION_MS, Member
from tests.cluster.nodes import wait_until
from tests.cluster.tools import Call, Server, apache, call, difference, masked, ours

TOPIC, OTHER = "groups-read", "groups-other"
TIMES = (1_700_000_000_000, 1_700_000_100_000)
"""Of the first five records of a partition and of the last five."""

READING = {
    "list": "--list",
    "list with states": "--list --state",
    "list with types and states": "--list --type --state",
    "list of some states": "--list --state Stable",
    "list of some types": "--list --type consumer",
    "offsets": "--describe --group g-offsets",
    "offsets of several": "--describe --group g-offsets --group g-some --offsets",
    "offsets with epochs": "--describe --group g-offsets --verbose",
    "offsets of a live group": "--describe --group g-live",
    "members": "--describe --group g-live --members",
    "members with assignments": "--describe --group g-live --members --verbose",
    "no members": "--describe --group g-offsets --members",
    "state": "--describe --group g-live --state",
    "state with epochs": "--describe --group g-live --state --verbose",
    "state of an empty group": "--describe --group g-offsets --state",
    "to earliest": "--reset-offsets --group g-offsets --topic groups-read --to-earliest --dry-run",
    "to latest": "--reset-offsets --group g-offsets --topic groups-read:0,2 --to-latest --dry-run",
    "to current": "--reset-offsets --group g-some --topic groups-read --to-current --dry-run",
    "to an offset": "--reset-offsets --group g-some --topic groups-read --to-offset 3 --dry-run",
    "to an offset beyond": "--reset-offsets --group g-some --topic groups-read --to-offset 300 --dry-run",
    "by a shift": "--reset-offsets --group g-offsets --topic groups-read --shift-by -3 --dry-run",
    "by a shift of all": "--reset-offsets --group g-offsets --all-topics --shift-by 2 --dry-run",
    "to a time": f"--reset-offsets --group g-some --topic {TOPIC} --to-datetime 2023-11-14T22:14:00.000 --dry-run",
    "to a zoned time": f"--reset-offsets --group g-some --topic {TOPIC} --to-datetime 2023-11-14T23:14:00.000+01:00",
    "to a time after all": f"--reset-offsets --group g-some --topic {TOPIC} --to-datetime 2033-01-01T00:00:00.000",
    "by a duration": "--reset-offsets --group g-some --topic groups-read --by-duration P1DT2H --dry-run",
    "from a file": "--reset-offsets --group g-some --from-file PLAN --dry-run",
    "from a file for several": "--reset-offsets --group g-some --group g-offsets --from-file PLANS --dry-run",
    "as CSV of several": (
        "--reset-offsets --group g-some --group g-offsets --topic groups-read:1 --to-latest --dry-run --export"
    ),
    "as CSV": "--reset-offsets --group g-some --topic groups-read:1 --to-latest --dry-run --export",
    "of a group that is not there": "--reset-offsets --group g-new --topic groups-read:1 --to-latest --dry-run",
    "of a live group": "--reset-offsets --group g-live --topic groups-read --to-latest --dry-run",
}
REFUSED = {
    "describe missing": "--describe --group g-missing",
    "reset missing partition": "--reset-offsets --group g-some --topic groups-read:9 --to-latest --dry-run",
    "delete a live one": "--delete --group g-live",
    "delete missing": "--delete --group g-missing",
    "delete offsets of a live one": "--delete-offsets --group g-live --topic groups-read:1",
    "delete offsets of a missing one": "--delete-offsets --group g-missing --topic groups-read:1",
}
CHANGING = (
    "--reset-offsets --group NAME --topic groups-read --to-offset 4 --execute",
    "--describe --group NAME",
    *(
        f"--reset-offsets --group NAME --topic groups-read {how} --execute"
        for how in (
            "--to-latest",
            "--shift-by -2",
            "--to-current",
            "--to-datetime 2023-11-14T22:14:00.000",
            "--by-duration P1D",
            "--to-earliest",
        )
    ),
    "--describe --group NAME",
    "--reset-offsets --group NAME --from-file PLAN --execute",
    "--reset-offsets --group NAME --all-topics --shift-by 1 --execute --export",
    "--describe --group NAME",
    "--delete-offsets --group NAME --topic groups-read:1",
    "--describe --group NAME",
    "--delete --group NAME",
)

pytestmark = [pytest.mark.apache, pytest.mark.slow]


@pytest.fixture(scope="module")
def plan(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Groups with offsets, one with a member, and the path of a file with a plan for one of them."""
    with Client(server.bootstrap) as client:
        topics = [NewTopic(name, partitions=3, configs={"retention.ms": "-1"}) for name in (TOPIC, OTHER)]
        Admin(client).create_topics(topics)
        wait_until(lambda: {TOPIC, OTHER} <= set(Admin(client).list_topics()))
        producer = Producer(client)
        for index in range(3):
            rows = [(TIMES[number // 5], None, b"v", ()) for number in range(10)]
            producer.send(TopicPartition(TOPIC, index), rows)
        groups = Groups(client)
        groups.commit("g-offsets", {TopicPartition(name, index): 5 for name in (TOPIC, OTHER) for index in range(3)
                                    if name == TOPIC or index == 0})  # fmt: skip
        groups.commit("g-some", {TopicPartition(TOPIC, 1): 7})
    path = tmp_path_factory.mktemp("plan") / "plan.csv"
    Path(path).write_text(f"{TOPIC},0,2\n{TOPIC},1,200\n")
    path.with_name("plans.csv").write_text(f"g-some,{TOPIC},0,2\ng-offsets,{TOPIC},1,3\n")
    with Member("confluent", server.bootstrap, "g-live", TOPIC, session_ms=LONG_SESSION_MS) as member:
        wait_until(lambda: len(member.processed) == 30, 120)
        yield str(path)


def parsed(server: Server, line: str, **words: str) -> Call:
    return call("groups", "--bootstrap-server", server.bootstrap, *(words.get(word, word) for word in line.split()))


def files(plan: str) -> dict[str, str]:
    return {"PLAN": plan, "PLANS": str(Path(plan).with_name("plans.csv"))}


@pytest.fixture(scope="module")
def by_apache(server: Server, plan: str) -> dict[str, Ran]:
    lines = [*READING.values(), *REFUSED.values()]
    return dict(zip(lines, apache([parsed(server, line, **files(plan)) for line in lines]), strict=True))


def ordered(text: str) -> list[str]:
    """Apache keeps rows in maps whose order says nothing."""
    return sorted(masked(text))


@pytest.mark.parametrize("line", READING.values(), ids=READING.keys())
def test_reading_prints_the_same_lines(server: Server, plan: str, by_apache: dict[str, Ran], line: str) -> None:
    expected, found = by_apache[line], ours(parsed(server, line, **files(plan)))
    assert ordered(found.stdout) == ordered(expected.stdout), difference(masked(expected.stdout), masked(found.stdout))
    assert found.rc == expected.rc == 0


@pytest.mark.parametrize("line", REFUSED.values(), ids=REFUSED.keys())
def test_a_command_that_cannot_be_done_is_reported_in_the_same_words_and_fails(
    server: Server, plan: str, by_apache: dict[str, Ran], line: str
) -> None:
    expected, found = by_apache[line], ours(parsed(server, line))
    assert ordered(found.stdout) == ordered(expected.stdout), difference(masked(expected.stdout), masked(found.stdout))
    assert (found.rc, expected.rc) == (1, 0)


def test_changes_are_reported_in_the_same_words(server: Server, plan: str) -> None:
    expected = apache([parsed(server, line, NAME="g-theirs", **files(plan)) for line in CHANGING])
    found = [ours(parsed(server, line, NAME="g-others", **files(plan))) for line in CHANGING]
    for line, one, other in zip(CHANGING, expected, found, strict=True):
        assert [text.replace("g-others", "g-theirs") for text in ordered(other.stdout)] == ordered(one.stdout), line
        assert other.rc == one.rc == 0, (line, other.stderr)


def test_times_are_read_as_utc_unless_they_name_a_zone() -> None:
    assert milliseconds("1970-01-01T00:00:01.5") == 1500
    assert milliseconds("1970-01-01T01:00:00.000+01:00") == milliseconds("1970-01-01T00:00:00Z") == 0
    assert milliseconds("1970-01-01T00:00:00-01") == 3_600_000
    with pytest.raises(ValueError, match="is no time"):
        milliseconds("yesterday")


def test_durations_are_those_of_iso_8601() -> None:
    assert duration("P1DT2H3M4.5S").total_seconds() == 86400 + 7200 + 180 + 4.5
    assert duration("-PT6H").total_seconds() == -21600
    for text in ("P", "PT", "1D", "P1Y"):
        with pytest.raises(ValueError, match="cannot be parsed"):
            duration(text)
