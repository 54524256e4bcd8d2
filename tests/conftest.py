"""What all tests share: Apache Kafka as a peer, and the marks by which the quick run leaves tests out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.apache import ApacheKafka, Ran, run_tool, why_unavailable

APACHE_FIXTURES = {"apache", "apache_kafka", "apache_tool"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if APACHE_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("apache")


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
def apache_tool(apache: None) -> Callable[..., Ran]:
    """`apache_tool(main_class, *args, input=None)` runs one of Kafka's own tools."""
    return run_tool
