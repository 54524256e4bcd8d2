"""The commands on the pages about pipelines and tables do what the pages say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow.dataset
import pyarrow.parquet
import pytest
from pyiceberg.catalog import load_catalog

from highwater.pipeline.project import write_project
from highwater.pipeline.yaml_file import BadDefinition, load
from tests.apache import ROOT, free_ports
from tests.pipeline.fresh_environment import fresh_environment
from tests.pipeline.landing import FORMATS
from tests.unit.pipeline.landing.tables import numbered, read, staged, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from highwater.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ENDS = 240.0
"""Starting Spark takes ten seconds on a quiet machine, and much longer on a busy one."""

Produce = Callable[[str, str, Any], None]


def blocks(document: str, kind: str) -> list[str]:
    return [block for found, block in BLOCK.findall((ROOT / document).read_text()) if found == kind]


class Newcomer:
    """Types commands one after another, at another port than the page names."""

    def __init__(self, folder: Path, programs: Path | None = None) -> None:
        self.folder = folder
        self.port = str(free_ports(3)[0])
        first = programs or Path(sys.executable).parent
        others = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}
        self._environment = others | {"PATH": f"{first}{os.pathsep}{os.environ['PATH']}"}
        self._node: subprocess.Popen[str] | None = None

    def type(self, line: str, more: str = "") -> str:
        """`more` is what a test adds, so that the command goes to that port, or comes to an end."""
        line = line.replace("9092", self.port)
        if line.startswith("cd "):
            self.folder /= line.removeprefix("cd ")
            return ""
        if line.startswith("highwater up "):
            return self._start(f"{line} --port {self.port}")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line + more],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=ENDS,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _start(self, line: str) -> str:
        self._node = subprocess.Popen(
            line.split(), cwd=self.folder, env=self._environment, stdout=subprocess.PIPE, text=True
        )
        assert self._node.stdout is not None
        return self._node.stdout.readline()

    def stop(self) -> None:
        if self._node is not None:
            self._node.send_signal(signal.SIGTERM)
            self._node.communicate(timeout=ENDS)


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Newcomer]:
    """With nothing but the wheel, installed with its extra."""
    newcomer = Newcomer(tmp_path, fresh_environment(tmp_path))
    try:
        yield newcomer
    finally:
        newcomer.stop()


def commands(block: str) -> list[tuple[str, str]]:
    """Each line after a prompt, with what is shown below it."""
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    return [(line.partition("  #")[0].strip(), shown) for line, shown in found]


def test_from_nothing_to_a_running_pipeline(stranger: Newcomer) -> None:
    newcomer = stranger
    where = newcomer.type("python -c 'import highwater; print(highwater.__file__)'")
    assert str(newcomer.folder) in where, "what runs is the wheel"
    _, first, result, *_ = blocks("docs/pipeline.md", "console")
    [init, enter, up, produce, land] = [line for line, _ in commands(first)]
    newcomer.type(init, f" --bootstrap-server 127.0.0.1:{newcomer.port}")
    newcomer.type(enter)
    assert "ready" in newcomer.type(up)
    assert "10000 orders" in newcomer.type(produce)
    said = newcomer.type(land, " --once --metrics-port 0")
    assert "(direct, available-now)" in said
    assert "orders finished" in said
    [(count, shown), (letters, _)] = commands(result)
    assert newcomer.type(count) == shown
    bad = newcomer.type(letters).splitlines()
    assert len(bad) == 100
    assert all(re.search(r"__highwater\.errors\.reason:.*not JSON", line) for line in bad)
    printed = newcomer.type("highwater pipeline status")
    assert "orders  finished  records=10000 rows=9900" in printed
    lags = [line.split() for line in printed.splitlines() if line.startswith("orders-lake")]
    assert [row[1:3] for row in lags] == [["orders", str(partition)] for partition in range(3)]
    assert all(row[3] == row[4] and row[5] == "0" for row in lags)
    described = newcomer.type("highwater groups --describe --group orders-lake --bootstrap-server 127.0.0.1:9092")
    assert sum(line.startswith("orders-lake") for line in described.splitlines()) == 3


def test_a_mistake_in_the_file_is_the_line_that_the_page_shows(tmp_path: Path) -> None:
    [file] = [path for path in write_project(tmp_path, "127.0.0.1:9092") if path.suffix == ".yml"]
    file.write_text(file.read_text().replace("id BIGINT", "id BIGNIT"))
    [shown] = re.findall(r"^```\n(pipeline.yml:.*), …\n```$", (ROOT / "docs/pipeline.md").read_text(), re.MULTILINE)
    with pytest.raises(BadDefinition) as mistake:
        load(file)
    assert str(mistake.value).startswith(f"{tmp_path}/{shown}")


def test_the_pipeline_in_python_lands_what_its_transform_lets_through(
    spark: SparkSession, cluster: Cluster, produce: Produce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = next(block for block in blocks("docs/pipeline.md", "python") if "Pipeline(" in block)
    for topic in ("typed", "typed.bad"):
        cluster.create_topic(topic, partitions=1)
    values = [b'{"id": 1, "customer": "a"}', b'{"id": 2}', b"{"]
    produce(cluster.bootstrap_servers, "typed", [(0, None, value) for value in values])
    monkeypatch.chdir(tmp_path)
    for here, there in (("127.0.0.1:9092", cluster.bootstrap_servers), ('"orders', '"typed')):
        assert here in block
        block = block.replace(here, there)
    exec(compile(block, "docs/pipeline.md", "exec"), {})
    rows = read("delta", tmp_path / "tables/orders").select(["id", "customer", "_offset"])
    assert rows.to_pylist() == [{"id": 1, "customer": "a", "_offset": 0}]
    assert [record.value for record in cluster.records("typed.bad")] == [b"{"]


def test_a_query_moves_by_its_format_alone(spark: SparkSession, cluster: Cluster) -> None:
    block = next(block for block in blocks("docs/pipeline.md", "python") if "was:" in block)
    cluster.create_topic("moved", partitions=1)
    here = block.replace("127.0.0.1:9092", cluster.bootstrap_servers).replace('"orders"', '"moved"')
    rows = eval(here, {"spark": spark})
    assert rows.isStreaming
    assert rows.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def test_the_blocks_of_the_page_on_tables_run(
    spark: SparkSession, cluster: Cluster, produce: Produce, tmp_path: Path
) -> None:
    landing, clean_up, direct = blocks("docs/tables.md", "python")
    cluster.create_topic("tabled", partitions=1)
    produce(cluster.bootstrap_servers, "tabled", [(0, None, b"value")] * 3)

    def typed(block: str) -> None:
        # The JVM of this session has another working directory.
        block = block.replace('"lake/', f'"{tmp_path}/').replace("127.0.0.1:9092", cluster.bootstrap_servers)
        block = block.replace('"subscribe", "orders"', '"subscribe", "tabled"')
        exec(compile(block, "docs/tables.md", "exec"), {"spark": spark})

    for block in (landing, clean_up, landing):
        typed(block)
        assert read("delta", tmp_path / "orders")["value"].to_pylist() == [b"value"] * 3
    typed(direct)
    assert read("delta", tmp_path / "orders-direct")["value"].to_pylist() == [b"value"] * 3


def test_the_first_script_of_the_page_on_the_connector_reads_what_its_commands_wrote(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    [block] = [block for block in blocks("docs/connector.md", "python") if "SparkSession.builder" in block]
    [shown] = blocks("docs/connector.md", "console")
    newcomer = Newcomer(tmp_path)
    for line, _ in commands(shown):
        if not line.startswith("highwater up "):
            line = line.replace("127.0.0.1:9092", cluster.bootstrap_servers).replace("--topic orders", "--topic seen")
            newcomer.type(line)
    here = block.replace("127.0.0.1:9092", cluster.bootstrap_servers).replace(
        '"subscribe", "orders"', '"subscribe", "seen"'
    )
    for rows in (100, 0):
        known: dict[str, Any] = {}
        exec(compile(here.replace('"checkpoints/', f'"{tmp_path}/'), "docs/connector.md", "exec"), known)
        assert sum(progress["numInputRows"] for progress in known["query"].recentProgress) == rows
    assert "orders-seen" in newcomer.type(f"highwater groups --list --bootstrap-server {cluster.bootstrap_servers}")


@pytest.mark.parametrize("kind", FORMATS)
def test_each_format_is_read_as_the_page_says(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    table = table_of(kind, path)
    table.commit(numbered("q", 0), staged(table, [1, 2, 3]))
    page = (ROOT / "docs/tables.md").read_text().partition("## Reading")[2]
    [row] = re.findall(rf"^\| {kind} \| (.*)$", page, re.MULTILINE | re.IGNORECASE)
    readings = [each for each in re.findall(r"`([^`]*)`", row) if each.endswith(")")]
    assert readings
    known = {
        "spark": spark,
        "path": str(path),
        "deltalake": deltalake,
        "pyarrow": pyarrow,
        "load_catalog": load_catalog,
    }
    for reading in readings:
        found = eval(reading.replace("<path>", str(path)).replace("<name>", "t"), known)
        rows = {"Table": "num_rows", "DataFrame": "count", "FileSystemDataset": "count_rows"}[type(found).__name__]
        count = getattr(found, rows)
        assert (count() if callable(count) else count) == 3, reading
