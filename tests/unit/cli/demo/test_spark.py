"""Whether Spark can run here, said before anything is started; and what its driver makes of offsets and failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.cli.demo import driver, spark
from highwater.model import TopicPartition
from highwater.pipeline.offsets import INITIAL, Position, Positions


def java_home(folder: Path, version: str) -> str:
    """A home of a Java that says this of itself."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    java.chmod(0o755)
    return str(folder)


def test_a_missing_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert spark.missing() == ["no Java (install a JRE 17 or newer, or set JAVA_HOME)"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.8.0_402", ["Java 8, and Spark needs 17 or newer"]), ("17.0.15", []), ("25", [])],
)
def test_a_java_that_is_too_old_is_reported(
    version: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, version))
    assert spark.missing() == expected


def test_missing_packages_are_reported_with_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "PACKAGES", ("json", "pyspark_nowhere"))
    assert spark.missing()[0] == "pyspark_nowhere not installed (pip install 'highwater[spark]')"


def test_a_query_has_reached_nothing_before_its_start_is_known() -> None:
    assert driver.reached_offsets(None) == driver.reached_offsets(INITIAL) == {}
    at = {TopicPartition("orders", 0): Position(12), TopicPartition("orders", 2): Position(7, 1)}
    assert driver.reached_offsets(Positions({"orders": "id"}, at).to_json()) == {"0": 12, "2": 7}


def test_the_cause_of_a_failed_query_is_the_line_that_says_it() -> None:
    expected = "[STREAM_FAILED] Query terminated: Traceback\n  File x\nValueError: no such topic\n SQLSTATE: 38000\n"
    assert driver.cause(RuntimeError(expected + "=== Streaming Query ===\nId: 1\nplan")) == "ValueError: no such topic"
    assert driver.cause(None) == "it was stopped"
