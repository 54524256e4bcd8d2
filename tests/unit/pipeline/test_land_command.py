"""`highwater pipeline land` as a command, as far as it comes without Spark."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

WAIT_SECONDS = 120.0
PIPELINE = """name: orders
source:
  bootstrap_servers: 127.0.0.1:{port}
  topic: orders
sink:
  table: parquet
  path: table
"""


def test_a_run_to_the_end_that_is_interrupted_fails(tmp_path: Path) -> None:
    """Whoever started it must not take the table for complete. The cluster never answers: nothing can be landed."""
    with socket.create_server(("127.0.0.1", 0)) as cluster:
        cluster.settimeout(WAIT_SECONDS)
        (tmp_path / "pipeline.yml").write_text(PIPELINE.format(port=cluster.getsockname()[1]))
        land = subprocess.Popen(
            [sys.executable, "-m", "highwater", "pipeline", "land", "--once"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with cluster.accept()[0]:
            land.send_signal(signal.SIGINT)
            said, failed = land.communicate(timeout=WAIT_SECONDS)
    assert land.returncode == 1
    assert failed == "stopped before all was landed\n"
    assert said.splitlines()[-1] == "orders stopped"
