"""A range is read whole over everything that passes, and given up where nothing comes."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns

import pytest

from highwater.client import Client, Producer
from highwater.cluster import Cluster
from highwater.model import TopicPartition
from highwater.pipeline.fetching import NothingCame
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.reading import Columns, Reading, read_with
from highwater.pipeline.selection import BadOption
from tests.pipeline.readers import batch_rows, streaming, values

pytestmark = pytest.mark.slow
Produce = Callable[..., None]


def test_a_leader_killed_in_the_middle_of_a_read_costs_no_record_and_doubles_none(produce: Produce) -> None:
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("killed", assignment=[[1, 2, 3]])
        written = [b"%06d" % number for number in range(20_000)]
        produce(cluster.bootstrap_servers, "killed", [(0, None, value) for value in written])
        reading = Reading(cluster.bootstrap_servers, max_partition_bytes=1, deadline_seconds=60)
        with reading.client() as client:
            batches = read_with(client, reading, OffsetRange("killed", "", 0, 0, len(written)), Columns())
            read = next(batches).column("value").to_pylist()
            assert len(read) < len(written), "there is something left to read"
            leader = cluster.leader("killed", 0)
            assert leader is not None
            cluster.kill(leader)
            for batch in batches:
                read += batch.column("value").to_pylist()
        assert read == written
        assert cluster.leader("killed", 0) != leader


def test_a_range_that_never_fills_is_given_up_at_the_deadline(cluster: Cluster, produce: Produce) -> None:
    cluster.create_topic("short")
    produce(cluster.bootstrap_servers, "short", [(0, None, b"only")])
    reading = Reading(cluster.bootstrap_servers, deadline_seconds=0.5, max_wait_seconds=0.1)
    with reading.client() as client:
        batches = read_with(client, reading, OffsetRange("short", "", 0, 0, 5), Columns())
        assert next(batches).num_rows == 1
        with pytest.raises(NothingCame, match=r"short-0 at or after offset 1 \(wanted: up to 5\).*below 1"):
            next(batches)


def test_a_batch_takes_about_as_many_bytes_as_it_may_and_all_records_come(cluster: Cluster) -> None:
    """It takes whole batches of the log, so they are made alike, however busy the machine is."""
    cluster.create_topic("heavy", 2)
    written = [b"%06d" % number + b"." * (1500 if number % 2 else 500) for number in range(6000)]
    now = time_ns() // 1_000_000
    with Client(cluster.bootstrap_servers) as client:
        producer = Producer(client)
        for partition in (0, 1):
            values = written[partition::2]
            for first in range(0, len(values), 30):
                records = [(now, None, value, ()) for value in values[first : first + 30]]
                producer.send(TopicPartition("heavy", partition), records)
    limit = 1_000_000
    with streaming(cluster.bootstrap_servers, subscribe="heavy", startingOffsets="earliest",
                   maxBytesPerTrigger=limit) as query:  # fmt: skip
        batches = []
        while (rows := query.batch()) is not None:
            batches.append(rows)
    sizes = [sum(len(row["value"]) for row in rows) for rows in batches if rows]
    assert len(sizes) >= 5
    assert all(limit * 0.7 < size < limit * 1.1 for size in sizes[:-2]), sizes
    assert sorted(row["value"] for rows in batches for row in rows) == sorted(written)


def test_the_bounds_of_a_batch_are_found_by_offset_time_and_group(cluster: Cluster, produce: Produce) -> None:
    servers = cluster.bootstrap_servers
    cluster.create_topic("bounds", 2)
    produce(servers, "bounds", [(number % 2, None, b"%02d" % number) for number in range(20)])
    everything = batch_rows(servers, subscribe="bounds")
    assert len(everything) == 20
    fifth = next(row for row in everything if row["partition"] == 0 and row["offset"] == 5)
    some = batch_rows(
        servers,
        subscribe="bounds",
        startingOffsets='{"bounds":{"0":3,"1":-2}}',
        endingOffsets='{"bounds":{"0":5,"1":-1}}',
    )
    assert [(row["partition"], row["offset"]) for row in some] == [
        (0, 3),
        (0, 4),
        *((1, offset) for offset in range(10)),
    ]
    milliseconds = int(fifth["timestamp"].timestamp() * 1000)
    since = batch_rows(servers, assign='{"bounds":[0]}', startingTimestamp=milliseconds)
    assert {row["offset"] for row in since} >= set(range(5, 10))
    assert all(row["timestamp"] >= fifth["timestamp"] for row in since)
    before = batch_rows(servers, assign='{"bounds":[0]}', endingTimestamp=milliseconds)
    assert len(before) + len(since) == 10
    with pytest.raises(BadOption, match="no record at or after"):
        batch_rows(servers, subscribe="bounds", startingTimestamp=milliseconds + 10**9)
    late = {"startingTimestamp": milliseconds + 10**9, "startingOffsetsByTimestampStrategy": "latest"}
    assert batch_rows(servers, subscribe="bounds", **late) == []
    with pytest.raises(BadOption, match="not named: bounds-1"):
        batch_rows(servers, subscribe="bounds", startingOffsets='{"bounds":{"0":3}}')
    with pytest.raises(BadOption, match="has no topic nowhere, which the query is to read"):
        batch_rows(servers, subscribe="nowhere,bounds")


def test_limits_cut_a_stream_into_batches_and_available_now_ends_it(cluster: Cluster, produce: Produce) -> None:
    servers = cluster.bootstrap_servers
    cluster.create_topic("limits", 2)
    produce(servers, "limits", [(number % 2, None, b"%02d" % number) for number in range(20)])
    options = {"subscribe": "limits", "startingOffsets": "earliest", "maxOffsetsPerTrigger": 6}
    with streaming(servers, **options, minOffsetsPerTrigger=5, maxTriggerDelay="1h") as query:
        query.reader.prepareForTriggerAvailableNow()
        produce(servers, "limits", [(0, None, b"too late")])
        sizes = []
        while (rows := query.batch()) is not None:
            sizes.append(len(rows))
        assert sizes == [0, 6, 6, 6, 2], "the first settles the start; the last has less than the minimum"
        latest = query.reader.reportLatestOffset()["topics"]["limits"]["offsets"]
        assert latest == {"0": 10, "1": 10}


def test_a_batch_below_min_offsets_waits_for_more_records_or_for_the_delay(cluster: Cluster, produce: Produce) -> None:
    servers = cluster.bootstrap_servers
    cluster.create_topic("patience")
    with streaming(servers, subscribe="patience", minOffsetsPerTrigger=3, maxTriggerDelay="1h") as query:
        assert query.run() == []
        produce(servers, "patience", [(0, None, b"1"), (0, None, b"2")])
        assert query.batch() is None
        produce(servers, "patience", [(0, None, b"3")])
        assert values(query.run()) == [b"1", b"2", b"3"]
        query.restart(maxTriggerDelay="0ms")
        produce(servers, "patience", [(0, None, b"4")])
        assert values(query.run()) == [b"4"]


def test_partitions_found_while_running_are_read_from_their_beginning(cluster: Cluster, produce: Produce) -> None:
    servers = cluster.bootstrap_servers
    cluster.create_topic("grows-one")
    with streaming(servers, subscribePattern="^grows-") as query:
        assert query.run() == []
        cluster.create_topic("grows-two", 2)
        produce(servers, "grows-two", [(0, None, b"a"), (1, None, b"b")])
        assert values(query.run()) == [b"a", b"b"]


def test_a_first_batch_that_fails_after_latest_was_looked_up_loses_nothing(cluster: Cluster, produce: Produce) -> None:
    servers = cluster.bootstrap_servers
    cluster.create_topic("first-batch")
    produce(servers, "first-batch", [(0, None, b"before")])
    with streaming(servers, subscribe="first-batch", startingOffsets="latest") as query:
        query._plan()
        query.restart()
        produce(servers, "first-batch", [(0, None, b"while it was down")])
        assert values(query.run()) == [b"while it was down"]
