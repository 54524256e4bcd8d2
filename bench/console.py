"""What the web console costs the brokers: `python bench/console.py`. 1 000 partitions, and nobody or ten viewers.

It prints the brokers' processor time for both, and how long a page and its first event take. It exits with 0 only if
the brokers together use less than 0.05 cores more, and every page and first event came within a second.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import click

from highwater.client import Admin, Client, NewTopic

TICKS = os.sysconf("SC_CLK_TCK")
VIEWS = ("view=overview", "view=topics", "view=topic&topic=wide", "view=groups", "view=lanes&topic=wide&partition=0")
ALLOWED_CORES = 0.05
"""Of all brokers together."""
ALLOWED_SECONDS = 1.0


class Viewers:
    """People who keep a page open. They read what comes, and do nothing with it."""

    def __init__(self, address: str, count: int) -> None:
        parts = urlsplit(address)
        self._port = parts.port or 0
        self._headers = {"Cookie": f"highwater_console_{parts.port}={parts.query.partition('=')[2]}"}
        self._over = threading.Event()
        self.first: list[float] = []
        self._threads = [threading.Thread(target=self._watch, args=(VIEWS[at % len(VIEWS)],)) for at in range(count)]

    def __enter__(self) -> Viewers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _watch(self, view: str) -> None:
        begun = time.monotonic()
        answer = self._asked(f"/api/events?{view}")
        seen = False
        while not self._over.is_set():
            if answer.readline().startswith(b"data:") and not seen:
                seen = True
                self.first.append(time.monotonic() - begun)

    def page(self) -> float:
        begun = time.monotonic()
        assert b"Highwater" in self._asked("/").read()
        return time.monotonic() - begun

    def _asked(self, path: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request("GET", path, headers=self._headers)
        return connection.getresponse()


@contextmanager
def cluster(folder: Path, partitions: int) -> Iterator[tuple[str, list[int]]]:
    """The console's address, and the pids of the nodes."""
    command = [sys.executable, "-m", "highwater", "up", "--port", "0", "--console-port", "0", "--data-dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        ready, console = up.stdout.readline(), up.stdout.readline()
        try:
            with Client(dict(word.partition("=")[::2] for word in ready.split())["bootstrap"]) as client:
                Admin(client).create_topics([NewTopic("wide", partitions, 3)])
            nodes = json.loads((folder / "nodes.json").read_text())["nodes"]
            yield console.split()[1], [node["pid"] for node in nodes]
        finally:
            up.terminate()


def cores(pids: list[int], seconds: float) -> float:
    """The processors that these processes together use, over a while."""
    before, begun = sum(map(ticks, pids)), time.monotonic()
    time.sleep(seconds)
    return (sum(map(ticks, pids)) - before) / TICKS / (time.monotonic() - begun)


def ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@click.command()
@click.option("--partitions", default=1000, show_default=True)
@click.option("--viewers", default=10, show_default=True)
@click.option("--seconds", default=30.0, show_default=True)
def main(partitions: int, viewers: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as home, cluster(Path(home), partitions) as (address, pids):
        time.sleep(20)  # until the followers have their first sync behind them
        alone = cores(pids, seconds)
        with Viewers(address, viewers) as people:
            time.sleep(5)
            watched = cores(pids, seconds)
            page = max(people.page() for _ in range(5))
        click.echo(f"{partitions} partitions on {len(pids)} brokers, {viewers} viewers")
        click.echo(f"cores of all brokers: {alone:.3f} with nobody, {watched:.3f} watched")
        grown, first = watched - alone, max(people.first)
        click.echo(f"growth: {grown:.3f} cores (allowed: {ALLOWED_CORES})")
        click.echo(f"slowest page {page:.3f} s, slowest first event {first:.3f} s (allowed: {ALLOWED_SECONDS})")
        has_all = len(people.first) == viewers
        if not has_all:
            click.echo(f"only {len(people.first)} of {viewers} viewers saw anything")
    sys.exit(0 if has_all and grown < ALLOWED_CORES and max(page, first) < ALLOWED_SECONDS else 1)


if __name__ == "__main__":
    main()
