"""`highwater pipeline status --watch`, as far as it comes without a pipeline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from highwater.cli import pipeline_status
from highwater.cli.pipeline import command

PIPELINE = """name: orders
source:
  bootstrap_servers: 127.0.0.1:1
  topic: orders
sink:
  table: parquet
  path: table
"""


def test_one_who_watches_sees_a_pipeline_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pipeline.yml"
    file.write_text(PIPELINE)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt
        standing = tmp_path / "checkpoints" / "orders.status.json"
        standing.parent.mkdir(exist_ok=True)
        said = {"name": "orders", "pid": 1, "state": "running", "rows": 10 * len(pauses), "last": None, "trouble": ""}
        standing.write_text(json.dumps(said))

    monkeypatch.setattr(pipeline_status.time, "sleep", pause)
    shown = CliRunner().invoke(command, ["status", str(file), "--watch", "--interval", "5"])
    assert pauses == [5.0] * 3
    assert shown.exit_code == 130, "as every command that Ctrl-C ends"
    states = [line for line in shown.output.splitlines() if line.startswith("orders")]
    assert states == [
        f"orders has not run yet: there is no {tmp_path / 'checkpoints/orders.status.json'}",
        "orders  running  rows=10",
        "orders  running  rows=20",
    ]


def test_without_watching_a_pipeline_that_has_not_run_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yml"
    file.write_text(PIPELINE)
    shown = CliRunner().invoke(command, ["status", str(file)])
    assert shown.exit_code == 1
    assert "orders has not run yet" in shown.output
