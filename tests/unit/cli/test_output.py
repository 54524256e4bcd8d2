"""What the tools list as JSON, and which names they suggest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from highwater import Cluster
from highwater.cli import main
from highwater.cli.reassign import move_json
from highwater.client import Client, Producer
from highwater.client.groups import Groups
from highwater.model import TopicPartition
from highwater.wire.messages.list_partition_reassignments_response import OngoingPartitionReassignment


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster(brokers=1) as cluster:
        cluster.create_topic("orders", partitions=2, config={"retention.ms": "60000"})
        cluster.create_topic("my.topic")
        with Client(cluster.bootstrap_servers) as client:
            Producer(client).send(TopicPartition("orders", 1), [(1, None, b"a", ()), (1, None, b"b", ())])
            Groups(client).commit("readers", {TopicPartition("orders", 1): 1})
        yield cluster.bootstrap_servers


def run(bootstrap: str, line: str) -> Result:
    tool, *args = line.split()
    return CliRunner(env={"HIGHWATER_BOOTSTRAP": bootstrap}).invoke(main, [tool, *args])


def listed(bootstrap: str, line: str) -> Any:
    done = run(bootstrap, f"{line} -o json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_topics_are_listed_and_described_as_json(bootstrap: str) -> None:
    names = [topic["topic"] for topic in listed(bootstrap, "topics list")]
    assert {"orders", "my.topic"} <= set(names) and names == sorted(names)
    (topic,) = listed(bootstrap, "topics describe orders")
    assert (topic["topic"], topic["partition_count"], topic["replication_factor"]) == ("orders", 2, 1)
    assert topic["configs"]["retention.ms"] == "60000"
    assert [(row["partition"], row["leader"], row["replicas"], row["isr"]) for row in topic["partitions"]] == (
        [(0, 1, [1], [1]), (1, 1, [1], [1])]
    )
    assert listed(bootstrap, "topics --describe --under-replicated-partitions") == []


def test_groups_are_listed_and_described_as_json(bootstrap: str) -> None:
    assert {"group": "readers", "type": "Classic", "state": "Empty"} in listed(bootstrap, "groups list")
    (group,) = listed(bootstrap, "groups describe readers")
    assert (group["group"], group["state"], group["members"]) == ("readers", "Empty", [])
    (row,) = group["offsets"]
    assert (row["topic"], row["partition"], row["committed_offset"], row["log_end_offset"], row["lag"]) == (
        ("orders", 1, 1, 2, 1)
    )
    (group,) = listed(bootstrap, "groups describe readers --members")
    assert "offsets" not in group


def test_settings_offsets_and_the_quorum_are_described_as_json(bootstrap: str) -> None:
    (entity,) = listed(bootstrap, "configs describe orders")
    assert (entity["type"], entity["name"]) == ("topics", "orders")
    (setting,) = entity["configs"]
    assert (setting["name"], setting["value"], setting["source"]) == ("retention.ms", "60000", "DYNAMIC_TOPIC_CONFIG")
    assert len(listed(bootstrap, "configs describe orders --all")[0]["configs"]) > 20
    assert listed(bootstrap, "get-offsets --topic orders") == [
        {"topic": "orders", "partition": 0, "offset": 0},
        {"topic": "orders", "partition": 1, "offset": 2},
    ]
    quorum = listed(bootstrap, "quorum describe")
    assert quorum["leader_id"] == 1
    assert [(each["id"], each["role"]) for each in quorum["replicas"]] == [(1, "leader")]


def test_endpoints_and_experiments_are_listed_as_json(bootstrap: str) -> None:
    host, _, port = bootstrap.partition(":")
    (endpoint,) = listed(bootstrap, "cluster list-endpoints")
    assert endpoint == {"id": 1, "host": host, "port": int(port), "rack": None, "state": "unfenced",
                        "endpoint_type": "broker"}  # fmt: skip
    assert listed(bootstrap, "lab list")[0]["name"] == "write-and-acknowledgement"


def test_moves_that_are_under_way_are_listed_as_json(bootstrap: str) -> None:
    assert listed(bootstrap, "reassign --list") == []
    row = OngoingPartitionReassignment(replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[1])
    assert move_json(TopicPartition("orders", 1), row) == (
        {"topic": "orders", "partition": 1, "replicas": [1, 2, 3], "adding": [3], "removing": [1]}
    )
    done = run(bootstrap, "reassign --execute --reassignment-json-file plan.json -o json")
    assert done.exit_code == 1 and """Option "[output]" can't be used with action "[execute]\"""" in done.stderr


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("topics describe oders", "orders"),
        ("topics --delete --topic ordesr", "orders"),
        ("configs describe oders", "orders"),
        ("groups describe reader", "readers"),
        ("topics create late --config retention.mss=4", "retention.ms"),
        ("configs alter orders --add-config min.insync.replica=2", "min.insync.replicas"),
        ("configs alter --broker 1 --add-config num.io.thread=4", "num.io.threads"),
        ("console-consumer --topic orders --timeout-ms 1 --formatter-property print.keys=true", "print.key"),
        ("console-producer --topic orders --reader-property parse.keys=true", "parse.key"),
    ],
)
def test_a_name_that_is_nearly_right_is_suggested_on_stderr(bootstrap: str, line: str, meant: str) -> None:
    done = run(bootstrap, line)
    assert f"Did you mean '{meant}'?" in done.stderr
    assert "Did you mean" not in done.stdout


@pytest.mark.parametrize(
    "line",
    [
        "configs alter --broker 1 --add-config my.plugin.threads=4,log.retention.ms=1000",
        "topics create fine --config retention.ms=4000",
        "console-consumer --topic orders --timeout-ms 1 --formatter-property my.own=1",
    ],
)
def test_a_setting_that_is_right_or_foreign_is_not_taken_for_a_mistake(bootstrap: str, line: str) -> None:
    done = run(bootstrap, line)
    assert done.exit_code == 0 and "Did you mean" not in done.output


def test_the_measuring_tools_say_that_their_topic_does_not_exist(bootstrap: str) -> None:
    for number, line in enumerate(
        (
            "producer-perf --topic ordersX --num-records 1 --record-size 1 --throughput -1",
            "consumer-perf --topic ordersY --num-records 1 --timeout 10",
        )
    ):
        done = run(bootstrap, line)
        assert done.stderr.startswith("There is a topic orders: was that one meant?\n"), (number, done.stderr)
        assert f"Topic {line.split()[2]} does not exist" in done.stderr


def test_a_measurement_that_cannot_be_made_creates_no_topic(bootstrap: str) -> None:
    line = "producer-perf --topic unmade --num-records 1 --record-size 1 --throughput -1 --command-property acks=0"
    done = run(bootstrap, line)
    assert done.exit_code == 1 and done.stderr.startswith("acks is 0: it must be all (-1) or 1")
    assert "unmade" not in run(bootstrap, "topics list").stdout.split()


def test_deleting_by_verb_deletes_the_topic_of_this_name_alone(bootstrap: str) -> None:
    for name in ("a.b", "axb"):
        assert run(bootstrap, f"topics create {name}").exit_code == 0
    assert run(bootstrap, "topics delete a.b").exit_code == 0
    names = [topic["topic"] for topic in listed(bootstrap, "topics list")]
    assert "axb" in names and "a.b" not in names
    missing = run(bootstrap, "topics delete a.b")
    assert "Topic 'a.b' does not exist as expected" in missing.stdout


def test_json_is_for_what_lists(bootstrap: str) -> None:
    for line in ("topics create x", "groups delete x", "configs alter x --add-config a=b"):
        done = run(bootstrap, f"{line} -o json")
        assert done.exit_code == 1
        assert """Option "[output]" can't be used with option""" in done.stderr


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("topics describe my", ["my.topic"]),
        ("topics delete my", ["my.topic"]),
        ("configs alter my", ["my.topic"]),
        ("console-consumer --topic my", ["my.topic"]),
        ("topics create my", []),
        ("topics describe orders my", []),
        ("topics describe __con", ["__consumer_offsets"]),
        ("topics de", ["describe", "delete"]),
    ],
)
def test_topics_that_there_are_are_completed(bootstrap: str, line: str, names: list[str]) -> None:
    words = f"highwater {line}"
    typed = {"_HIGHWATER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = CliRunner().invoke(main, [], prog_name="highwater", env={"HIGHWATER_BOOTSTRAP": bootstrap, **typed})
    assert done.output.split() == [f"plain,{name}" for name in names]


def test_nothing_is_completed_where_no_cluster_answers() -> None:
    typed = {"_HIGHWATER_COMPLETE": "bash_complete", "COMP_WORDS": "highwater topics describe or", "COMP_CWORD": "3"}
    for servers in ("127.0.0.1:1", "nonsense"):
        done = CliRunner().invoke(main, [], prog_name="highwater", env={"HIGHWATER_BOOTSTRAP": servers, **typed})
        assert (done.exit_code, done.output.strip()) == (0, "")
