"""What a query may write to topics is checked before any task; the columns and the words are those of Spark's sink."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from highwater.pipeline.producing import ProducerSettings
from highwater.pipeline.topic_sink import TopicSink, topic_sink
from highwater.wire.compression import Codec

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def checked(ddl: dict[str, str], **options: str) -> TopicSink:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in ddl.items()]
    return topic_sink(StructType.fromJson({"type": "struct", "fields": fields}), {**SERVERS, **options})


def test_a_value_and_somewhere_to_send_it_are_enough() -> None:
    assert checked({"value": "string"}, topic="t").topic == "t"
    assert checked({"value": "binary", "topic": "string"}).topic is None
    assert checked({"value": "string", "other": "double"}, topic="t").headers


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        ({"value": "string"}, {}, "topic option required when no 'topic' attribute is present"),
        ({"key": "string"}, {"topic": "t"}, "Required attribute 'value' not found"),
        ({"value": "integer"}, {"topic": "t"}, "value attribute type must be a string or binary, not int"),
        (
            {"value": "string", "key": "long"},
            {"topic": "t"},
            "key attribute type must be a string or binary, not bigint",
        ),
        ({"value": "string", "topic": "binary"}, {}, "topic attribute type must be a string, not binary"),
        (
            {"value": "string", "partition": "long"},
            {"topic": "t"},
            "partition attribute type must be a int, not bigint",
        ),
        (
            {"value": "string", "headers": "string"},
            {"topic": "t"},
            "headers attribute type must be a array<struct<key:",
        ),
        ({"value": "string"}, {"topic": "t", "topik": "u"}, "unknown option 'topik'"),
        ({"value": "string"}, {"topic": "t", "path": "folder"}, "unknown option 'path'"),
        ({"value": "string"}, {"topic": "t", "includeHeaders": "maybe"}, "includeHeaders is 'maybe'"),
    ],
)
def test_columns_that_cannot_be_written_are_refused(
    columns: dict[str, str], options: dict[str, str], reason: str
) -> None:
    with pytest.raises(ValueError, match="^") as refused:
        checked(columns, **options)
    assert reason in str(refused.value)


def test_every_setting_of_the_producer_is_understood() -> None:
    settings = ProducerSettings.from_options(
        {
            **SERVERS,
            "kafka.acks": "1",
            "kafka.batch.size": "1000",
            "kafka.client.id": "me",
            "Kafka.Compression.Type": "zstd",
            "kafka.delivery.timeout.ms": "5000",
            "kafka.max.in.flight.requests.per.connection": "2",
            "kafka.max.request.size": "2000",
            "kafka.request.timeout.ms": "1500",
        }
    )
    assert settings == ProducerSettings(
        "127.0.0.1:9092", "me", 1, False, Codec.ZSTD, 1000, 2000, 2, request_seconds=1.5, delivery_seconds=5.0
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "Option 'kafka.bootstrap.servers' must be specified"),
        ({"kafka.bootstrap.servers": "nowhere"}, "Invalid url in bootstrap.servers: nowhere"),
        ({**SERVERS, "kafka.linger.ms": "5"}, "'kafka.linger.ms' is not a setting of this producer"),
        ({**SERVERS, "kafka.key.serializer": "X"}, "Kafka option 'key.serializer' is not supported"),
        ({**SERVERS, "kafka.acks": "0"}, "kafka.acks is '0': it must be all, -1 or 1"),
        ({**SERVERS, "kafka.acks": "1", "kafka.enable.idempotence": "true"}, "kafka.acks must be all where"),
        ({**SERVERS, "kafka.compression.type": "rar"}, "kafka.compression.type is 'rar': it must be one of none, gzip"),
        ({**SERVERS, "kafka.batch.size": "big"}, "kafka.batch.size is 'big': it must be a whole number"),
        ({**SERVERS, "kafka.security.protocol": "TLS"}, "kafka.security.protocol is TLS: it must be one of PLAINTEXT"),
    ],
)
def test_a_setting_that_would_not_be_acted_on_is_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match="^") as refused:
        ProducerSettings.from_options(options)
    assert reason in str(refused.value)
