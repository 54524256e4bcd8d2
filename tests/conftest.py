"""What all tests share: Apache Kafka as a peer, and the marks by which the quick run leaves tests out."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.apache import ApacheKafka, Ran, end_tool_host, run_tool, why_unavailable
from tests.secured import SecuredKafka

APACHE_FIXTURES = {"apache", "apache_kafka", "apache_tool"}

# Clusters of tests have no web console, unless the test asks for one: it would take a second of each start.
os.environ.setdefault("HIGHWATER_CONSOLE_PORT", "off")

# The same examples in each run, and no limit on how long one takes: a busy machine would exceed it.
# `--hypothesis-profile default` looks for examples that were never tried.
settings.load_profile("ci")


class Loggers(dict[str, Any]):
    """All loggers by name. pytest goes through them before each test, without a lock, while threads that fixtures have
    started import modules and so make further loggers."""

    def values(self) -> Any:
        return list(super().values())


logging.root.manager.loggerDict = Loggers(logging.root.manager.loggerDict)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if APACHE_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("apache")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """In the place of `--dist loadfile`; other ways are left as they are."""
    from tests.scheduling import Scheduling

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """The collector of garbage need not look through thousands of tests again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def tool_host() -> Iterator[None]:
    """The JVM of Kafka's tools begins with the first of them, and ends with the tests."""
    yield
    end_tool_host()


@pytest.fixture(scope="session")
def apache() -> None:
    """Skips where Apache Kafka or Java is missing; set-up provides both."""
    if reason := why_unavailable():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def apache_kafka(apache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """One Apache Kafka node that tests share: use topic names of your own."""
    kafka = ApacheKafka(tmp_path_factory.mktemp("apache"))
    try:
        yield kafka.start()
    finally:
        kafka.kill()


@pytest.fixture(scope="session")
def secured_kafka(apache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """One Apache Kafka node with a listener of each security protocol; use topic names of your own."""
    kafka = SecuredKafka(tmp_path_factory.mktemp("secured"))
    try:
        yield kafka.start()
    finally:
        kafka.kill()


@pytest.fixture(scope="session")
def apache_tool(apache: None) -> Callable[..., Ran]:
    """`apache_tool(main_class, *args, input=None)` runs one of Kafka's own tools."""
    return run_tool
