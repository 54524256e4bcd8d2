"""What `highwater up` prints on a terminal when its cluster is ready."""

from __future__ import annotations

import shlex
from pathlib import Path

from highwater.cli.bootstrap import DATA_DIR, VARIABLE


def next_steps(bootstrap: str, data_dir: Path) -> str:
    """Commands for another terminal. A cluster in the default data directory is found by itself."""
    is_found = data_dir == DATA_DIR
    place = "" if is_found else f" --data-dir {shlex.quote(str(data_dir))}"
    commands = [
        *([] if is_found else [f"export {VARIABLE}={bootstrap}"]),
        "highwater topics create orders --partitions 3",
        "echo hello | highwater console-producer --topic orders",
        "highwater console-consumer --topic orders --from-beginning",
        f"highwater status{place}",
    ]
    lines = ["", "Next, in another terminal in this directory:", *(f"  {command}" for command in commands), ""]
    return "\n".join([*lines, f"Ctrl-C stops the cluster. Its data stays in {data_dir}."])
