"""A first script of a new user: the environment's own Python, nothing exported, nothing activated."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.cluster import Cluster
from tests.apache import ROOT

pytestmark = pytest.mark.slow

SCRIPT = """\
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
topic = spark.read.format("highwater").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", "first")
rows = topic.load().select(udf(lambda value: value.decode() + "!")("value").alias("value")).collect()
print("rows", sorted(row.value for row in rows))
"""


def new_environment(folder: Path) -> Path:
    """As an install leaves it: our packages and those that they need, and the path file beside them."""
    venv.create(folder, symlinks=True)
    [packages] = (folder / "lib").glob("python*/site-packages")
    there = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "another.pth").write_text(f"{ROOT / 'src'}\n{there}\n")
    name = "highwater-interpreter.pth"
    (packages / name).write_text((ROOT / "src" / name).read_text())
    return folder / "bin/python"


def test_a_script_finds_the_connector_without_a_word_about_interpreters(
    cluster: Cluster, produce: Callable[..., None], tmp_path: Path
) -> None:
    cluster.create_topic("first")
    produce(cluster.bootstrap_servers, "first", [(0, None, b"a"), (0, None, b"b")])
    (tmp_path / "script.py").write_text(SCRIPT)
    # What a user's PATH leads to is some other Python.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "bin/python3").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "PYTHON"))}
    environment["PATH"] = f"{tmp_path / 'bin'}:{environment['PATH']}"
    ran = subprocess.run(
        [new_environment(tmp_path / "env"), "script.py", cluster.bootstrap_servers],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.stdout == "rows ['a!', 'b!']\n", ran.stderr[:3000]
