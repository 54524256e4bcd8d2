"""After the run: the table stays, and on a terminal the cluster may stay up."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from highwater.cli.bootstrap import VARIABLE
from highwater.cli.demo.interrupts import Interrupts
from highwater.cli.keys import Keys
from highwater.cli.local_cluster import LocalCluster

CHOICE_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.2
Say = Callable[[str], None]


def describe_table(table: Path, rows: int, say: Say) -> None:
    files = [path for path in table.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    say(f"\nThe table stays in {table}: {rows:,} rows in {len(files)} files, {size / 1e6:.1f} MB. To read it:")
    say(f"  .venv/bin/python -c \"from deltalake import DeltaTable; print(DeltaTable('{table}').to_pandas())\"")
    say(f"To delete it: rm -r {table.parent}")


def remove_all_but(table: Path, home: Path) -> None:
    """Logs, checkpoints and scratch files go; the folders down to the table stay."""
    for each in home.iterdir():
        if each == table:
            continue
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)


def offer_the_cluster(cluster: LocalCluster, home: Path, keys: Keys, interrupts: Interrupts, say: Say) -> None:
    """Only with keys: nothing waits where nobody can answer."""
    if not keys.are_read:
        return
    say(f"\nThe cluster is still up. Press k to keep it, any other key to end it ({CHOICE_SECONDS:.0f} s).")
    heard, deadline = interrupts.count, time.monotonic() + CHOICE_SECONDS
    pressed: list[str] = []
    while not pressed and time.monotonic() < deadline and interrupts.count == heard:
        pressed = keys.pressed(POLL_SECONDS)
    if pressed[:1] != ["k"]:
        return
    say("It stays up until you press q or Ctrl-C. In another terminal in this directory:")
    say(f"  export {VARIABLE}={cluster.bootstrap} PATH=$PWD/.venv/bin:$PATH")
    say("  highwater console-consumer --topic orders --from-beginning --max-messages 3")
    say(f"  highwater top --data-dir {home}")
    say(f"  highwater kill 2 --data-dir {home}")
    while interrupts.count == heard and "q" not in keys.pressed(POLL_SECONDS) and not cluster.serve_orders():
        pass
