"""A local Spark runs the interpreter of its driver, unless the user or a cluster has another to name."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from highwater_interpreter import WATCHED, is_ours_to_say
from tests.apache import ROOT

PATH_FILE = ROOT / "src/highwater-interpreter.pth"


@pytest.mark.parametrize(
    ("master", "environment", "ours"),
    [
        ("local", {}, True),
        ("local[4]", {}, True),
        ("local-cluster[2,1,1024]", {}, True),
        (None, {}, True),
        ("spark://host:7077", {}, False),
        ("yarn", {}, False),
        ("localhost", {}, False),
        ("local[2]", {"PYSPARK_PYTHON": "/usr/bin/python3"}, False),
        ("local[2]", {"PYSPARK_DRIVER_PYTHON": "ipython"}, False),
        (None, {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, False),
        (None, {"PYSPARK_SUBMIT_ARGS": "--conf a=b pyspark-shell"}, True),
        (None, {"SPARK_CONF_DIR": "/etc/spark"}, False),
        (None, {"SPARK_HOME": "/opt/spark"}, False),
    ],
)
def test_the_interpreter_is_set_only_if_neither_user_nor_cluster_sets_it(
    master: str | None, environment: dict[str, str], ours: bool
) -> None:
    assert is_ours_to_say(master, environment) is ours


def python(*lines: str, **environment: str) -> str:
    """A fresh interpreter that has begun with the path file, which it reads twice in a virtual environment."""
    read = f"site.addpackage({str(PATH_FILE.parent)!r}, {PATH_FILE.name!r}, None)"
    begin = ["import site", read, read, *lines]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join(begin)],
        env=clean | {"PYTHONPATH": str(PATH_FILE.parent)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_nothing_is_named_before_a_jvm_is_about_to_start() -> None:
    lines = ["import os, pyspark, pyspark.sql", "print(os.environ.get('PYSPARK_PYTHON'))"]
    assert python(*lines) == "None"


LAUNCH = [
    "import os, pyspark, pyspark.java_gateway, pyspark.core.context",
    "assert pyspark.core.context.launch_gateway is pyspark.java_gateway.launch_gateway",
    "conf = pyspark.SparkConf(loadDefaults=False, _jvm=None).setMaster(os.environ['TRIED_MASTER'])",
    "pyspark.java_gateway.Popen = lambda command, **more: print(more['env'].get('PYSPARK_PYTHON')) or exit()",
    "pyspark.java_gateway.launch_gateway(conf)",
]


def test_the_jvm_of_a_local_spark_gets_the_drivers_interpreter() -> None:
    assert python(*LAUNCH, TRIED_MASTER="local[1]") == sys.executable
    assert python(*LAUNCH, TRIED_MASTER="local[1]", PYSPARK_PYTHON="other") == "other"
    assert python(*LAUNCH, TRIED_MASTER="spark://host:7077") == "None"


def test_a_python_without_the_package_starts_all_the_same(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-S", "-c", f"exec(open({str(PATH_FILE)!r}).read()); print('well')"],
        env={"PATH": os.environ["PATH"]},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "well\n", "")


def test_pyspark_still_has_the_function_that_starts_a_jvm() -> None:
    """Internals of PySpark: the module that starts JVMs, and its function."""
    spec = importlib.util.find_spec(WATCHED)
    assert spec is not None and spec.origin is not None
    assert "def launch_gateway(conf=None" in Path(spec.origin).read_text()
