"""Batches between us and the record code of the Python clients, both ways."""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from highwater.wire import records
from tests.wire.record_samples import CODECS, some_records

with warnings.catch_warnings():  # kafka-python loads its own files in a way that Python has deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import MemoryRecords as KafkaPythonRecords
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

WITHOUT_A_LIBRARY = {"none": 0, "gzip": 1}
"""The codecs that kafka-python reads with Python's own library alone."""


def fields(theirs: Any) -> tuple[Any, ...]:
    return theirs.offset, theirs.timestamp, theirs.key, theirs.value, list(theirs.headers)


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_reads_what_we_write(codec: str) -> None:
    new = some_records(Random(1), 500)
    batch = DefaultRecordBatch(bytes(records.build(new, codec=CODECS[codec], base_offset=9, producer_id=4)))
    assert batch.validate_crc()
    assert (batch.producer_id, batch.next_offset) == (4, 509)
    assert [fields(record) for record in batch] == [(9 + i, *record) for i, record in enumerate(new)]


@pytest.mark.parametrize("codec", CODECS)
def test_we_read_what_aiokafka_writes(codec: str) -> None:
    new = some_records(Random(2), 500)
    builder = DefaultRecordBatchBuilder(2, CODECS[codec], False, 5, 1, 3, 1 << 20)
    for offset, (timestamp, key, value, headers) in enumerate(new):
        assert builder.append(offset, timestamp=timestamp, key=key, value=value, headers=list(headers))
    batch = bytes(builder.build())
    assert records.is_intact(batch)
    header = records.read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (5, 1, 3, 502)
    assert records.iterate(batch) == [(offset, *record) for offset, record in enumerate(new)]


@pytest.mark.parametrize("codec", WITHOUT_A_LIBRARY)
def test_kafka_python_reads_what_we_write(codec: str) -> None:
    new = some_records(Random(3), 500)
    batch = KafkaPythonRecords(bytes(records.build(new, codec=WITHOUT_A_LIBRARY[codec]))).next_batch()
    assert batch.validate_crc()
    assert [fields(record) for record in batch] == [(i, *record) for i, record in enumerate(new)]


@pytest.mark.parametrize("codec", WITHOUT_A_LIBRARY)
def test_we_read_what_kafka_python_writes(codec: str) -> None:
    new = some_records(Random(4), 500)
    builder = KafkaPythonBuilder(2, WITHOUT_A_LIBRARY[codec], False, 5, 1, 3, 1 << 20)
    for offset, (timestamp, key, value, headers) in enumerate(new):
        assert builder.append(offset, timestamp, key, value, list(headers))
    assert records.iterate(bytes(builder.build())) == [(offset, *record) for offset, record in enumerate(new)]
