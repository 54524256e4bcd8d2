"""How the tools read their options."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from highwater.cli import NOUNS, main
from highwater.cli.configs import Misuse, parse_additions
from highwater.cli.delete_records import parse_offsets
from highwater.cli.get_offsets import chooser, parse_time
from highwater.cli.java_text import exception_text
from highwater.cli.properties import number, open_client, pairs
from highwater.cli.storage import feature_levels
from highwater.cli.topic_filter import TopicFilter
from highwater.cli.topic_report import concerned, replication_factor
from highwater.cli.topics import parse_configs, parse_replica_assignment
from highwater.client.descriptions import PartitionDescription
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition
from highwater.storage.format import FormatError
from highwater.wire.messages.list_partition_reassignments_response import OngoingPartitionReassignment


@pytest.mark.parametrize("noun", NOUNS)
def test_every_command_has_a_help_of_its_own(noun: str) -> None:
    done = CliRunner().invoke(main, [noun, "--help"])
    assert done.exit_code == 0
    assert f"{noun} [OPTIONS]" in done.stdout


def test_help_loads_no_tool() -> None:
    """Or the list of commands would take as long as all of them."""
    program = "import sys; from highwater.cli import main; main(['--help'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "get-offsets" in done.stdout
    loaded = done.stdout.splitlines()[-1].split()
    ours = [name for name in loaded if name.startswith("highwater.")]
    assert sorted(ours) == ["highwater.cli", "highwater.cli.command_group"]


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (["topcs"], "No such command 'topcs': did you mean 'topics'?"),
        (["console_consumer"], "No such command 'console_consumer': did you mean 'console-consumer'?"),
        (["kafka-consumer-groups.sh", "--list"], "No such command 'kafka-consumer-groups.sh': did you mean 'groups'?"),
        (["consumer_groups", "--list"], "No such command 'consumer_groups': did you mean 'groups'?"),
        (["TOPICS"], "No such command 'TOPICS': did you mean 'topics'?"),
        (["zork"], "No such command 'zork'; 'highwater --help' lists them all"),
        (["pipeline", "lnad"], "No such command 'lnad': did you mean 'land'?"),
        (["storage", "frmat"], "No such command 'frmat': did you mean 'format'?"),
        (["quorum", "decsribe"], "No such command 'decsribe': did you mean 'describe'?"),
    ],
)
def test_a_mistyped_command_is_reported_with_the_one_that_may_be_meant(typed: list[str], complaint: str) -> None:
    done = CliRunner().invoke(main, typed, prog_name="highwater")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == f"Error: {complaint}"


def test_completing_a_line_with_a_mistyped_command_prints_nothing() -> None:
    typed = {"_HIGHWATER_COMPLETE": "bash_complete", "COMP_WORDS": "highwater topcs --cr", "COMP_CWORD": "2"}
    done = CliRunner().invoke(main, [], prog_name="highwater", env=typed)
    assert (done.exit_code, done.output.strip()) == (0, "")
    right = typed | {"COMP_WORDS": "highwater topics --cr"}
    assert "--create" in CliRunner().invoke(main, [], prog_name="highwater", env=right).output


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--zork"], "zork is not a recognized option"),
        (["--parttions", "3"], "parttions is not a recognized option: did you mean --partitions?"),
        (["--topic"], "Option topic requires an argument"),
        (["--partitions", "x"], "Option partitions: 'x' is not a valid integer."),
        ([], "Create, delete, describe or change topics."),
    ],
)
def test_misuse_is_reported_with_the_usage_on_stderr(arguments: list[str], reason: str) -> None:
    done = CliRunner().invoke(main, ["topics", *arguments])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == reason
    assert "Usage: " in done.stderr


def test_an_option_that_is_missing_is_named() -> None:
    done = CliRunner().invoke(main, ["storage", "info", "--config"])
    assert done.stderr.splitlines()[0] == "Option config requires an argument"
    done = CliRunner().invoke(main, ["storage", "format", "--standalone"])
    assert (done.exit_code, done.stderr.splitlines()[0]) == (1, 'Missing required argument "[config]"')


def test_a_pipeline_without_its_file_prints_how_to_begin(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yml"
    for command in ("land", "status", "position"):
        done = CliRunner().invoke(main, ["pipeline", command, str(file)])
        assert (done.exit_code, done.stderr) == (
            1,
            f"{file}: there is no such file; `highwater pipeline init` writes one to begin with\n",
        )


@pytest.mark.parametrize(
    ("expression", "topic", "allowed"),
    [("a.*", "abc", True), ("a", "abc", False), ("a,b", "b", True), (" 'a' , \"b\"", "b", False), ('"a"', "a", True)],
)
def test_a_topic_option_is_a_regular_expression_for_the_whole_name(expression: str, topic: str, allowed: bool) -> None:
    assert TopicFilter(expression).allows(topic) is allowed


def test_internal_topics_can_be_left_out() -> None:
    assert TopicFilter(".*").allows("__consumer_offsets")
    assert not TopicFilter(".*").allows("__consumer_offsets", exclude_internal=True)
    with pytest.raises(ValueError, match="is an invalid regex"):
        TopicFilter("[")


@pytest.mark.parametrize(("text", "assignment"), [(None, []), ("", []), ("1", [[1]]), ("1:2, 2 : 3", [[1, 2], [2, 3]])])
def test_replicas_are_assigned_by_hand(text: str | None, assignment: list[list[int]]) -> None:
    assert parse_replica_assignment(text) == assignment


@pytest.mark.parametrize("text", ["1:1", "1:2,3", "a", "1,,2", "1:"])
def test_a_bad_assignment_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_replica_assignment(text)


def test_settings_of_a_new_topic_are_pairs() -> None:
    assert parse_configs(("a = b", "c=d")) == {"a": "b", "c": "d"}
    for bad in ("a", "a=", "a=b=c"):
        with pytest.raises(ValueError, match="all configs to be added must be in the format"):
            parse_configs((bad,))


@pytest.mark.parametrize(
    ("text", "additions"),
    [
        ("a=b", {"a": "b"}),
        ("a=b,c=d", {"a": "b", "c": "d"}),
        ("a=[b,c],d=", {"a": "b,c", "d": ""}),
        (" a = b ", {"a": "b"}),
    ],
)
def test_additions_may_hold_commas_in_brackets(text: str, additions: dict[str, str]) -> None:
    assert parse_additions(text) == additions


@pytest.mark.parametrize("text", ["a", "a=b,c", "a=b=c"])
def test_an_addition_that_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(Misuse):
        parse_additions(text)


@pytest.mark.parametrize(
    ("text", "time"), [("latest", -1), ("earliest", -2), ("max-timestamp", -3), ("-5", -5), ("1500", 1500)]
)
def test_a_time_is_a_word_or_a_number(text: str, time: int) -> None:
    assert parse_time(text) == time
    with pytest.raises(ValueError, match="Malformed time argument zork"):
        parse_time("zork")


@pytest.mark.parametrize(
    ("rules", "chosen"),
    [
        ("a:1", [("a", 1)]),
        ("a:1-3", [("a", 1), ("a", 2)]),
        ("a:2-,b:-1", [("a", 2), ("a", 3), ("b", 0)]),
        (":0", [("a", 0), ("b", 0)]),
        ("b", [("b", 0), ("b", 1), ("b", 2), ("b", 3)]),
    ],
)
def test_partitions_are_chosen_by_rules(rules: str, chosen: list[tuple[str, int]]) -> None:
    choose = chooser(rules, None, None)
    everything = [TopicPartition(topic, number) for topic in "ab" for number in range(4)]
    assert [partition for partition in everything if choose(partition)] == chosen


def test_partitions_are_chosen_by_topic_and_number() -> None:
    choose = chooser(None, "a|b", "1,3")
    assert [choose(TopicPartition(topic, number)) for topic in "ac" for number in (1, 2)] == [True, False, False, False]
    for bad in ((None, None, "x"), ("a:b", None, None)):
        with pytest.raises(ValueError):
            chooser(*bad)


def test_offsets_to_delete_come_from_json() -> None:
    text = json.dumps({"partitions": [{"topic": "t", "partition": 1, "offset": 5}]})
    assert parse_offsets(text) == {TopicPartition("t", 1): 5}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"version": 2, "partitions": []}',
        '{"partitions": [1]}',
        '{"partitions": [{"topic": "t", "partition": 1}]}',
        '{"partitions": [{"topic": "t", "partition": "1", "offset": 1}]}',
        '{"partitions": [{"topic": "t", "partition": 1, "offset": true}]}',
        '{"partitions": [{"topic": "t", "partition": 1, "offset": 1}, {"topic": "t", "partition": 1, "offset": 2}]}',
    ],
)
def test_a_bad_offset_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_offsets(text)


def test_java_s_names_of_errors_are_kept() -> None:
    regular = KafkaError(Code.NOT_LEADER_OR_FOLLOWER, "moved")
    assert exception_text(regular) == "org.apache.kafka.common.errors.NotLeaderOrFollowerException: moved"
    irregular = KafkaError(Code.REQUEST_TIMED_OUT, "late")
    assert exception_text(irregular) == "org.apache.kafka.common.errors.TimeoutException: late"


def test_client_settings_are_read_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    client = open_client("h:1", {"client.id": "me", "request.timeout.ms": "1500", "zork": "1"}, client_id="you")
    assert (client.client_id, client.request_timeout, client.timeout) == ("me", 1.5, 60)
    assert capsys.readouterr().err == "The configuration 'zork' was supplied but isn't a known config.\n"
    for bad in ({"security.protocol": "TLS"}, {"sasl.mechanism": "PLAIN"}, {"request.timeout.ms": "x"}):
        with pytest.raises(ValueError):
            open_client("h:1", bad, client_id="you")


def test_pairs_may_lack_their_value() -> None:
    assert pairs(["a=b", "c", "d=", "e=f=g"]) == {"a": "b", "c": "", "d": "", "e": "f=g"}
    assert number({}, "x", 5) == 5


def partition(leader: int, replicas: list[int], isr: list[int]) -> PartitionDescription:
    return PartitionDescription(leader_id=leader, replica_nodes=replicas, isr_nodes=isr)


@pytest.mark.parametrize(
    ("report", "one", "concerns"),
    [
        ("under-replicated-partitions", partition(1, [1, 2], [1]), True),
        ("under-replicated-partitions", partition(1, [1, 2], [1, 2]), False),
        ("unavailable-partitions", partition(-1, [1], [1]), True),
        ("unavailable-partitions", partition(9, [9], [9]), True),
        ("unavailable-partitions", partition(1, [1], [1]), False),
        ("under-min-isr-partitions", partition(1, [1, 2], [1]), True),
        ("under-min-isr-partitions", partition(-1, [1, 2], [1, 2]), True),
        ("under-min-isr-partitions", partition(1, [1, 2], [1, 2]), False),
        ("at-min-isr-partitions", partition(1, [1, 2], [1, 2]), True),
        ("at-min-isr-partitions", partition(1, [1, 2, 3], [1, 2, 3]), False),
    ],
)
def test_a_report_lists_the_partitions_it_is_about(report: str, one: PartitionDescription, concerns: bool) -> None:
    assert concerned(report, one, None, 2, {1, 2, 3}) is concerns


def test_replicas_on_their_way_do_not_count_as_missing() -> None:
    moving = OngoingPartitionReassignment(replicas=[1, 2, 3, 4], adding_replicas=[4], removing_replicas=[1])
    one = partition(1, [1, 2, 3, 4], [1, 2, 3])
    assert replication_factor(one, None) == 4
    assert replication_factor(one, moving) == 3
    assert not concerned("under-replicated-partitions", one, moving, 2, {1})


def test_features_are_ours_unless_asked_otherwise() -> None:
    assert feature_levels(None, (), dynamic=True) == {
        "metadata.version": 30,
        "kraft.version": 1,
        "eligible.leader.replicas.version": 1,
    }
    assert feature_levels("3.9", ("group.version=1",), dynamic=False) == {
        "metadata.version": 21,
        "kraft.version": 0,
        "group.version": 1,
    }


@pytest.mark.parametrize(
    ("release", "settings"),
    [
        ("2.0", ()),
        (None, ("x",)),
        (None, ("x=1",)),
        (None, ("group.version=9",)),
        (None, ("group.version=a",)),
        (None, ("metadata.version=99",)),
        ("4.3", ("metadata.version=30",)),
        (None, ("kraft.version=0",)),
    ],
)
def test_features_that_do_not_exist_are_refused(release: str | None, settings: tuple[str, ...]) -> None:
    with pytest.raises(FormatError):
        feature_levels(release, settings, dynamic=True)


def test_a_word_where_options_belong_is_reported_in_one_line() -> None:
    done = CliRunner().invoke(main, ["get-offsets", "of", "orders"])
    assert done.exit_code == 1
    assert done.stderr == (
        "Got unexpected extra arguments (of orders): this tool takes options alone, such as --topic TOPIC; "
        "highwater get-offsets --help lists them\n"
    )
