"""producer-perf and consumer-perf print what Apache's print, but for the figures that no two runs share."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from highwater.client import Admin, Client, NewTopic
from highwater.cluster.reading import stored_records
from highwater.model import TopicPartition
from tests.cluster.tools import Server, apache, call, ours

SECONDS = 60.0
SENDING = {
    "a size": "--num-records 200 --record-size 50 --throughput -1",
    "numbers": "--num-records 20 --payload-monotonic --throughput 1000",
    "a file": "--num-records 10 --payload-file FILE --throughput -1",
    "a file with another delimiter": "--num-records 10 --payload-file FILE --payload-delimiter , --throughput -1",
    "a warm-up": "--num-records 50 --record-size 10 --throughput -1 --warmup-records 20",
    "settings": "--num-records 30 --record-size 9 --throughput -1 --command-property acks=1 linger.ms=0 batch.size=100",
    "old names": "--num-records 5 --record-size 9 --throughput -1 --producer-props acks=all compression.type=gzip",
    "intervals": "--num-records 40 --record-size 9 --throughput 100 --reporting-interval 100",
}
READING = {
    "all of it": "--num-records 355",
    "by its old name": "--messages 355",
    "without header": "--num-records 355 --hide-header",
    "more than there is": "--num-records 400 --timeout 3000",
    "by another format": "--num-records 355 --date-format yyyy/MM/dd'T'HH:mm",
    "only the header": "--num-records 355 --show-detailed-stats --reporting-interval 600000",
}
REFUSED = {
    "producer-perf --topic t --num-records 0 --record-size 3 --throughput -1": (
        "--num-records should be greater than zero."
    ),
    "producer-perf --topic t --num-records 5 --record-size 0 --throughput -1": (
        "--record-size should be greater than zero."
    ),
    "producer-perf --topic t --num-records 5 --record-size 1 --throughput -1 --reporting-interval 0": (
        "--reporting-interval should be greater than zero."
    ),
    "producer-perf --topic t --num-records 5 --record-size 1 --throughput -1 --warmup-records 5": (
        "The value for --warmup-records must be strictly fewer than the number of records in the test, --num-records."
    ),
    "producer-perf --topic t --num-records 5 --record-size 1 --throughput -1 --command-property a": (
        "Invalid property: a"
    ),
    "producer-perf --topic t --num-records 5 --payload-file MISSING --throughput -1": (
        "File does not exist or empty file provided."
    ),
    "consumer-perf --num-records 5": "Exactly one of the following arguments is required: [topic], [include]",
    "consumer-perf --topic t": "Exactly one of the following arguments is required: [messages], [num-records]",
    "consumer-perf --topic t --num-records 5 --reporting-interval 0": "Reporting interval must be greater than 0.",
}
WORDS = {"MISSING": "no-such-file"}


def figures_masked(text: str) -> list[str]:
    """Numbers keep the count of their decimals. How many lines an interval gives depends on the machine."""
    masked = [re.sub(r"\d+(\.\d+)?", lambda found: "N" + "n" * len(found[1] or ""), line) for line in text.splitlines()]
    return [line for index, line in enumerate(masked) if line not in masked[:index]]


@pytest.fixture(scope="module")
def payloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("perf") / "payloads.txt"
    file.write_text("one,two\nthree,four\n\u00e4\n")
    return file


@pytest.mark.parametrize("flags", SENDING.values(), ids=SENDING.keys())
def test_sending_prints_the_layout_of_apache_s_tool_and_stores_every_record(
    server: Server, payloads: Path, flags: str
) -> None:
    options = flags.replace("FILE", str(payloads))
    wanted = int(flags.split()[1])
    values = []
    printed = []
    for name in ("apache", "us"):
        topic = f"perf-{name}-{list(SENDING.values()).index(flags)}"
        with Client(server.bootstrap) as client:
            Admin(client).create_topics([NewTopic(topic, partitions=2)])
        one = call("producer-perf", "--bootstrap-server", server.bootstrap, "--topic", topic, *options.split())
        ran = apache([one])[0] if name == "apache" else ours(one)
        assert ran.rc == 0, ran.stderr
        printed.append(ran.stdout)
        stored = stored_records(server.bootstrap, [TopicPartition(topic, 0), TopicPartition(topic, 1)], SECONDS)
        values.append([record.value for record in stored])

    assert figures_masked(printed[1]) == figures_masked(printed[0])
    total = next(line for line in printed[1].splitlines() if "99.9th" in line)
    assert total.startswith(f"{wanted} records sent, ")
    assert [len(each) for each in values] == [wanted, wanted]
    if "monotonic" in flags:
        assert sorted(values[0]) == sorted(values[1])
    elif "FILE" in flags:
        assert set(values[1]) <= set(re.split(b"," if "delimiter" in flags else b"\n", payloads.read_bytes()))
    else:
        assert {len(value or b"") for each in values for value in each} == {int(flags.split()[3])}


@pytest.fixture(scope="module")
def filled(server: Server) -> str:
    topic = "perf-read"
    with Client(server.bootstrap) as client:
        if topic not in Admin(client).list_topics():
            Admin(client).create_topics([NewTopic(topic, partitions=3)])
            flags = f"--bootstrap-server {server.bootstrap} --topic {topic} --num-records 355 --record-size 1000"
            assert ours(call("producer-perf", *flags.split(), "--throughput", "-1")).rc == 0
    return topic


@pytest.mark.parametrize("flags", READING.values(), ids=READING.keys())
def test_reading_prints_the_layout_of_apache_s_tool(server: Server, filled: str, flags: str) -> None:
    one = call("consumer-perf", "--bootstrap-server", server.bootstrap, "--topic", filled, *flags.split())
    (expected,) = apache([one])
    found = ours(one)

    assert found.rc == expected.rc == 0, found.stderr
    assert figures_masked(found.stdout) == figures_masked(expected.stdout)
    if "detailed" not in flags:
        assert [line.split(", ")[2:5:2] for line in found.stdout.splitlines()][-1] == ["0.3386", "355"]


def test_an_interval_has_a_line_of_its_own(server: Server, filled: str) -> None:
    flags = "--num-records 355 --show-detailed-stats --reporting-interval 1"
    one = call("consumer-perf", "--bootstrap-server", server.bootstrap, "--topic", filled, *flags.split())
    (expected,) = apache([one])
    assert figures_masked(ours(one).stdout)[:2] == figures_masked(expected.stdout)[:2]


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_measured_is_refused_for_the_same_reason(server: Server, line: str) -> None:
    tool, *args = (WORDS.get(word, word) for word in line.split())
    one = call(tool, "--bootstrap-server", server.bootstrap, *args)
    (expected,) = apache([one])
    found = ours(one)
    assert REFUSED[line] in " ".join((expected.stderr + expected.stdout).split()), "its lines are filled with spaces"
    assert found.stderr.splitlines()[0] == REFUSED[line]
    assert found.rc == 1


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ("producer-perf --num-records 1 --record-size 1 --throughput 1 --transactional-id x", "Transactions are not"),
        ("producer-perf --num-records 1 --record-size 1 --throughput 1 --print-metrics", "--print-metrics is not"),
        (
            "producer-perf --num-records 1 --record-size 1 --throughput 1 --command-property acks=0",
            "acks is 0: it must",
        ),
        ("consumer-perf --num-records 1 --print-metrics", "--print-metrics is not"),
        ("consumer-perf --num-records 1 --date-format MMM", "The part 'MMM' of a date format is not available"),
    ],
)
def test_what_is_not_available_in_the_measuring_tools_is_said(server: Server, flags: str, why: str) -> None:
    tool, *args = flags.split()
    found = ours(call(tool, "--bootstrap-server", server.bootstrap, "--topic", "perf-none", *args))
    assert found.rc == 1
    assert why in found.stderr.splitlines()[0] + found.stdout
