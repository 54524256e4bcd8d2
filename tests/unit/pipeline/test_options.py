"""What the reader takes, what it refuses, and that it says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.model import TopicPartition
from highwater.pipeline.decode.decoding import OPTIONS as DECODE_OPTIONS
from highwater.pipeline.options import KNOWN, SourceOptions
from highwater.pipeline.selection import (
    Assigned,
    AtOffsets,
    AtTime,
    AtTimes,
    BadOption,
    Everywhere,
    Matching,
    Subscribed,
)

ROOT = Path(__file__).parents[3]
NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def parsed(streaming: bool = True, without: str = "", **options: str) -> SourceOptions:
    given = {name: value for name, value in NEEDED.items() if name != without}
    return SourceOptions.parse(
        given | {name.replace("__", "."): value for name, value in options.items()}, streaming=streaming
    )


def test_a_stream_starts_at_the_end_and_a_batch_reads_everything() -> None:
    assert parsed(streaming=True).starting is Everywhere.LATEST
    batch = parsed(streaming=False)
    assert (batch.starting, batch.ending) == (Everywhere.EARLIEST, Everywhere.LATEST)


def test_names_count_in_any_case() -> None:
    assert parsed(STARTINGOFFSETS="Earliest", kafka__GROUP__ID="g").starting is Everywhere.EARLIEST
    assert parsed(KAFKA__group__id="g").group_id == "g"


@pytest.mark.parametrize(
    ("option", "value", "selection"),
    [
        ("assign", '{"orders":[0,1]}', Assigned((P0, P1))),
        ("subscribe", "orders, refunds ,", Subscribed(("orders", "refunds"))),
        ("subscribePattern", " ord.* ", Matching("ord.*")),
    ],
)
def test_the_topics_to_read_are_selected_in_one_of_three_ways(option: str, value: str, selection: object) -> None:
    assert parsed(without="subscribe", **{option: value}).selection == selection


@pytest.mark.parametrize(
    ("options", "bound"),
    [
        ({"startingOffsets": "earliest"}, Everywhere.EARLIEST),
        ({"startingOffsets": " LATEST "}, Everywhere.LATEST),
        ({"startingOffsets": "group", "kafka__group__id": "g"}, Everywhere.GROUP),
        ({"startingOffsets": '{"orders":{"0":23,"1":-1}}'}, AtOffsets({P0: 23, P1: -1})),
        ({"startingOffsetsByTimestamp": '{"orders":{"0":1000}}'}, AtTimes({P0: 1000})),
        ({"startingTimestamp": "1000"}, AtTime(1000)),
        # As with Spark's connector, a time goes before offsets.
        ({"startingTimestamp": "1000", "startingOffsets": "earliest"}, AtTime(1000)),
        ({"startingOffsetsByTimestamp": '{"orders":{"0":5}}', "startingOffsets": "earliest"}, AtTimes({P0: 5})),
    ],
)
def test_every_form_of_starting_offsets_is_parsed(options: dict[str, str], bound: object) -> None:
    assert parsed(**options).starting == bound


def test_every_form_of_ending_offsets_is_parsed() -> None:
    assert parsed(False, endingOffsets='{"orders":{"0":7}}').ending == AtOffsets({P0: 7})
    assert parsed(False, endingOffsetsByTimestamp='{"orders":{"0":7}}').ending == AtTimes({P0: 7})
    assert parsed(False, endingTimestamp="7").ending == AtTime(7)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15m", 900), ("15min", 900), ("30s", 30), ("500ms", 0.5), ("500", 0.5), ("1h", 3600), ("1d", 86400)],
)
def test_a_delay_is_parsed_with_or_without_its_unit(text: str, seconds: float) -> None:
    assert parsed(maxTriggerDelay=text).max_delay == pytest.approx(seconds)


def test_numbers_and_switches_reach_their_places() -> None:
    options = parsed(
        minOffsetsPerTrigger="10",
        maxOffsetsPerTrigger="20",
        minPartitions="3",
        maxRecordsPerPartition="4",
        failOnDataLoss="False",
        includeHeaders="TRUE",
        emit="ranges",
        kafkaConsumer__pollTimeoutMs="5000",
        fetchOffset__numRetries="5",
        fetchOffset__retryIntervalMs="20",
        kafka__isolation__level="read_committed",
        kafka__max__partition__fetch__bytes="1024",
        kafka__request__timeout__ms="7000",
        kafka__check__crcs="false",
        kafka__client__id="me",
    )
    assert (options.min_offsets, options.max_offsets, options.min_partitions, options.max_records) == (10, 20, 3, 4)
    assert (options.offset_attempts, options.offset_retry_seconds) == (5, 0.02)
    assert options.include_headers and options.emit_ranges
    reading = options.reading
    assert (reading.fail_on_data_loss, reading.read_committed, reading.check_crcs) == (False, True, False)
    assert (reading.deadline_seconds, reading.request_timeout_seconds) == (5, 7)
    assert (reading.max_partition_bytes, reading.client_id) == (1024, "me")


STREAM, BATCH = True, False

REFUSED: list[tuple[bool, dict[str, str], list[str]]] = [
    (STREAM, {"assign": '{"orders":[0]}'}, ["exactly one of", "given: assign, subscribe"]),
    (STREAM, {"subscribe": " , "}, ["subscribe", "' , '", "comma-separated"]),
    (STREAM, {"startingOffsets": "newest"}, ["startingOffsets", "'newest'", "earliest, latest"]),
    (STREAM, {"startingOffsets": "[1]"}, ["startingOffsets", "'[1]'", "expected"]),
    (STREAM, {"startingOffsets": '{"orders":{"0":-3}}'}, ["startingOffsets", "-3", "orders-0", "-2 (earliest)"]),
    (STREAM, {"startingOffsets": '{"orders":{"0":true}}'}, ["startingOffsets", "expected"]),
    (STREAM, {"startingOffsets": '{"orders":{"x":1}}'}, ["startingOffsets", "expected"]),
    (STREAM, {"startingOffsets": "group"}, ["'group'", "kafka.group.id"]),
    (STREAM, {"startingTimestamp": "soon"}, ["startingTimestamp", "'soon'", "whole number"]),
    (STREAM, {"startingOffsetsByTimestampStrategy": "first"}, ["Strategy", "'first'", "error or latest"]),
    (STREAM, {"endingOffsets": "latest"}, ["endingOffsets", "streaming"]),
    (STREAM, {"endingTimestamp": "1"}, ["endingTimestamp", "streaming"]),
    (STREAM, {"endingOffsetsByTimestamp": "{}"}, ["endingOffsetsByTimestamp", "streaming"]),
    (STREAM, {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, ["minOffsetsPerTrigger is 9", "is 8"]),
    (STREAM, {"maxOffsetsPerTrigger": "0"}, ["maxOffsetsPerTrigger", "'0'", "at least 1"]),
    (STREAM, {"maxTriggerDelay": "a while"}, ["maxTriggerDelay", "'a while'", "15m"]),
    (STREAM, {"minPartitions": "-1"}, ["minPartitions", "'-1'", "at least 1"]),
    (STREAM, {"maxRecordsPerPartition": "x"}, ["maxRecordsPerPartition", "'x'", "whole number"]),
    (STREAM, {"failOnDataLoss": "yes"}, ["failOnDataLoss", "'yes'", "true or false"]),
    (STREAM, {"emit": "records"}, ["emit", "'records'", "rows or ranges"]),
    (STREAM, {"kafka__auto__offset__reset": "earliest"}, ["kafka.auto.offset.reset", "startingOffsets"]),
    (STREAM, {"kafka__key__deserializer": "x"}, ["kafka.key.deserializer", "bytes"]),
    (STREAM, {"kafka__value__deserializer": "x"}, ["kafka.value.deserializer", "bytes"]),
    (STREAM, {"kafka__enable__auto__commit": "true"}, ["kafka.enable.auto.commit", "Spark"]),
    (STREAM, {"kafka__interceptor__classes": "x"}, ["kafka.interceptor.classes"]),
    (STREAM, {"kafka__isolation__level": "serializable"}, ["kafka.isolation.level", "read_committed"]),
    (STREAM, {"kafka__security__protocol": "TLS"}, ["kafka.security.protocol", "TLS", "PLAINTEXT, SSL"]),
    (STREAM, {"kafka__security__protocol": "SASL_SSL"}, ["kafka.sasl.mechanism is missing"]),
    (STREAM, {"kafka__bootstrap__servers": "nowhere"}, ["kafka.bootstrap.servers", "'nowhere'"]),
    (STREAM, {"startingOfsets": "earliest"}, ["startingOfsets", "'earliest'", "did you mean startingOffsets?"]),
    (BATCH, {"topic": "orders"}, ["topic", "where rows are written; subscribe names the topics to read"]),
    (STREAM, {"kafka__linger__ms": "5"}, ["kafka.linger.ms", "not known", "kafka.bootstrap.servers"]),
    (BATCH, {"startingOffsets": "latest"}, ["startingOffsets", "read nothing"]),
    (BATCH, {"endingOffsets": "earliest"}, ["endingOffsets", "read nothing"]),
    (BATCH, {"startingOffsets": '{"orders":{"0":-1}}'}, ["startingOffsets", "orders-0", "latest"]),
    (BATCH, {"endingOffsets": '{"orders":{"0":-2}}'}, ["endingOffsets", "orders-0", "earliest"]),
    (
        BATCH,
        {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"0":4}}'},
        ["orders-0", "from 5 to 4"],
    ),
    (
        BATCH,
        {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"1":9}}'},
        ["same partitions", "orders-0, orders-1"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("streaming", "options", "said"), REFUSED, ids=lambda value: str(value)[:60])
def test_a_wrong_option_is_refused_by_name_and_value(streaming: bool, options: dict[str, str], said: list[str]) -> None:
    with pytest.raises(BadOption) as refusal:
        parsed(streaming, **options)
    for words in said:
        assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("assign", "{}", "names no partition"),
        ("assign", '{"orders":[-1]}', "-1 is no partition"),
        ("assign", '{"orders":0}', "expected e.g."),
        ("assign", "orders", "not JSON"),
        ("subscribePattern", " ", "empty pattern"),
        ("subscribePattern", "(", "not a regular expression"),
    ],
)
def test_a_selection_that_selects_nothing_is_refused(option: str, value: str, said: str) -> None:
    with pytest.raises(BadOption, match=said):
        parsed(without="subscribe", **{option: value})


def test_the_cluster_and_the_selection_must_be_named() -> None:
    with pytest.raises(BadOption, match=r"kafka\.bootstrap\.servers is missing"):
        parsed(without="kafka.bootstrap.servers")
    with pytest.raises(BadOption, match="none is given"):
        parsed(without="subscribe")


def test_limits_per_trigger_are_pointed_out_in_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    parsed(False, maxOffsetsPerTrigger="5")
    assert "maxOffsetsPerTrigger has no effect on a batch query" in caplog.text


@pytest.mark.parametrize("name", ["kafka__sasl__password", "kafka__ssl__keystore__pasword", "kafka__clientSecret"])
def test_an_unknown_option_that_may_be_a_secret_is_not_shown(name: str) -> None:
    with pytest.raises(BadOption) as refusal:
        parsed(True, **{name: "s3cret"})
    assert name.replace("__", ".") in str(refusal.value) and "s3cret" not in str(refusal.value)


def test_every_option_is_in_the_document() -> None:
    text = (ROOT / "docs" / "connector.md").read_text()
    assert [name for name in KNOWN if f"`{name}" not in text and name not in DECODE_OPTIONS] == []
