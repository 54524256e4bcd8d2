"""Dead letters go back to the topics that they came from, each once, as the records that they were."""

from __future__ import annotations

import json
from pathlib import Path
from time import time_ns
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from highwater.cli.pipeline import command
from highwater.cluster import Cluster
from highwater.pipeline.dead_letters import PREFIX
from highwater.pipeline.definition import define
from highwater.pipeline.replaying import replay
from tests.pipeline.readers import batch_rows

pytestmark = pytest.mark.slow
AT = time_ns() // 10**9 * 1000


def send_letters(servers: str, topic: str, letters: list[dict[str, Any]]) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for letter in letters:
        headers = [("trace", b"\xff")] + [(PREFIX + name, str(each).encode()) for name, each in letter["said"].items()]
        producer.produce(topic, key=letter.get("key"), value=letter["value"], partition=0, headers=headers)
    assert producer.flush(60) == 0


def letter(value: bytes | None, **said: Any) -> dict[str, Any]:
    usual = {"topic": "replayed", "partition": 1, "offset": 7, "timestamp": AT, "reason": "not JSON"}
    return {"key": b"k", "value": value, "said": usual | said}


@pytest.fixture
def file(cluster: Cluster, tmp_path: Path) -> Path:
    said = {
        "name": "replayed",
        "source": {"bootstrap_servers": cluster.bootstrap_servers, "topic": "replayed"},
        "decode": {"format": "json", "schema": "id BIGINT", "dead_letters": "replayed.bad"},
        "sink": {"table": "delta", "path": "table"},
    }
    path = tmp_path / "pipeline.yml"
    path.write_text(json.dumps(said))
    return path


def test_letters_are_sent_once_to_their_own_partition_as_they_were(cluster: Cluster, file: Path) -> None:
    servers = cluster.bootstrap_servers
    for topic, partitions in (("replayed", 2), ("replayed.bad", 1)):
        cluster.create_topic(topic, partitions=partitions)
    definition = define(json.loads(file.read_text()), file.parent)
    assert replay(definition).sent == 0
    letters = [letter(b"one"), letter(b"two", partition=0, reason="id is no number")]
    odd = [letter(None, **{"value-bytes": 5_000_000}), letter(b"x", topic="another")]
    send_letters(servers, "replayed.bad", [*letters, *odd])

    def read() -> list[tuple[Any, ...]]:
        rows = batch_rows(servers, subscribe="replayed", includeHeaders=True)
        return sorted((row["partition"], row["key"], row["value"], row["timestamp"].timestamp()) for row in rows)

    shown = CliRunner().invoke(command, ["replay", str(file), "--dry-run"])
    assert shown.output.splitlines() == [
        "LETTERS  REASON",
        "1        not JSON",
        "1        id is no number",
        "1 have no value, since it was too large: read it at the place that they name",
        "1 are no letters of this pipeline's topics",
        "2 would be sent to the topics that they came from",
    ]
    assert read() == []
    assert replay(definition).sent == 2
    assert read() == [(0, b"k", b"two", AT / 1000), (1, b"k", b"one", AT / 1000)]
    headers = [row["headers"] for row in batch_rows(servers, subscribe="replayed", includeHeaders=True)]
    assert headers == [[{"key": "trace", "value": b"\xff"}]] * 2
    assert replay(definition).sent == 0, "the group of the replay knows how far it came"
    send_letters(servers, "replayed.bad", [letter(b"three")])
    assert CliRunner().invoke(command, ["replay", str(file)]).output.splitlines()[-1].startswith("1 sent")
    assert len(read()) == 3


def test_a_pipeline_without_dead_letters_has_nothing_to_replay(file: Path) -> None:
    file.write_text(file.read_text().replace(', "dead_letters": "replayed.bad"', ""))
    shown = CliRunner().invoke(command, ["replay", str(file)])
    assert shown.exit_code == 1
    assert "replayed has no topic for dead letters (decode.dead_letters): nothing to replay" in shown.output
