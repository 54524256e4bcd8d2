"""A job says why its query failed, and starts it again only where that can help."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from highwater.cluster import Cluster
from highwater.pipeline.display import Display
from highwater.pipeline.job import GaveUp, Job
from highwater.pipeline.yaml_file import load

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def strict() -> Iterator[Cluster]:
    """Creates no topic that nobody asked it to create."""
    with Cluster(brokers=1, config={"auto.create.topics.enable": "false"}) as brokers:
        brokers.create_topic("orders")
        yield brokers


def outcome(folder: Path, servers: str, **decode: Any) -> tuple[str, list[str], Job]:
    """What it says in the end, and on the way; none of these comes as far as Spark."""
    file = folder / "pipeline.yml"
    data = {
        "name": "orders",
        "source": {"bootstrap_servers": servers, "topic": "orders"},
        "decode": {"format": "json", "schema": "id INT", **decode},
        "sink": {"table": "parquet", "path": "table"},
        "restart": {"attempts": 2, "backoff": "10ms"},
    }
    file.write_text(yaml.safe_dump(data))
    output = io.StringIO()
    with Display(Console(file=output, width=40)) as display:
        job = Job(file, load(file), display, None)
        with pytest.raises(GaveUp) as gave_up:
            job.run()
    return str(gave_up.value), output.getvalue().splitlines(), job


def test_a_cluster_that_is_away_is_named_and_waited_for(tmp_path: Path) -> None:
    said, on_the_way, job = outcome(tmp_path, "127.0.0.1:1")
    cause = "cannot connect to 127.0.0.1:1: Connection refused"
    assert said == f"the query failed 3 times in a row, at last with: {cause}\nthe whole story: {job.log_file}"
    troubles = [line for line in on_the_way if cause in line]
    assert troubles == [f"{cause} (again in {wait} s; the whole story: {job.log_file})" for wait in ("0.01", "0.02")]
    assert (job.status.state, job.status.trouble, job.status.restarts) == ("failed", cause, 2)
    assert "Traceback" in job.log_file.read_text()


def test_a_failure_that_would_repeat_is_not_retried(strict: Cluster, tmp_path: Path) -> None:
    said, _, job = outcome(tmp_path, strict.bootstrap_servers, dead_letters="orders.bad")
    assert said.startswith("the query failed: the cluster has no topic orders.bad, which the dead letters go to")
    assert job.status.restarts == 0
