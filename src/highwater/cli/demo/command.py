"""`highwater demo`: Highwater at work in two minutes, a leader killed on the way, and a verdict on what was lost."""

from __future__ import annotations

import errno
import shutil
import sys
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console

from highwater.audit import Verdict
from highwater.cli.console_process import ConsoleProcess, console_option
from highwater.cli.demo.afterwards import describe_table, offer_the_cluster, remove_all_but
from highwater.cli.demo.interrupts import Interrupts
from highwater.cli.demo.plan import Plan
from highwater.cli.demo.progress import DemoProgress
from highwater.cli.demo.reader import PlainReader
from highwater.cli.demo.run import LAG_SECONDS, Demo, Destination
from highwater.cli.demo.screen import Screen
from highwater.cli.demo.spark import SparkPipeline, missing
from highwater.cli.demo.summary import explain
from highwater.cli.demo.verdict import Judgement
from highwater.cli.keys import Keys
from highwater.cli.local_cluster import LocalCluster
from highwater.cluster.failed import ClusterFailed
from highwater.cluster.ports import free_ports
from highwater.console.listening import PortTaken

BROKERS = 3
SETTINGS = {"min.insync.replicas": "2", "replica.lag.time.max.ms": f"{LAG_SECONDS * 1000:.0f}"}
TABLE = "table"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.ENOENT)
"""Of the place for temporary files."""


@click.command("demo")
@click.option("--seconds", type=click.FloatRange(min=5), help="How long to run; without it, until Ctrl-C.")
@click.option("--no-spark", is_flag=True, help="A plain consumer instead of Spark, its table and its topic.")
@console_option
def command(seconds: float | None, no_spark: bool, console_port: int | str | None) -> None:
    """Run three brokers with orders flowing in, and Spark landing them in a table; kill a leader, and judge.

    On a terminal, keys kill, pause, cut, slow and heal brokers; and after a run without --seconds the cluster can stay
    up. The table stays, and its path is printed.

    The last line is "verdict acked=N delivered=N lost=N duplicated=N", where delivered counts rows of the table. The
    exit code is 0 only if records flowed, the kill happened, and nothing was lost or doubled.
    """
    console = Console()
    lacking = [] if no_spark else missing()
    for each in lacking:
        console.print(f"without Spark: {each}", highlight=False, soft_wrap=True, markup=False)
    try:
        judgement = _run(console, Plan(seconds), not no_spark and not lacking, console_port)
    except (ClusterFailed, PortTaken) as failed:
        raise click.ClickException(str(failed)) from failed
    except OSError as failed:
        if failed.errno not in NO_ROOM:
            raise
        place = failed.filename or tempfile.gettempdir()
        raise click.ClickException(f"{place}: {failed.strerror}; TMPDIR names another place for the demo") from failed
    console.print(judgement.verdict.line(), highlight=False, soft_wrap=True, markup=False)
    sys.exit(1 if judgement.problems else 0)


def _run(console: Console, plan: Plan, with_spark: bool, console_port: int | str | None) -> Judgement:
    """In a directory of its own, of which only the table stays."""
    home = Path(tempfile.mkdtemp(prefix="highwater-demo-"))
    try:
        with Interrupts() as interrupts, Keys() as keys:
            web = ConsoleProcess(console_port, home)
            return Stage(console, plan, interrupts, keys, home, web).play(with_spark)
    finally:
        remove_all_but(home / TABLE, home)
        if not (home / TABLE).exists():
            shutil.rmtree(home, ignore_errors=True)


class Stage:
    """What a run takes place on: the cluster in its directory, the screen and the keys."""

    def __init__(
        self, console: Console, plan: Plan, interrupts: Interrupts, keys: Keys, home: Path, web: ConsoleProcess
    ) -> None:
        self._console = console
        self._plan = plan
        self._interrupts = interrupts
        self._keys = keys
        self._home = home
        self._web = web
        self._progress = DemoProgress()

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)

    def play(self, with_spark: bool) -> Judgement:
        """Runs and explains it all, but for the last line."""
        has_keys = self._keys.are_read and self._console.is_terminal
        screen = Screen(self._console, self._progress, self._plan.seconds, with_spark, has_keys)
        screen.introduce(BROKERS)
        cluster = LocalCluster(self._home, BROKERS, free_ports(BROKERS), SETTINGS)
        try:
            begun = time.monotonic()
            # These fork and inherit every open pipe, so they come before the process of the driver.
            cluster.start()
            ready = f"{BROKERS} brokers ready after {time.monotonic() - begun:.2f} s at {cluster.bootstrap}"
            self._progress.add_event(ready)
            self._web.announce(cluster.bootstrap, cluster.lock_path, self._say, self._say)
            if self._interrupts.count:
                judgement = Judgement(Verdict(), was_disturbed=False)
            else:
                judgement = self._demo(cluster, screen, with_spark).run()
            explain(self._console, judgement)
            table = self._home / TABLE
            if table.exists():
                describe_table(table, judgement.verdict.delivered, self._say)
            if self._plan.seconds is None and self._console.is_terminal:
                offer_the_cluster(cluster, self._home, self._keys, self._interrupts, self._say)
            return judgement
        finally:
            self._web.stop()
            cluster.stop()

    def _demo(self, cluster: LocalCluster, screen: Screen, with_spark: bool) -> Demo:
        destination: Destination
        if with_spark:
            destination = SparkPipeline(cluster.bootstrap, self._home, self._home / TABLE, self._progress)
        else:
            destination = PlainReader(cluster.bootstrap, self._progress)
        return Demo(self._plan, cluster, destination, self._progress, screen, self._keys, self._interrupts)
