"""Draws the picture of README.md: what `highwater status` shows of a real cluster whose broker was just killed.

.venv/bin/python scripts/status_picture.py docs/status.svg
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from highwater.cli.status import show
from highwater.cli.status_answers import ask, ask_all
from highwater.cli.status_topics import Address

HIGHWATER = (sys.executable, "-m", "highwater")
TOPIC = "orders"
ORDERS = 3000
WIDTH = 132
LAST_CHANGES = 6
PATIENCE_SECONDS = 60.0
OUTSIDE_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""A picture in a repository loads nothing from elsewhere."""


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as data:
        up = subprocess.Popen(
            [*HIGHWATER, "up", "--brokers", "3", "--port", "0", "--data-dir", data, "--console-port", "off"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert up.stdout is not None
            ready = next(line for line in up.stdout if line.startswith("ready"))
            fill(re.findall(r"bootstrap=(\S+)", ready)[0])
            addresses = [Address(str(node["id"]), node["http"]) for node in nodes(data)]
            victim = wait_for(lambda: leader(addresses))
            os.kill(next(node["pid"] for node in nodes(data) if node["id"] == victim), signal.SIGKILL)
            wait_for(lambda: leader(addresses) not in (None, victim) and not in_sync_anywhere(addresses, victim))
            draw(addresses, target)
        finally:
            up.terminate()
            up.wait()


def fill(servers: str) -> None:
    server = ("--bootstrap-server", servers, "--topic", TOPIC)
    subprocess.run(
        [*HIGHWATER, "topics", *server, "--create", "--partitions", "3", "--replication-factor", "3"], check=True
    )
    orders = "".join(f"order {number}\n" for number in range(ORDERS))
    subprocess.run([*HIGHWATER, "console-producer", *server], input=orders, text=True, check=True)


def nodes(data: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads((Path(data) / "nodes.json").read_text())["nodes"]
    return listed


def led(addresses: list[Address]) -> list[dict[str, Any]]:
    answers = [status for status in (ask(address.http) for address in addresses) if status is not None]
    partitions = [part for status in answers for part in status["partitions"]]
    return [part for part in partitions if part["topic"] == TOPIC and part["role"] == "leader"]


def leader(addresses: list[Address]) -> int | None:
    return next((part["leader"] for part in led(addresses) if part["partition"] == 0), None)


def in_sync_anywhere(addresses: list[Address], broker: int) -> bool:
    parts = led(addresses)
    return len(parts) < 3 or any(broker in part["isr"] for part in parts)


def wait_for(condition: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.1)
    raise SystemExit(f"the cluster did not come to what the picture shows within {PATIENCE_SECONDS:.0f} s")


def draw(addresses: list[Address], target: Path) -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(show(ask_all(addresses), TOPIC, LAST_CHANGES))
    picture = console.export_svg(title="highwater status --topic orders", unique_id="status")
    target.write_text(OUTSIDE_FONTS.sub("", picture))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
