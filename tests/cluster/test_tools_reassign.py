"""reassign prints what kafka-reassign-partitions.sh prints, against Apache Kafka and ours; and Apache's own tool
moves partitions of ours."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from highwater.client import Admin, Client, NewTopic, Producer
from highwater.client.reassignments import alter_reassignments
from highwater.model import TopicPartition
from tests.apache import Ran
from tests.cluster.stage import Stage, staged, wait_until
from tests.cluster.tools import Server, apache, call, difference, ours, reason

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("apache")]

TOPIC = "reassigned"


def plan(*rows: tuple[str, int, list[int]], **more: object) -> str:
    partitions = [{"topic": topic, "partition": index, "replicas": replicas} for topic, index, replicas in rows]
    return json.dumps({"version": 1, "partitions": partitions, **more})


FILES = {
    "here.json": plan((TOPIC, 0, [1]), (TOPIC, 1, [1])),
    "elsewhere.json": plan((TOPIC, 1, [77]), (TOPIC, 0, [1])),
    "missing.json": plan(("no-such-topic", 0, [1])),
    "beyond.json": plan((TOPIC, 9, [1])),
    "empty.json": plan(),
    "no-replicas.json": plan((TOPIC, 0, [])),
    "twice.json": plan((TOPIC, 0, [1]), (TOPIC, 0, [1])),
    "same-broker.json": plan((TOPIC, 0, [1, 1])),
    "version.json": plan((TOPIC, 0, [1]), version=7),
    "topics.json": json.dumps({"version": 1, "topics": [{"topic": TOPIC}]}),
    "topics-twice.json": json.dumps({"topics": [{"topic": TOPIC}, {"topic": TOPIC}]}),
    "topics-missing.json": json.dumps({"topics": [{"topic": "no-such-topic"}]}),
}
PRINTED = (
    "--list",
    "--verify --reassignment-json-file here.json",
    "--verify --reassignment-json-file elsewhere.json --preserve-throttles",
    "--verify --reassignment-json-file missing.json --preserve-throttles",
    "--cancel --reassignment-json-file here.json",
    "--cancel --reassignment-json-file here.json --preserve-throttles",
    "--execute --reassignment-json-file here.json",
    "--execute --reassignment-json-file here.json --additional",
    "--execute --reassignment-json-file here.json --throttle 5000000",
    "--verify --reassignment-json-file here.json",
    "--generate --topics-to-move-json-file topics.json --broker-list 1",
    "--generate --topics-to-move-json-file topics.json --broker-list 1 --disable-rack-aware",
)
FAILING = (
    "--execute --reassignment-json-file elsewhere.json",
    "--execute --reassignment-json-file missing.json",
    "--execute --reassignment-json-file beyond.json",
    "--execute --reassignment-json-file empty.json",
    "--execute --reassignment-json-file no-replicas.json",
    "--execute --reassignment-json-file twice.json",
    "--execute --reassignment-json-file same-broker.json",
    "--execute --reassignment-json-file version.json",
    "--generate --topics-to-move-json-file topics-twice.json --broker-list 1",
    "--generate --topics-to-move-json-file topics-missing.json --broker-list 1",
    "--generate --topics-to-move-json-file topics.json --broker-list 1,1",
)
MISUSED = (
    "--list --verify",
    "--verify",
    "--generate --broker-list 1",
    "--list --additional",
    "--verify --reassignment-json-file here.json --throttle 1",
    "--cancel --reassignment-json-file here.json --disable-rack-aware",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("plans")
    for name, text in FILES.items():
        (directory / name).write_text(text)
    return directory


def by_both(bootstrap: str, files: Path, lines: Sequence[str]) -> dict[str, tuple[Ran, Ran]]:
    calls = []
    for line in lines:
        words = [str(files / word) if word.endswith(".json") else word for word in line.split()]
        calls.append(call("reassign", "--bootstrap-server", bootstrap, *words))
    return dict(zip(lines, zip(apache(calls), map(ours, calls), strict=True), strict=True))


def _without_directories(printed: str) -> list[str]:
    """Ours names no directory: it moves no replica between directories, see docs/divergence.md."""
    return re.sub(r'"log_dirs":\["/[^]]*"\]', '"log_dirs":["any"]', printed).splitlines()


def test_every_action_prints_what_apaches_tool_prints_on_either_server(server: Server, files: Path) -> None:
    with Client(server.bootstrap) as client:
        if TOPIC not in Admin(client).list_topics():
            Admin(client).create_topics([NewTopic(TOPIC, partitions=2)])
            wait_until(lambda: TOPIC in Admin(client).list_topics(), "the topic is there")
    for line, (theirs, mine) in by_both(server.bootstrap, files, PRINTED).items():
        assert (theirs.rc, mine.rc) == (0, 0), f"{line}: {theirs} {mine}"
        printed, own = _without_directories(theirs.stdout), mine.stdout.splitlines()
        assert printed == own, f"{line}: {difference(printed, own)}"


def test_plans_that_cannot_be_carried_out_fail_with_the_same_words(server: Server, files: Path) -> None:
    for line, (theirs, mine) in by_both(server.bootstrap, files, FAILING).items():
        assert (theirs.rc, mine.rc) == (1, 1), f"{line}: {theirs} {mine}"
        printed = [each for each in theirs.stdout.splitlines() if not each.startswith(("\t", "Caused by", "\n"))]
        assert mine.stdout.splitlines()[0] == printed[0].replace(
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: ", ""
        ), f"{line}: {theirs.stdout} {mine.stdout}"


def test_options_that_do_not_go_together_are_refused_with_the_same_words(server: Server, files: Path) -> None:
    for line, (theirs, mine) in by_both(server.bootstrap, files, MISUSED).items():
        assert (theirs.rc, mine.rc) == (1, 1), f"{line}: {theirs} {mine}"
        assert reason(theirs.stderr) == reason(mine.stderr), line


@pytest.fixture(scope="module")
def stage(apache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("moves") / "cluster", brokers=3) as stage:
        yield stage


def test_apaches_tool_and_ours_move_partitions_and_show_the_moves_that_wait_for_a_broker(
    stage: Stage, tmp_path: Path
) -> None:
    topic = "moved"
    stage.create_topic_on(topic, [1, 2])
    with stage.client() as client:
        now = time.time_ns() // 1_000_000
        Producer(client).send(TopicPartition(topic, 0), [(now, None, b"%d" % number, ()) for number in range(100)])
    (tmp_path / "to-3.json").write_text(plan((topic, 0, [3, 1])))
    (tmp_path / "to-2.json").write_text(plan((topic, 0, [2, 1])))
    bootstrap = ",".join(stage.address(node) for node in (1, 2))
    begin = ["--execute", "--reassignment-json-file", str(tmp_path / "to-3.json"), "--bootstrap-server", bootstrap]
    [moved] = apache([call("reassign", *begin)])
    assert moved.rc == 0, moved.stdout
    wait_until(lambda: stage.isr(topic) == {1, 3}, "Apache's tool has moved it")
    back = ["--execute", "--reassignment-json-file", str(tmp_path / "to-2.json"), "--bootstrap-server", bootstrap]
    assert ours(call("reassign", *back)).rc == 0
    wait_until(lambda: stage.isr(topic) == {1, 2}, "ours has moved it back")
    stage.kill(3)
    wait_until(lambda: stage.unfenced() == {1, 2}, "broker 3 is fenced")
    with stage.client() as client:
        wait_until(lambda: not Admin(client).list_reassignments(), "nothing moves")
        # Kafka's tool takes a broker that is down for an unknown one, so the move is asked for without it.
        assert alter_reassignments(client, {TopicPartition(topic, 0): [3, 1]}) == {}
    lines = ("--list", "--verify --reassignment-json-file to-3.json", "--execute --reassignment-json-file to-2.json")
    for line, (theirs, mine) in by_both(bootstrap, tmp_path, lines).items():
        assert (theirs.rc, theirs.stdout) == (mine.rc, mine.stdout), line
        assert "moved-0" in mine.stdout or "existing partition assignment" in mine.stdout
    cancel = by_both(bootstrap, tmp_path, ["--cancel --reassignment-json-file to-3.json --preserve-throttles"])
    [(theirs, mine)] = cancel.values()
    assert theirs.stdout.startswith("Successfully cancelled partition reassignment for: moved-0\n"), theirs.stdout
    assert mine.stdout.startswith("None of the specified partition reassignments are active.\n"), mine.stdout
    assert theirs.stdout.splitlines()[1:] == mine.stdout.splitlines()[1:]
    wait_until(lambda: stage.isr(topic) == {1, 2}, "it is as it was")
    stage.start(3)
