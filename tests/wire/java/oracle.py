"""Apache Kafka's own classes as judges, each question set answered by one JVM."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.apache import quick_start

HERE = Path(__file__).parent


def classpath_file() -> Path:
    """The file that holds Apache Kafka's class path; skips the test where the set-up has not provided it."""
    path = Path(os.environ.get("HIGHWATER_KAFKA_CLASSPATH", HERE.parents[2] / ".apache/classpath.txt"))
    if not path.is_file():
        pytest.skip("no Apache Kafka class path")
    return path


def ask(program: str, questions: Iterable[str] = ()) -> list[str]:
    """Runs one of the Java programs beside this file: lines in, lines out."""
    command = ["java", "-Xmx256m", *quick_start("tools"), "-cp", classpath_file().read_text().strip()]
    done = subprocess.run(
        [*command, str(HERE / f"{program}.java")],
        input="".join(f"{question}\n" for question in questions),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
