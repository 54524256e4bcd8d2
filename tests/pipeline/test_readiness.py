"""What a pipeline writes to is looked for before Spark is started, and at the latest by the first task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from highwater.client.failures import ClientFailure
from highwater.cluster import Cluster
from highwater.pipeline import dead_letters
from highwater.pipeline.decode import Decoding
from highwater.pipeline.definition import Definition, define
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.readiness import check_clusters
from highwater.pipeline.reading import Reading
from highwater.pipeline.selection import BadOption
from highwater.pipeline.typed_rows import row_making

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def strict() -> Iterator[Cluster]:
    """Creates no topic that nobody asked it to create."""
    with Cluster(brokers=2, config={"auto.create.topics.enable": "false"}) as brokers:
        brokers.create_topic("orders")
        yield brokers


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "TOPIC_SECONDS", 0.2)


def definition(
    folder: Path, servers: str, sink: dict[str, Any], source: dict[str, Any] | None = None, **decode: Any
) -> Definition:
    read = {"bootstrap_servers": servers, **(source or {"topic": "orders"})}
    data: dict[str, Any] = {"name": "n", "source": read, "sink": sink}
    if decode:
        data["decode"] = {"format": "json", "schema": "id INT", **decode}
    if "topic" in sink:
        data["transform"] = "pack.py:pack"
    return define(data, folder)


def test_a_missing_source_topic_is_found_before_spark_is_started(strict: Cluster, tmp_path: Path) -> None:
    table, at = {"table": "parquet", "path": "table"}, strict.bootstrap_servers
    hasty = {"options": {"fetchOffset.numRetries": "1"}}
    missing = definition(tmp_path, at, table, {"topic": ["orders", "odrers"], **hasty})
    with pytest.raises(BadOption) as refused:
        check_clusters(missing)
    assert str(refused.value) == (
        f"{at} has no topic odrers, which the query is to read: create it first (`highwater topics --create`), or read "
        "another"
    )
    check_clusters(definition(tmp_path, at, table, {"pattern": "^not-yet", **hasty}))
    # With a checkpoint, the query itself reports what was lost.
    offsets = Path(missing.checkpoint) / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1\n")
    check_clusters(missing)
    with pytest.raises(BadOption, match="has no topic odrers"):  # nobody can look into this one from here
        check_clusters(replace(missing, checkpoint="hdfs://elsewhere/checkpoint"))


def test_a_missing_dead_letter_topic_is_found_before_spark_is_started(strict: Cluster, tmp_path: Path) -> None:
    table = {"table": "parquet", "path": "table"}
    check_clusters(definition(tmp_path, strict.bootstrap_servers, table))
    with pytest.raises(BadOption, match="the cluster has no topic orders.missing, which the dead letters go to"):
        check_clusters(definition(tmp_path, strict.bootstrap_servers, table, dead_letters="orders.missing"))
    strict.create_topic("orders.there")
    check_clusters(definition(tmp_path, strict.bootstrap_servers, table, dead_letters="orders.there"))


def test_a_missing_dead_letter_topic_fails_the_first_task_and_not_the_first_bad_record(strict: Cluster) -> None:
    reading = Reading(strict.bootstrap_servers, deadline_seconds=30)
    with (
        pytest.raises(BadOption, match="the cluster has no topic nowhere, which the dead letters go to"),
        row_making(Decoding("json", "id INT", dead_letter_topic="nowhere"), reading),
    ):
        pass


def test_a_sink_that_reads_by_itself_refuses_to_read_its_own_dead_letters(strict: Cluster) -> None:
    strict.create_topic("loop.bad")
    nothing = pa.RecordBatch.from_pydict({"value": pa.array([], pa.binary())})
    with (
        row_making(Decoding("json", "id INT", dead_letter_topic="loop.bad"), Reading(strict.bootstrap_servers)) as make,
        pytest.raises(BadOption, match="would read its own dead letters"),
    ):
        make(OffsetRange("loop.bad", "", 0, 0, 1), nothing)


def test_two_addresses_of_one_cluster_are_no_way_into_a_loop(strict: Cluster, tmp_path: Path) -> None:
    one, two = strict.bootstrap_servers.split(",")
    looping = definition(tmp_path, one, {"topic": "orders", "bootstrap_servers": two})
    assert not looping.sink_is_at_source
    with pytest.raises(BadOption, match="are one cluster, and the pipeline would read what it wrote"):
        check_clusters(looping)
    with pytest.raises(BadOption, match="the cluster has no topic copies, which the rows go to"):
        check_clusters(definition(tmp_path, one, {"topic": "copies", "bootstrap_servers": two}))
    strict.create_topic("copies")
    check_clusters(definition(tmp_path, one, {"topic": "copies", "bootstrap_servers": two}))


def test_a_missing_cluster_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(ClientFailure, match="127.0.0.1:1"):
        check_clusters(definition(tmp_path, "127.0.0.1:1", {"table": "parquet", "path": "table"}))
