"""Apache's admin tools work against a cluster of three, whole and broken, and ours print the same of it."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from highwater.cli import main
from highwater.client import Admin, NewTopic, Producer
from highwater.model import TopicPartition
from tests.apache import Ran
from tests.cluster.stage import Stage, staged, wait_until
from tests.cluster.tools import Call, apache, call, difference, masked, ours, reason

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("apache")]

BY_HAND = {
    "auto.leader.rebalance.enable": "false",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "broker.session.timeout.ms": "60000",  # so that nobody is fenced but who is killed
}
TOPICS = (
    NewTopic("spread", -1, -1, [[1, 2, 3]] * 4, {"min.insync.replicas": "2"}),
    NewTopic("tight", -1, -1, [[2, 1, 3]], {"min.insync.replicas": "3"}),
    NewTopic("lonely", -1, -1, [[1]]),
    NewTopic("loose-a", -1, -1, [[1, 2]]),
    NewTopic("loose-b", -1, -1, [[1, 2]]),
)
READING = {
    "describe": "topics --describe",
    "describe under-replicated": "topics --describe --under-replicated-partitions",
    "describe unavailable": "topics --describe --unavailable-partitions",
    "describe under min isr": "topics --describe --under-min-isr-partitions",
    "describe at min isr": "topics --describe --at-min-isr-partitions",
    "quorum status": "quorum describe --status",
    "quorum replication": "quorum describe --replication",
    "quorum replication for people": "quorum describe --replication --human-readable",
    "preferred, single": "leader-election --election-type preferred --topic spread --partition 0",
    "preferred, all": "leader-election --election-type preferred --all-topic-partitions",
    "preferred, of no topic": "leader-election --election-type preferred --topic nowhere --partition 0",
    "unclean, single": "leader-election --election-type unclean --topic lonely --partition 0",
    "unclean, all": "leader-election --election-type unclean --all-topic-partitions",
    "settings of all brokers": "configs --describe --broker-defaults",
    "all settings of a broker": "configs --describe --all --broker 2",
    "settings of a topic": "configs --describe --topic spread",
    "versions of all brokers": "broker-api-versions",
    "features": "features describe",
}
CHANGING = (
    # A line does not show what the line before it changed: brokers learn of a change after it is answered.
    "topics --create --topic NAME --replica-assignment 1:2:3,2:3:1 --config min.insync.replicas=2",
    "configs --alter --broker 2 --add-config max.connections=12345",
    "configs --alter --broker 2 --add-config min.insync.replicas=2",
    "topics --describe --topic NAME",
    "topics --alter --topic NAME --partitions 3 --replica-assignment 1:2:3,2:3:1,3:1:2",
    "configs --describe --broker 2",
    "configs --alter --topic NAME --add-config retention.ms=5000,cleanup.policy=[compact,delete]",
    "configs --alter --broker-defaults --add-config log.retention.ms=99999",
    "configs --describe --topic NAME",
    "configs --alter --entity-type topics --entity-name NAME --delete-config retention.ms",
    "configs --describe --broker-defaults",
    "topics --describe --topic NAME",
    "configs --alter --broker 2 --delete-config max.connections",
    "topics --delete --topic NAME",
    "configs --alter --broker-defaults --delete-config log.retention.ms",
    "topics --list",
)
REFUSED = "configs --alter --broker 2 --add-config min.insync.replicas=2"
Scene = dict[str, tuple[Ran, Ran]]


@pytest.fixture(scope="module")
def stage(apache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """With controllers apart: the quorum outlives the brokers."""
    with staged(tmp_path_factory.mktemp("tools") / "data", 3, controllers=3, settings=BY_HAND) as stage:
        with stage.client() as client:
            Admin(client).create_topics(TOPICS)
        wait_until(lambda: all(stage.is_whole(topic.name, len(topic.assignment)) for topic in TOPICS), "all is whole")
        wait_until(stage.all_know, "every broker knows of it")
        yield stage


def parsed(stage: Stage, line: str, name: str = "") -> Call:
    live = ",".join(stage.address(node) for node in stage.brokers if node not in stage.down)
    tool, *args = line.replace("NAME", name).split()
    return call(tool, "--bootstrap-server", live, *args)


def by_both(stage: Stage, lines: list[str], name: str = "") -> Scene:
    """One JVM for Apache's tools, then ours."""
    calls = [parsed(stage, line, name) for line in lines]
    return dict(zip(lines, zip(apache(calls), map(ours, calls), strict=True), strict=True))


@pytest.fixture(scope="module")
def whole(stage: Stage) -> Scene:
    return by_both(stage, list(READING.values()))


@pytest.fixture(scope="module")
def one_down(stage: Stage, whole: Scene) -> Scene:
    """Broker 1 is dead: it led all but one partition."""
    stage.kill(1)
    wait_until(lambda: stage.unfenced() == {2, 3} and len(stage.led("spread")) == 4, "it is fenced")
    wait_until(stage.all_know, "every broker knows of it")
    return by_both(stage, list(READING.values()))


def comparable(line: str, text: str) -> list[str]:
    """What changes from one call to the next is masked; where Apache's order is that of a hash map, it is ours."""
    if line == "broker-api-versions":
        return [each for broker in sorted(text.split("\n)\n")) for each in broker.splitlines()]
    if line.startswith("quorum"):
        text = re.sub(r"(?<![\w-])-?\d+(?= ms ago|[ \t\n]|$)(?: ms ago)?", "<n>", text)
        return [re.sub(r" *\t", "\t", each) for each in text.splitlines()]
    if line.startswith("features"):
        return re.sub(r"Epoch: \d+", "Epoch: <n>", text).splitlines()
    return sorted(masked(text)) if line.startswith("leader-election") else masked(text)


def assert_same(line: str, pair: tuple[Ran, Ran]) -> None:
    theirs, found = (comparable(line, ran.stdout) for ran in pair)
    assert found == theirs, difference(theirs, found)
    assert pair[1].rc == pair[0].rc, pair[0].stderr
    if pair[0].rc != 0:
        assert reason(pair[1].stderr) == reason(pair[0].stderr)


@pytest.mark.parametrize("line", READING.values(), ids=READING.keys())
def test_a_whole_cluster_is_described_in_the_same_lines(whole: Scene, line: str) -> None:
    assert_same(line, whole[line])


def test_changes_are_made_and_reported_alike(stage: Stage, whole: Scene) -> None:
    theirs, found = [], []
    for line in CHANGING:
        theirs += apache([parsed(stage, line, "made-by-apache")])
        wait_until(stage.all_know, "every broker knows of it")
    for line in CHANGING:
        found.append(ours(parsed(stage, line, "made-by-us")))
        wait_until(stage.all_know, "every broker knows of it")
    for line, one, other in zip(CHANGING, theirs, found, strict=True):
        expected = [text.replace("made-by-apache", "NAME") for text in masked(one.stdout)]
        assert [text.replace("made-by-us", "NAME") for text in masked(other.stdout)] == expected, line
        assert other.rc == one.rc == (1 if line == REFUSED else 0), (line, one.stderr, other.stderr)
    described = theirs[CHANGING.index("topics --describe --topic NAME")].stdout
    assert "Partition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2,3,1\tElr: \tLastKnownElr: " in described


def test_a_controller_by_itself_describes_the_cluster_too(stage: Stage, whole: Scene) -> None:
    controller = stage.active_controller()
    assert controller in (101, 102, 103)
    done = CliRunner().invoke(main, ["status", "--data-dir", str(stage.directory)])
    rows = [re.split(r" *│ *", line) for line in done.output.splitlines() if "│ controller " in line]
    assert [(row[1], row[3]) for row in rows] == [
        (str(node), "Leader" if node == controller else "Follower") for node in (101, 102, 103)
    ]
    with urllib.request.urlopen(f"http://{stage.nodes[controller]['http']}/metrics", timeout=60) as page:
        families = {each.name: each for each in text_string_to_metric_families(page.read().decode())}
    gauges = {name: families[f"kafka_controller_kafkacontroller_{name}"].samples[0].value for name in
            ("activecontrollercount", "activebrokercount", "fencedbrokercount", "globaltopiccount")}  # fmt: skip
    assert gauges == {"activecontrollercount": 1, "activebrokercount": 3, "fencedbrokercount": 0, "globaltopiccount": 5}
    assert "kafka_server_replicamanager_leadercount" not in families


def test_a_controller_describes_the_same_features_as_the_brokers(stage: Stage, whole: Scene) -> None:
    found = ours(call("features", "--bootstrap-controller", stage.address(101), "describe"))
    _, by_broker = whole["features describe"]
    assert comparable("features", found.stdout) == comparable("features", by_broker.stdout)
    assert (found.rc, found.stderr) == (0, "")


@pytest.mark.parametrize("line", READING.values(), ids=READING.keys())
def test_a_broken_cluster_is_described_in_the_same_lines(one_down: Scene, line: str) -> None:
    assert_same(line, one_down[line])


def test_each_filter_finds_what_it_is_about(one_down: Scene) -> None:
    def found(report: str) -> list[str]:
        printed = one_down[f"topics --describe --{report}-partitions"][0].stdout
        return sorted(f"{topic}-{index}" for topic, index in re.findall(r"Topic: (\S+)\tPartition: (\d)", printed))

    spread = [f"spread-{index}" for index in range(4)]
    assert found("under-replicated") == ["lonely-0", "loose-a-0", "loose-b-0", *spread, "tight-0"]
    assert found("unavailable") == ["lonely-0"]
    assert found("under-min-isr") == ["lonely-0", "tight-0"]
    assert found("at-min-isr") == ["loose-a-0", "loose-b-0", *spread]
    described = one_down["topics --describe"][0].stdout
    assert "Topic: tight\tPartition: 0\tLeader: 2\tReplicas: 2,1,3\tIsr: 2,3\tElr: 1\tLastKnownElr: " in described
    assert "Topic: lonely\tPartition: 0\tLeader: none\tReplicas: 1\tIsr: \tElr: 1\tLastKnownElr: 1" in described
    replication = one_down["quorum describe --replication"][0].stdout.splitlines()
    assert [line.split()[-1] for line in replication[1:]] == ["Leader"] + ["Follower"] * 2 + ["Observer"] * 3


@pytest.fixture(scope="module")
def back(stage: Stage, one_down: Scene) -> Stage:
    """Broker 1 runs again, and leads nothing that others can lead."""
    stage.start(1)
    wait_until(lambda: all(stage.isr("spread", index) == {1, 2, 3} for index in range(4)), "it is back")
    wait_until(lambda: stage.isr("loose-a") == stage.isr("loose-b") == {1, 2}, "it is back")
    return stage


def test_preferred_leaders_are_elected_one_by_one_and_all_at_once(back: Stage, tmp_path: Path) -> None:
    stage = back
    named = tmp_path / "partitions.json"
    named.write_text(json.dumps({"partitions": [{"topic": "spread", "partition": 1}]}))
    preferred = "leader-election --election-type preferred"

    by_us = ours(parsed(stage, f"{preferred} --topic spread --partition 0"))
    from_file = ours(parsed(stage, f"{preferred} --path-to-json-file {named}"))
    single, again, every = apache(
        [
            parsed(stage, f"{preferred} --topic spread --partition 2"),
            parsed(stage, f"{preferred} --topic spread --partition 2"),
            parsed(stage, f"{preferred} --all-topic-partitions"),
        ]
    )

    done = "Successfully completed leader election (PREFERRED) for partitions "
    assert (by_us.stdout, from_file.stdout, single.stdout) == tuple(f"{done}spread-{n}\n" for n in range(3))
    assert again.stdout == "Valid replica already elected for partitions spread-2\n"
    assert every.stdout.startswith(done)
    assert sorted(every.stdout.removeprefix(done).strip().split(", ")) == ["loose-a-0", "loose-b-0", "spread-3"]
    wait_until(lambda: {stage.leader("spread", index) for index in range(4)} == {1}, "the preferred replica leads")


def test_an_unclean_leader_is_elected_only_when_asked_for_and_the_loss_is_logged(back: Stage) -> None:
    stage = back
    with stage.client() as client:
        Admin(client).delete_topics(["lonely"])
    stage.stop(2)
    wait_until(lambda: stage.isr("loose-a") == stage.isr("loose-b") == {1}, "one is in sync")
    with stage.client() as client:
        for topic in ("loose-a", "loose-b"):
            Producer(client).send(TopicPartition(topic, 0), [(int(time.time() * 1000), None, b"v", ())] * 3)
    known = stage.log_dir(1) / "replication-offset-checkpoint"

    def is_written_down() -> bool:
        return known.exists() and all(f"{topic} 0 3" in known.read_text() for topic in ("loose-a", "loose-b"))

    wait_until(is_written_down, "it is committed")
    stage.kill(1)
    stage.start(2)
    wait_until(lambda: stage.unfenced() == {2, 3}, "the one that lacks records is back")
    assert stage.leader("loose-a") is None and stage.leader("loose-b") is None

    (theirs,) = apache([parsed(stage, "leader-election --election-type unclean --topic loose-a --partition 0")])
    found = ours(parsed(stage, "leader-election --election-type unclean --all-topic-partitions"))

    done = "Successfully completed leader election (UNCLEAN) for partitions "
    assert (theirs.stdout, found.stdout) == (f"{done}loose-a-0\n", f"{done}loose-b-0\n")
    wait_until(lambda: stage.leader("loose-a") == stage.leader("loose-b") == 2, "it leads")
    decided = "".join(stage.output(node) for node in stage.voters)
    assert re.search(r"loose-a-0 elected 2 for epoch \d+, uncleanly: what only 1 had is lost; ", decided)

    stage.start(1)
    wait_until(lambda: stage.isr("loose-a") == stage.isr("loose-b") == {1, 2}, "it is back")
    lost = stage.log_dir(1).with_name("state-change.log").read_text()
    cut = r"loose-a-0 cut from 3 to 0, 3 records, 3 of them committed: epoch -?\d+ of leader 2 ends at 0"
    assert re.search(cut, lost), lost
