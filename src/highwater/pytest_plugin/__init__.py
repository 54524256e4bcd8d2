"""Fixtures for tests that need a Kafka cluster: `kafka_cluster`, `kafka_topic` and `durability_check`; and
`pipeline_runner` for tests of pipelines, which need Spark.

Settings in pytest.ini or pyproject.toml: `highwater_brokers`, `highwater_controllers`, `highwater_processes` and
`highwater_config` (lines of key=value). The mark `kafka_topic(partitions=…, replication_factor=…, config=…)` shapes
the topic of one test.

The package may use `highwater.cluster`, `highwater.pipeline` and what is below them. It imports them only when a test
asks for a fixture. Start here; `pipeline_runner` has the fixture for pipelines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from highwater.cluster import Cluster
    from highwater.cluster.durability import DurabilityCheck
    from highwater.pipeline.fluent import Pipeline
    from highwater.pytest_plugin.pipeline_runner import PipelineRunner

MARK = "kafka_topic"
SHAPE = ("partitions", "replication_factor", "config", "assignment")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("highwater_brokers", "Brokers of the kafka_cluster fixture.", default="3")
    parser.addini("highwater_controllers", "Controllers apart from the brokers; 0 combines them.", default="0")
    parser.addini("highwater_processes", "A process per node, so that kill is SIGKILL.", type="bool", default=False)
    parser.addini("highwater_config", "Settings of every node, key=value on each line.", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARK}(partitions=1, replication_factor=None, config=None): the topic of the kafka_topic fixture"
    )


@pytest.fixture(scope="session")
def kafka_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """One cluster for the session, of each worker under xdist, on free ports. Faults end with the test."""
    from highwater.cluster import Cluster

    settings = {}
    for line in pytestconfig.getini("highwater_config"):
        key, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"highwater_config: {line!r} is not key=value")
        settings[key.strip()] = value.strip()
    with Cluster(
        brokers=_count(pytestconfig, "highwater_brokers", at_least=1),
        controllers=_count(pytestconfig, "highwater_controllers", at_least=0),
        processes=pytestconfig.getini("highwater_processes"),
        config=settings,
    ) as cluster:
        yield cluster


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_cluster: Cluster) -> Iterator[str]:
    """The name of a fresh topic. After the test the cluster is whole again: healed, resumed, started."""
    shape = _shape(request)
    name = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:180] + f"-{_next_number(request.config)}"
    kafka_cluster.create_topic(name, **shape)
    yield name
    kafka_cluster.restore()


@pytest.fixture
def durability_check(
    request: pytest.FixtureRequest, kafka_cluster: Cluster, kafka_topic: str
) -> Iterator[DurabilityCheck]:
    """Sends to the test's topic with acks=all; `verify` proves that nothing acknowledged was lost or doubled."""
    from highwater.cluster.durability import DurabilityCheck

    check = DurabilityCheck(kafka_cluster, kafka_topic, partitions=_shape(request).get("partitions", 1))
    yield check
    check.close()


@pytest.fixture(scope="session")
def _spark_of_pipelines() -> Iterator[None]:
    """Ends the session that the first pipeline has started. One that was there before is another's."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise pytest.UsageError("pipeline_runner needs the packages of `pip install 'highwater[spark]'`") from None
    was_there = SparkSession.getActiveSession() is not None
    yield
    session = SparkSession.getActiveSession()
    if session is not None and not was_there:
        session.stop()


@pytest.fixture
def pipeline_runner(
    kafka_cluster: Cluster, tmp_path: Path, _spark_of_pipelines: None
) -> Iterator[Callable[..., PipelineRunner]]:
    """`pipeline_runner("pipeline.yml")` or `pipeline_runner(Pipeline(…)…)`: that pipeline with a topic, a table and a
    checkpoint of the test's own."""
    from highwater.pytest_plugin.pipeline_runner import PipelineRunner, defined

    with ExitStack() as opened:

        def run(pipeline: str | Path | Pipeline, partitions: int = 3) -> PipelineRunner:
            definition = defined(pipeline)
            folder = tmp_path / definition.name
            folder.mkdir()
            runner = PipelineRunner(definition, kafka_cluster, folder, partitions)
            opened.callback(runner.close)
            return runner

        yield run
        kafka_cluster.restore()


def _count(config: pytest.Config, option: str, *, at_least: int) -> int:
    text = str(config.getini(option)).strip()
    if not text.isascii() or not text.isdigit() or int(text) < at_least:
        raise pytest.UsageError(f"{option} is {text!r}: it must be a whole number of at least {at_least}")
    return int(text)


def _shape(request: pytest.FixtureRequest) -> dict[str, Any]:
    mark = request.node.get_closest_marker(MARK)
    if mark is None:
        return {}
    unknown = [*map(repr, mark.args), *(name for name in mark.kwargs if name not in SHAPE)]
    if unknown:
        raise pytest.UsageError(f"the mark {MARK} does not take {unknown[0]}: it takes {', '.join(SHAPE)}, by name")
    return dict(mark.kwargs)


_NUMBER = pytest.StashKey[int]()


def _next_number(config: pytest.Config) -> int:
    config.stash[_NUMBER] = config.stash.get(_NUMBER, 0) + 1
    return config.stash[_NUMBER]
