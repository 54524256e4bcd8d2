"""topics, configs, get-offsets and delete-records print what Apache's tools print, line by line."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest

from highwater.client import Admin, Client, NewTopic, Producer, ResourceType
from highwater.client.admin import ConfigSource
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition, uuid_text
from tests.apache import Ran
from tests.cluster.nodes import wait_until
from tests.cluster.tools import Call, Server, apache, call, difference, masked, ours, reason

TOPICS = (
    # Its records are years old: nothing but this keeps them.
    NewTopic("tools-plain", partitions=3, configs={"retention.ms": "-1"}),
    NewTopic(
        "tools-settings", configs={"retention.ms": "600000", "cleanup.policy": "compact", "segment.bytes": "2000000"}
    ),
    NewTopic("tools.dotted", partitions=2, configs={"min.insync.replicas": "1"}),
    NewTopic("tools-min-isr", configs={"min.insync.replicas": "2"}),
    NewTopic("tools-other", assignment=[[1], [1]]),
)
OFFSETS = {
    "version": 1,
    "partitions": [
        {"topic": "tools-plain", "partition": 0, "offset": 2},
        {"topic": "tools-plain", "partition": 1, "offset": 1000},
        {"topic": "tools-plain", "partition": 2, "offset": -1},
        {"topic": "tools-settings", "partition": 0, "offset": 0},
    ],
}

READING = {
    "list": "topics --list",
    "list of some": "topics --list --topic tools-.*",
    "list without internal topics": "topics --list --exclude-internal --topic tools.*",
    "describe one": "topics --describe --topic tools-settings",
    "describe some": "topics --describe --topic tools.*",
    "describe named": "topics --describe --topic tools-plain,tools-settings",
    "describe by id": "topics --describe --topic-id TOPIC_ID",
    "describe by unknown id": "topics --describe --topic-id AAAAAAAAAAAAAAAAAAAAfw",
    "describe in pages": "topics --describe --topic tools.* --partition-size-limit-per-response 1",
    "describe overrides": "topics --describe --topics-with-overrides --topic tools.*",
    "describe under-replicated": "topics --describe --under-replicated-partitions",
    "describe unavailable": "topics --describe --unavailable-partitions",
    "describe under min isr": "topics --describe --under-min-isr-partitions --topic tools.*",
    "describe at min isr": "topics --describe --at-min-isr-partitions --topic tools.*",
    "describe missing": "topics --describe --topic tools-missing",
    "describe missing if exists": "topics --describe --topic tools-missing --if-exists",
    "describe name and id": "topics --describe --if-exists --topic x --topic-id TOPIC_ID",
    "changed settings of a topic": "configs --describe --entity-type topics --entity-name tools-settings",
    "all settings of a topic": "configs --describe --all --entity-type topics --entity-name tools-settings",
    "settings by shorthand": "configs --describe --topic tools-settings",
    "settings of a missing topic": "configs --describe --entity-type topics --entity-name tools-missing",
    "settings of brokers": "configs --describe --entity-type brokers",
    "settings of a broker": "configs --describe --entity-type brokers --entity-name 1",
    "all settings of a broker": "configs --describe --all --broker 1",
    "settings of a missing broker": "configs --describe --entity-type brokers --entity-name 77",
    "default settings of brokers": "configs --describe --entity-type brokers --entity-default",
    "latest offsets": "get-offsets --topic tools.*",
    "earliest offsets": "get-offsets --topic tools.* --time -2",
    "offsets by name": "get-offsets --topic tools-plain --time earliest",
    "offsets by max timestamp": "get-offsets --topic tools-plain --time max-timestamp",
    "offsets by time": "get-offsets --topic tools-plain --time 1500000000001",
    "offsets after the last": "get-offsets --topic tools-plain --time 1900000000000",
    "earliest local offsets": "get-offsets --topic tools-plain --time -4",
    "offsets of some partitions": "get-offsets --topic tools-plain --partitions 0,2",
    "offsets by rules": "get-offsets --topic-partitions tools-plain:1-,tools-other:0,tools.dotted:-1",
    "offsets of nothing": "get-offsets --topic tools-missing",
    "log directories": "log-dirs --describe --topic-list tools-plain,tools-other",
    "log directories of a broker": "log-dirs --describe --broker-list 1 --topic-list tools-plain",
    "log directories of no topic": "log-dirs --describe --topic-list tools-missing",
}

REFUSED = {
    "no action": "topics --topic tools-plain",
    "two actions": "topics --describe --create",
    "no topic": "topics --create",
    "no partitions": "topics --alter --topic tools-plain",
    "partitions with describe": "topics --describe --partitions 3",
    "factor with alter": "topics --alter --topic tools-plain --partitions 4 --replication-factor 1",
    "report with create": "topics --create --topic x --under-replicated-partitions",
    "report with overrides": "topics --describe --under-min-isr-partitions --topics-with-overrides",
    "if-not-exists with delete": "topics --delete --topic x --if-not-exists",
    "assignment and partitions": "topics --create --topic x --replica-assignment 1 --partitions 3",
    "an unknown option": "topics --describe --zork",
    "an option without its value": "topics --describe --topic",
    "fewer partitions": "topics --alter --topic tools-plain --partitions 1",
    "a topic there already": "topics --create --topic tools-plain",
    "a topic there already, allowed": "topics --create --topic tools-plain --if-not-exists",
    "a setting without value": "topics --create --topic tools-x --config retention.ms",
    "an unknown setting": "topics --create --topic tools-x --config nope=3",
    "a bad value": "topics --create --topic tools-x --config retention.ms=abc",
    "too many replicas": "topics --create --topic tools-x --replication-factor 3",
    "no replicas": "topics --create --topic tools-x --replication-factor 0",
    "no partition at all": "topics --create --topic tools-x --partitions 0",
    "a bad name": "topics --create --topic tools*x",
    "replicas twice": "topics --create --topic tools-x --replica-assignment 1:1",
    "uneven replicas": "topics --create --topic tools-x --replica-assignment 1:2,1",
    "replicas that are no numbers": "topics --create --topic tools-x --replica-assignment a",
    "an unknown broker": "topics --create --topic tools-x --replica-assignment 9",
    "deletion of a missing topic": "topics --delete --topic tools-missing",
    "deletion of a missing topic, allowed": "topics --delete --topic tools-missing --if-exists",
    "no action on settings": "configs --entity-type topics --entity-name tools-plain",
    "both actions on settings": "configs --describe --alter --entity-type topics --entity-name tools-plain",
    "addition while describing": "configs --describe --entity-type topics --entity-name x --add-config a=b",
    "no entity type": "configs --describe",
    "an unknown entity type": "configs --describe --entity-type zork",
    "alter without a name": "configs --alter --entity-type topics --add-config a=b",
    "alter without a change": "configs --alter --entity-type topics --entity-name tools-plain",
    "a broker that is no number": "configs --describe --entity-type brokers --entity-name x",
    "an addition without value": "configs --alter --entity-type topics --entity-name tools-plain --add-config a",
    "a bad key": "configs --alter --entity-type topics --entity-name tools-plain --add-config a*=b",
    "a bad setting": "configs --alter --entity-type topics --entity-name tools-plain --add-config retention.ms=abc",
    "settings of no topic": "configs --alter --topic tools-missing --add-config retention.ms=1",
    "a bad time": "get-offsets --topic tools-plain --time zork",
    "bad partitions": "get-offsets --topic tools-plain --partitions a,b",
    "log directories of a missing broker": "log-dirs --describe --broker-list 1,77",
    "log directories without describe": "log-dirs --topic-list tools-plain",
    "rules and topic": "get-offsets --topic tools-plain --topic-partitions tools-plain:1",
}

MADE = {"retention.ms": "7000"}
ALTERED = {"cleanup.policy": "compact,delete", "segment.ms": "5000"}
CHANGING = (
    ("topics --create --topic NAME --partitions 2 --config retention.ms=7000", 2, MADE),
    ("topics --describe --topic NAME", 2, MADE),
    ("topics --alter --topic NAME --partitions 4", 4, MADE),
    ("topics --describe --topic NAME", 4, MADE),
    ("configs --alter --topic NAME --add-config cleanup.policy=[compact,delete],segment.ms=5000", 4, MADE | ALTERED),
    ("configs --alter --entity-type topics --entity-name NAME --delete-config retention.ms", 4, ALTERED),
    ("configs --describe --entity-type topics --entity-name NAME", 4, ALTERED),
    ("topics --delete --topic NAME", 0, {}),
    ("topics --list --topic NAME", 0, {}),
)
"""With the partitions and the settings of its own that the topic has then."""


@pytest.fixture(scope="module")
def prepared(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Topics with records; gives what stands for the words in capitals of the cases."""
    with Client(server.bootstrap) as client:
        Admin(client).create_topics(TOPICS)
        producer = Producer(client)
        for partition in (0, 1):
            for batch in range(3):
                at = 1_500_000_000_000 + 10 * batch
                producer.send(
                    TopicPartition("tools-plain", partition), [(at + i, b"k", b"v%d" % i, ()) for i in range(4)]
                )
        topic_id = uuid_text(Admin(client).list_topics()["tools-plain"])
    offsets = tmp_path_factory.mktemp("tools") / "offsets.json"
    offsets.write_text(json.dumps(OFFSETS))
    return {"TOPIC_ID": topic_id, "OFFSETS": str(offsets)}


def parsed(server: Server, line: str, words: dict[str, str]) -> Call:
    tool, *args = (words.get(word, word) for word in line.split())
    return call(tool, "--bootstrap-server", server.bootstrap, *args)


@pytest.fixture(scope="module")
def by_apache(server: Server, prepared: dict[str, str]) -> dict[str, Ran]:
    """What Apache's tools print for every case that changes nothing: one JVM for all."""
    lines = [*READING.values(), *REFUSED.values()]
    return dict(zip(lines, apache([parsed(server, line, prepared) for line in lines]), strict=True))


@pytest.mark.parametrize("line", READING.values(), ids=READING.keys())
def test_reading_prints_the_same_lines(
    server: Server, prepared: dict[str, str], by_apache: dict[str, Ran], line: str
) -> None:
    expected, found = by_apache[line], ours(parsed(server, line, prepared))

    assert masked(found.stdout) == masked(expected.stdout), difference(masked(expected.stdout), masked(found.stdout))
    assert found.rc == expected.rc


@pytest.mark.parametrize("line", REFUSED.values(), ids=REFUSED.keys())
def test_a_command_that_cannot_be_done_ends_with_the_same_reason(
    server: Server, prepared: dict[str, str], by_apache: dict[str, Ran], line: str
) -> None:
    expected, found = by_apache[line], ours(parsed(server, line, prepared))

    assert masked(found.stdout) == masked(expected.stdout)
    assert found.rc == expected.rc
    if expected.rc != 0 and not expected.stdout:
        assert reason(found.stderr) == reason(expected.stderr)


def is_known(client: Client, topic: str, partitions: int, settings: dict[str, str]) -> bool:
    """Whether the broker knows of so many partitions, each with a leader, and of these settings. Between two questions
    it may apply what was decided: a topic that it knew of is gone at the second one."""
    client.refresh([topic])
    if topic not in client.view.topics:
        return partitions == 0
    led = [each for each in client.view.topics[topic].partitions.values() if each.leader >= 0]
    try:
        described = Admin(client).describe_configs(ResourceType.TOPIC, [topic])[topic]
    except KafkaError as failed:
        if failed.code is not Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return False
    own = {each.name: each.value for each in described if each.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG}
    return len(led) == partitions and own == settings


class Overtaken(Client):
    """Whatever topics it learns of are gone at its next question."""

    def refresh(self, topics: Sequence[str] | None, *, create: bool = False) -> None:
        super().refresh(topics, create=create)
        for name in self.view.topics.keys() & (topics or ()):
            self._delete(name)

    def _delete(self, name: str) -> None:
        with Client([str(each) for each in self.bootstrap]) as other:
            Admin(other).delete_topics([name])
            wait_until(lambda: name not in Admin(other).list_topics())


def test_a_topic_that_goes_between_two_questions_is_waited_for(server: Server) -> None:
    name = "tools-overtaken"
    with Client(server.bootstrap) as client:
        Admin(client).create_topics([NewTopic(name, partitions=1)])
        wait_until(partial(is_known, client, name, 1, {}))
    with Overtaken(server.bootstrap) as client:
        assert not is_known(client, name, 0, {})
        assert is_known(client, name, 0, {})


def changed(server: Server, topic: str, run: Callable[[Call], Ran]) -> list[Ran]:
    """Before a tool asks, the broker must have applied what the controller committed for the one before."""
    results = []
    with Client(server.bootstrap) as client:
        for line, partitions, settings in CHANGING:
            results.append(run(parsed(server, line, {"NAME": topic})))
            wait_until(partial(is_known, client, topic, partitions, settings))
    return results


def test_changes_are_reported_in_the_same_words(server: Server, prepared: dict[str, str]) -> None:
    """A topic made, altered and deleted, by Apache's tools and then by ours."""
    made_by_apache = changed(server, "tools-made-by-apache", lambda one: apache([one])[0])
    made_by_us = changed(server, "tools-made-by-us", ours)

    for (line, *_), one, other in zip(CHANGING, made_by_apache, made_by_us, strict=True):
        theirs = [text.replace("tools-made-by-apache", "NAME") for text in masked(one.stdout)]
        assert [text.replace("tools-made-by-us", "NAME") for text in masked(other.stdout)] == theirs, line
        assert other.rc == one.rc == 0, (line, other.stderr)


def test_deleting_records_reports_each_partition_s_fate(server: Server, prepared: dict[str, str]) -> None:
    line = "delete-records --offset-json-file OFFSETS"
    found = ours(parsed(server, line, prepared))
    (expected,) = apache([parsed(server, line, prepared)])

    # Apache keeps the results in a map that is shuffled anew in every process; ours stand as in the file.
    assert sorted(found.stdout.splitlines()) == sorted(expected.stdout.splitlines())
    assert found.stdout.splitlines()[2] == "partition: tools-plain-0\tlow_watermark: 2"
    assert found.rc == expected.rc == 0


@pytest.fixture
def nobody_listens() -> Iterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.mark.parametrize("line", ["topics --list", "get-offsets --topic x", "configs --describe --topic x"])
def test_a_refused_connection_is_reported_at_once(nobody_listens: str, line: str) -> None:
    tool, *args = line.split()
    began = time.monotonic()
    found = ours(call(tool, "--bootstrap-server", nobody_listens, *args))

    assert found.rc == 1
    assert f"cannot connect to {nobody_listens}: Connection refused" in found.stdout + found.stderr
    assert time.monotonic() - began < 30, "half of what a client has for a call that it may repeat"
