"""`highwater top`: a live view of a cluster that takes the whole screen, until q or Ctrl-C."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

import click
from rich.console import Console, Group
from rich.live import Live

from highwater.cli.keys import Keys
from highwater.cli.silent_nodes import remedies
from highwater.cli.status_answers import addresses_of, ask
from highwater.cli.status_topics import Address, Answer, Status
from highwater.cli.status_verdict import led
from highwater.cli.stop_signals import StopSignals
from highwater.cli.top_view import GroupLag, TopView, screenful

REFRESH_SECONDS: Final = 0.5
KEY_SECONDS: Final = 0.1
METRICS_SECONDS: Final = 2.0
PAGE: Final = 10
_LAG: Final = re.compile(r'kafka_consumergroup_lag_sum\{consumergroup="([^"]*)",topic="([^"]*)"\} ([\d.]+)')
_MEMBERS: Final = re.compile(r'kafka_consumergroup_members\{consumergroup="([^"]*)"\} ([\d.]+)')
_STEPS: Final = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -PAGE, "page down": PAGE, " ": PAGE}


class NodeWatch(threading.Thread):
    """One for each node: a silent one does not delay the others."""

    def __init__(self, address: Address) -> None:
        super().__init__(name=f"top-{address.node}", daemon=True)
        self.address = address
        self.status: Status | None = None
        self.groups: list[GroupLag] = []
        self.has_looked = threading.Event()
        self._stopping = threading.Event()

    def run(self) -> None:
        measured_at = 0.0
        while not self._stopping.is_set():
            self.status = ask(self.address.http)
            if self.status is None:
                self.groups = []
            elif time.monotonic() - measured_at >= METRICS_SECONDS:
                measured_at = time.monotonic()
                self.groups = group_lags(_metrics(self.address.http))
            self.has_looked.set()
            self._stopping.wait(REFRESH_SECONDS)

    def stop(self) -> None:
        self._stopping.set()


def group_lags(metrics: str) -> list[GroupLag]:
    """The groups of which this node is the coordinator."""
    members = {group: int(float(many)) for group, many in _MEMBERS.findall(metrics)}
    return [
        GroupLag(group, topic, int(float(lag)), members.get(group, 0)) for group, topic, lag in _LAG.findall(metrics)
    ]


def _metrics(http: str) -> str:
    try:
        with contextlib.closing(HTTPConnection(http, timeout=METRICS_SECONDS)) as connection:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode(errors="replace")
    except (OSError, HTTPException):
        return ""


class Rates:
    """Committed records in a second, from one look to the next."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], tuple[float, int]] = {}
        self._rates: dict[tuple[str, int], float] = {}

    def of(self, answers: Sequence[Answer], now: float) -> Mapping[tuple[str, int], float]:
        for part in led(answers):
            name, committed = (part["topic"], part["partition"]), part["high_watermark"]
            since, before = self._last.get(name, (now, committed))
            if name not in self._last or now - since >= 1.0:
                self._last[name] = (now, committed)
                self._rates[name] = max(0, committed - before) / (now - since) if now > since else 0.0
        return self._rates


class ClusterWatch:
    """The nodes of the cluster, which may be started again on other ports meanwhile."""

    def __init__(self, data_dir: Path, http: Sequence[str]) -> None:
        self._where = (data_dir, http)
        self._nodes: list[NodeWatch] = []
        self._rates = Rates()
        self.follow()

    def follow(self) -> None:
        addresses = addresses_of(*self._where)
        if addresses != [each.address for each in self._nodes]:
            self.close()
            self._nodes = [NodeWatch(address) for address in addresses]
            for each in self._nodes:
                each.start()

    def wait(self, seconds: float) -> None:
        """Until one of them has answered, or has been found silent."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not any(each.has_looked.is_set() for each in self._nodes):
            self._nodes[0].has_looked.wait(KEY_SECONDS)

    def look(self, view: TopView) -> None:
        with contextlib.suppress(click.ClickException):  # between two runs of `up` there is no list of nodes
            self.follow()
        view.answers = [(each.address, each.status) for each in self._nodes]
        view.remedies = remedies(view.answers)
        view.groups = [group for each in self._nodes for group in each.groups]
        view.rates = self._rates.of(view.answers, time.monotonic())
        view.clock = time.strftime("%H:%M:%S")

    def close(self) -> None:
        for each in self._nodes:
            each.stop()


@click.command("top")
@click.option("--data-dir", default="highwater-data", show_default=True, type=click.Path(path_type=Path),
              help="The data directory of `highwater up`.")  # fmt: skip
@click.option("--http", "http", multiple=True, metavar="HOST:PORT",
              help="A node to ask, by its highwater.http.listener, instead of nodes.json. Repeatable.")  # fmt: skip
def command(data_dir: Path, http: tuple[str, ...]) -> None:
    """Watch brokers, partitions, the lanes of their replicas, and groups, live on the whole screen.

    A bar is the end of a replica's log, on one scale for all replicas of a partition: █ is committed, ┃ the high
    watermark, ░ not yet committed. ★ leads, ! is out of sync. Partitions with trouble come first.

    q and Ctrl-C quit, the arrows scroll, and i shows internal topics.
    """
    if not sys.stdout.isatty():
        raise click.ClickException("top needs a terminal: `highwater status` prints the same to a file or a pipe")
    # The threads begin with the signals kept, so that none of them takes one.
    with StopSignals() as signals, contextlib.closing(ClusterWatch(data_dir, http)) as watch:
        watch.wait(3.0)
        with Keys() as keys:
            _show(watch, signals, keys)


def _show(watch: ClusterWatch, signals: StopSignals, keys: Keys) -> None:
    console = Console(highlight=False)
    view = TopView()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while not signals.arrived():
            watch.look(view)
            live.update(Group(*screenful(view, console.width, console.height)), refresh=True)
            deadline = time.monotonic() + REFRESH_SECONDS
            pressed: list[str] = []
            while not pressed and time.monotonic() < deadline and not signals.arrived():
                pressed = keys.pressed(KEY_SECONDS) if keys.are_read else _pause(signals)
            if "q" in pressed:
                return
            for key in pressed:
                view.scroll += _STEPS.get(key, 0)
                view.shows_internal ^= key == "i"


def _pause(signals: StopSignals) -> list[str]:
    signals.arrived(KEY_SECONDS)
    return []
