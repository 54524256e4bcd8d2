"""console-producer writes what Apache's writes; console-consumer prints what Apache's prints."""

from __future__ import annotations

import select
import subprocess
import sys
from typing import NamedTuple

import pytest

from highwater.client import Admin, Client, NewTopic, Producer
from highwater.cluster.reading import stored_records
from highwater.model import TopicPartition
from highwater.wire.compression import Codec
from tests.apache import Ran
from tests.cluster.tools import Call, Server, apache, call, difference, ours, ours_as_process

SECONDS = 60.0
IDLE_MS = 6000
"""After so long without a record a consumer ends: long enough for its first one to come on a busy machine."""
KEYED = "".join(f"key-{i}\tvalue {i}\n" for i in range(40))
WRITING = {
    "plain lines": ("", "one\ntwo\n\nfour \u00e4\u20ac\n"),
    "keys": ("--reader-property parse.key=true", KEYED),
    "keys by a separator": ("--reader-property parse.key=true --reader-property key.separator=::", "a::b\nc::d::e\n"),
    "headers": (
        "--reader-property parse.headers=true --reader-property parse.key=true",
        "h1:v1,h2:v2\tk\tv\nh:\tk\tv\n",
    ),
    "nulls": (
        "--reader-property parse.headers=true --reader-property parse.key=true --reader-property null.marker=NIL",
        "NIL\tNIL\tNIL\nh:NIL\tk\tNIL\n",
    ),
    "errors ignored": ("--reader-property parse.key=true --reader-property ignore.error=true", "no separator\n"),
    "one at a time": ("--sync", "a\nb\nc\n"),
    "compressed": ("--compression-codec", KEYED),
    "compressed by name": ("--compression-codec zstd", KEYED),
    "without waiting": ("--request-required-acks 1 --batch-size 50", KEYED),
    "a last line without its end": ("", "whole\nhalf"),
}
READING = {
    "values": "",
    "everything": (
        "--formatter-property print.timestamp=true --formatter-property print.partition=true"
        " --formatter-property print.offset=true --formatter-property print.headers=true"
        " --formatter-property print.key=true --formatter-property print.epoch=true"
        " --formatter-property print.delivery=true"
    ),
    "keys alone": "--formatter-property print.key=true --formatter-property print.value=false",
    "other separators": (
        "--formatter-property print.key=true --formatter-property print.headers=true"
        " --formatter-property key.separator=| --formatter-property headers.separator=;"
        " --formatter-property null.literal=NIL --formatter-property line.separator=<end>"
    ),
    "strings": "--value-deserializer org.apache.kafka.common.serialization.StringDeserializer",
    "old flag": "--property print.key=true",
}


class Written(NamedTuple):
    """A record without its offset and time."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_back(server: Server, topic: str, partitions: int) -> list[Written]:
    """By partition, each in its order."""
    wanted = [TopicPartition(topic, partition) for partition in range(partitions)]
    stored = stored_records(server.bootstrap, wanted, SECONDS)
    return [Written(record.partition, record.key, record.value, record.headers) for record in stored]


def writing(server: Server, who: str, case: str) -> Call:
    flags, lines = WRITING[case]
    topic = f"tools-written-{who}-{list(WRITING).index(case)}"
    # After its default of 1.5 s Apache's tool drops, on a busy machine, what it has not stored yet.
    flags += f" --command-property request.timeout.ms={int(SECONDS) * 1000}"
    return call(
        "console-producer", "--bootstrap-server", server.bootstrap, "--topic", topic, *flags.split(), input=lines
    )


@pytest.fixture(scope="module")
def written_by_apache(server: Server) -> None:
    with Client(server.bootstrap) as client:
        Admin(client).create_topics(
            [
                NewTopic(f"tools-written-{who}-{number}", partitions=3)
                for who in ("apache", "us")
                for number in range(len(WRITING))
            ]
        )
    for result in apache([writing(server, "apache", case) for case in WRITING]):
        assert result.rc == 0, result.stderr


@pytest.mark.parametrize("case", WRITING)
def test_lines_become_the_same_records(server: Server, written_by_apache: None, case: str) -> None:
    done = ours_as_process(writing(server, "us", case))
    assert (done.rc, done.stdout, done.stderr) == (0, "", "")
    number = list(WRITING).index(case)

    expected = read_back(server, f"tools-written-apache-{number}", 3)
    found = read_back(server, f"tools-written-us-{number}", 3)

    assert len(found) == len(WRITING[case][1].splitlines())
    if all(record.key is not None for record in expected):
        assert found == expected
    else:  # where a record without key goes is left to chance
        assert sorted(map(repr, (record[1:] for record in found))) == sorted(map(repr, (r[1:] for r in expected)))


def test_a_line_without_its_separator_ends_the_producer(server: Server, written_by_apache: None) -> None:
    one = call(
        "console-producer", "--bootstrap-server", server.bootstrap, "--topic", "tools-written-us-0",
        "--reader-property", "parse.key=true", input="no separator\n",
    )  # fmt: skip
    (expected,) = apache([one])
    found = ours_as_process(one)

    assert found.rc == expected.rc == 1
    assert found.stderr.strip() == "No key separator found on line number 1: 'no separator'"
    assert found.stderr.strip() in expected.stderr


@pytest.fixture(scope="module")
def readable(server: Server) -> str:
    """A partition with every codec, headers and nulls."""
    topic = "tools-readable"
    with Client(server.bootstrap) as client:
        Admin(client).create_topics([NewTopic(topic, partitions=2, configs={"retention.ms": "-1"})])
        for codec in Codec:
            Producer(client, codec=codec).send(
                TopicPartition(topic, 0),
                [
                    (1_500_000_000_000 + codec, b"key", codec.name.encode(), [("h", b"1"), ("i", None)]),
                    (1_500_000_000_001 + codec, None, None, ()),
                    (1_500_000_000_002 + codec, b"", "\u00e4\u20ac".encode(), [("", b"")]),
                ],
            )
    return topic


def reading(server: Server, topic: str, flags: str) -> Call:
    return call(
        "console-consumer", "--bootstrap-server", server.bootstrap, "--topic", topic, "--partition", "0", *flags.split()
    )


@pytest.fixture(scope="module")
def read_by_apache(server: Server, readable: str, transactional_topic: str) -> dict[str, Ran]:
    flags = [f"--offset earliest --max-messages 15 {case}" for case in READING.values()]
    flags += ["--offset 4 --max-messages 3", "--from-beginning --max-messages 2", f"--offset 13 --timeout-ms {IDLE_MS}"]
    calls = [reading(server, readable, each) for each in flags]
    for level, count in (("read_committed", 9 if server.is_ours else 6), ("read_uncommitted", 9)):
        flags.append(f"--from-beginning --max-messages {count} --isolation-level {level}")
        calls.append(reading(server, transactional_topic, flags[-1]))
    return dict(zip(flags, apache(calls), strict=True))


def test_records_are_printed_alike(
    server: Server, readable: str, transactional_topic: str, read_by_apache: dict[str, Ran]
) -> None:
    for flags, expected in read_by_apache.items():
        topic = transactional_topic if "isolation" in flags else readable
        found = ours(reading(server, topic, flags))

        assert found.stdout == expected.stdout, difference(expected.stdout.splitlines(), found.stdout.splitlines())
        assert found.rc == expected.rc == 0, found.stderr
        assert found.stderr.splitlines()[-1] in expected.stderr.splitlines()


def test_without_a_partition_all_partitions_are_read(server: Server, written_by_apache: None) -> None:
    topic = f"tools-written-apache-{list(WRITING).index('keys')}"
    flags = ("--from-beginning", "--max-messages", "40")
    found = ours(call("console-consumer", "--bootstrap-server", server.bootstrap, "--topic", topic, *flags))

    assert sorted(found.stdout.splitlines()) == sorted(f"value {i}" for i in range(40))


def test_a_new_record_is_printed_as_it_comes(server: Server) -> None:
    topic = "tools-followed"
    with Client(server.bootstrap) as client:
        Admin(client).create_topics([NewTopic(topic, partitions=1, configs={"retention.ms": "-1"})])
        command = [sys.executable, "-c", "from highwater.cli import main; main()", "console-consumer"]
        with subprocess.Popen(
            [*command, "--bootstrap-server", server.bootstrap, "--topic", topic], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            # The reader begins at the end, and nothing shows when it has: so records are sent until one is printed.
            producer = Producer(client)
            while not select.select([process.stdout], [], [], 0.2)[0]:
                producer.send(TopicPartition(topic, 0), [(1, None, b"news", ())])
            line = process.stdout.readline()
            process.terminate()
    assert line == "news\n"


MISUSED = {
    "--topic t --include t": "Exactly one of the following arguments is required: [topic], [include]",
    "": "Exactly one of the following arguments is required: [topic], [include]",
    "--include t --partition 0": "The topic is required when partition is specified.",
    "--topic t --offset 3": "The partition is required when offset is specified.",
    "--topic t --partition 0 --offset 3 --from-beginning": (
        "Options from-beginning and offset cannot be specified together."
    ),
    "--topic t --partition 0 --offset -3": (
        "The provided offset value '-3' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long."
    ),
    "--topic t --partition 0 --group g": "Options group and partition cannot be specified together.",
    "--topic t --property a=b --formatter-property c=d": (
        "Options --property and --formatter-property cannot be specified together."
    ),
}


def test_misuse_of_the_consumer_is_reported_as_apache_reports_it(server: Server) -> None:
    calls = [
        call("console-consumer", "--bootstrap-server", server.bootstrap, *flags.split(" ") if flags else ())
        for flags in MISUSED
    ]
    for one, expected, (flags, why) in zip(calls, apache(calls), MISUSED.items(), strict=True):
        found = ours(one)
        assert found.rc == expected.rc == 1, flags
        assert why in expected.stderr.splitlines(), flags
        assert found.stderr.splitlines()[0] == why, flags


def test_a_group_goes_on_where_it_ended_with_either_tool(server: Server, written_by_apache: None) -> None:
    topic = f"tools-written-apache-{list(WRITING).index('keys')}"
    # Always from the beginning: a partition of which nothing was read yet has no offset to go on from.
    flags = ("--bootstrap-server", server.bootstrap, "--topic", topic, "--group", "tools-readers", "--from-beginning")
    common = ("console-consumer", *flags)
    first = ours(call(*common, "--max-messages", "13", "--timeout-ms", "30000"))
    second = ours(call(*common, "--max-messages", "11", "--timeout-ms", "30000"))
    (third,) = apache([call(*common, "--max-messages", "16", "--timeout-ms", "30000")])
    last = ours(call(*common, "--timeout-ms", str(IDLE_MS)))

    read = [each.stdout.splitlines() for each in (first, second, third, last)]
    assert [len(lines) for lines in read] == [13, 11, 16, 0]
    assert sorted(line for lines in read for line in lines) == sorted(f"value {i}" for i in range(40))


def test_records_that_come_to_an_empty_partition_while_a_group_is_away_are_read_later(server: Server) -> None:
    topic, flags = "tools-gaps", ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    with Client(server.bootstrap) as client:
        Admin(client).create_topics([NewTopic(topic, partitions=3)])
    common = ("--bootstrap-server", server.bootstrap, "--topic", topic)
    ours_as_process(call("console-producer", *common, *flags, input="k:first\n"))
    reader = ("console-consumer", *common, "--group", "tools-gaps")
    first = ours(call(*reader, "--from-beginning", "--max-messages", "1", "--timeout-ms", "30000"))
    assert first.stdout.splitlines() == ["first"]
    ours_as_process(call("console-producer", *common, *flags, input="".join(f"{key}:{key}\n" for key in "abcdefgh")))
    second = ours(call(*reader, "--max-messages", "8", "--timeout-ms", "30000"))
    assert sorted(second.stdout.splitlines()) == list("abcdefgh")


def test_lines_before_one_that_cannot_be_read_are_sent_by_both(server: Server) -> None:
    calls = {}
    with Client(server.bootstrap) as client:
        for who in ("apache", "us"):
            topic = f"tools-broken-{who}"
            Admin(client).create_topics([NewTopic(topic, partitions=1)])
            flags = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
            lines = "a:1\nb:2\nno key\nc:3\n"
            calls[who] = call(
                "console-producer", "--bootstrap-server", server.bootstrap, "--topic", topic, *flags, input=lines
            )
    (theirs,) = apache([calls["apache"]])
    us = ours_as_process(calls["us"])
    assert (theirs.rc, us.rc) == (1, 1)
    assert "No key separator found on line number 3: 'no key'" in us.stderr
    stored = read_back(server, "tools-broken-us", 1)
    assert [record.value for record in stored] == [b"1", b"2"]
    assert stored == read_back(server, "tools-broken-apache", 1)
