"""`highwater pipeline` as a user runs it: a worker that dies, executors that lack our code."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from highwater.cluster import Cluster
from highwater.pipeline.checkpoint import Checkpoint
from tests.apache import ROOT, quick_start
from tests.pipeline.quick_python import written_to

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

HIGHWATER = [sys.executable, "-m", "highwater"]
ENDS = 240.0
"""Starting Spark takes ten seconds on a quiet machine, and much longer on a busy one."""


def run(*command: str, folder: Path, **environment: str) -> str:
    ran = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=ENDS
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@contextmanager
def running(*command: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Stopped with SIGTERM in the end, and then it must end in order."""
    environment = os.environ | {"PYSPARK_PYTHON": str(written_to(folder / "python", ["delta"]))}
    with open(folder / "output.txt", "w") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output, text=True)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(ENDS) == 0, (folder / "output.txt").read_text()
    finally:
        process.kill()
        process.wait()


def standing(folder: Path) -> dict[str, Any]:
    path = folder / "checkpoints/orders.status.json"
    return dict(json.loads(path.read_text())) if path.exists() else {"records": 0, "restarts": 0, "state": ""}


def landed(folder: Path) -> list[int]:
    return sorted(DeltaTable(folder / "tables/orders").to_pyarrow_table(columns=["id"])["id"].to_pylist())


def new_project(cluster: Cluster, folder: Path) -> None:
    """With topics of its own name, for the cluster is shared."""
    run(*HIGHWATER, "pipeline", "init", "--bootstrap-server", cluster.bootstrap_servers, folder=folder)
    for name in ("pipeline.yml", "produce.py"):
        text = (folder / name).read_text().replace("orders.bad", f"{folder.name}.bad")
        text = text.replace('"orders"', f'"{folder.name}"').replace("topic: orders", f"topic: {folder.name}")
        (folder / name).write_text(text.replace("orders-lake", f"{folder.name}-lake"))


def test_a_worker_that_is_killed_is_started_again_and_nothing_is_lost_or_doubled(
    cluster: Cluster, tmp_path: Path
) -> None:
    new_project(cluster, tmp_path)
    run(sys.executable, "produce.py", "1000", folder=tmp_path)
    with running(*HIGHWATER, "pipeline", "land", "--metrics-port", "0", folder=tmp_path) as job:
        cluster.wait_until(lambda: standing(tmp_path)["records"] >= 1000, ENDS, "the first rows land")
        # None, unless the machine was so busy that Spark did not wait for a process.
        before = standing(tmp_path)["restarts"]
        cluster.wait_until(lambda: len(children(job.pid)) == 1, ENDS, "a worker runs")
        [worker] = children(job.pid)
        os.killpg(worker, signal.SIGKILL)
        cluster.wait_until(lambda: standing(tmp_path)["restarts"] > before, ENDS, "the job sees it")
        run(sys.executable, "produce.py", "1000", folder=tmp_path)
        cluster.wait_until(lambda: standing(tmp_path)["records"] >= 2000, ENDS, "the others land")
        [address] = [line for line in (tmp_path / "output.txt").read_text().splitlines() if line.startswith("metrics ")]
        with urllib.request.urlopen(address.split()[1], timeout=30) as answer:
            figures = answer.read().decode()
        restarts = standing(tmp_path)["restarts"]
    assert f'highwater_pipeline_restarts_total{{pipeline="orders"}} {restarts}.0' in figures
    assert 'highwater_pipeline_records_total{pipeline="orders"} 2000.0' in figures
    assert 'highwater_pipeline_rows_total{pipeline="orders"} 1980.0' in figures
    assert standing(tmp_path)["state"] == "stopped"
    ids = landed(tmp_path)
    assert len(ids) == len(set(ids)) == 1980


def test_of_two_drivers_on_one_checkpoint_the_second_ends_with_one_line(tmp_path: Path) -> None:
    run(*HIGHWATER, "pipeline", "init", folder=tmp_path)
    with Checkpoint(tmp_path / "checkpoints/orders").locked():
        second = subprocess.run(
            [*HIGHWATER, "pipeline", "land"], cwd=tmp_path, capture_output=True, text=True, timeout=ENDS
        )
    assert second.returncode != 0
    said = second.stdout + second.stderr
    [line] = [line for line in said.splitlines() if "is in use by another driver" in line]
    assert f"(process {os.getpid()})" in line
    assert "again in" not in said, "another attempt would end the same way"
    assert not (tmp_path / "checkpoints/orders.status.json").exists(), "the status is that of the first"


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def give_a_transform(folder: Path) -> None:
    """One that runs on the executors, in a package, with a module elsewhere that it imports."""
    files = {
        "shop/__init__.py": "",
        "shop/rules.py": "def turned(id):\n    from signs import SIGN\n\n    return id * SIGN\n",
        "shop/orders.py": "from pyspark.sql.functions import udf\n\nfrom .rules import turned\n\n\n"
        'def turn(orders):\n    return orders.withColumn("id", udf(turned, "bigint")("id"))\n',
        "lib/signs.py": "SIGN = -1\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    with (folder / "pipeline.yml").open("a") as definition:
        definition.write("\ntransform: shop/orders.py:turn\npy_files: [lib/signs.py]\n")
        definition.write(f"spark:\n  conf:\n    spark.executor.extraJavaOptions: {shlex.join(quick_start('spark'))}\n")


def test_our_code_and_the_user_s_are_shipped_to_executors_that_lack_them(cluster: Cluster, tmp_path: Path) -> None:
    new_project(cluster, tmp_path)
    give_a_transform(tmp_path)
    run(sys.executable, "produce.py", "500", folder=tmp_path)
    python = python_without_us(tmp_path / "bare")
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    without = subprocess.run([python, "-c", "import highwater"], cwd="/", env=bare, capture_output=True, text=True)
    assert "No module named 'highwater'" in without.stderr
    master = "local-cluster[1,1,1024]"
    run(
        *HIGHWATER,
        *("pipeline", "land", "--once", "--metrics-port", "0", "--master", master),
        folder=tmp_path,
        PYSPARK_PYTHON=str(python),
        PYTHONPATH=str(ROOT / "src"),
    )
    ids = landed(tmp_path)
    assert len(ids) == 495 and max(ids) < 0


def python_without_us(folder: Path) -> Path:
    """An interpreter with every package of this one, except ours: a path file inside a path file is not followed."""
    venv.create(folder, symlinks=True)
    [packages] = (folder / "lib").glob("python*/site-packages")
    (packages / "others.pth").write_text(next(path for path in sys.path if path.endswith("site-packages")) + "\n")
    return folder / "bin/python"
