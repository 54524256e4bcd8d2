"""`highwater demo`: Highwater at work in two minutes, a leader killed on the way, and a verdict on what was lost."""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from highwater.audit import Verdict
from highwater.cli.console_process import ConsoleProcess, console_option
from highwater.cli.demo.interrupts import Interrupts
from highwater.cli.demo.progress import DemoProgress
from highwater.cli.demo.reader import PlainReader
from highwater.cli.demo.run import Demo, Destination, Plan
from highwater.cli.demo.screen import Screen
from highwater.cli.demo.spark import SparkPipeline, missing
from highwater.cli.demo.summary import explain
from highwater.cli.demo.verdict import Judgement
from highwater.cli.local_cluster import LocalCluster
from highwater.cluster.ports import free_ports
from highwater.console.listening import PortTaken

BROKERS = 3
SETTINGS = {"min.insync.replicas": "2"}


@click.command("demo")
@click.option("--seconds", type=click.FloatRange(min=5), help="How long to run; without it, until Ctrl-C.")
@click.option("--no-spark", is_flag=True, help="A plain consumer instead of Spark, its table and its topic.")
@console_option
def command(seconds: float | None, no_spark: bool, console_port: int | str | None) -> None:
    """Run three brokers with orders flowing in, and Spark landing them in a table; kill a leader, and judge.

    The last line is "verdict acked=N delivered=N lost=N duplicated=N", where delivered counts rows of the table. The
    exit code is 0 only if records flowed, the kill happened, and nothing was lost or doubled.
    """
    console = Console()
    lacking = [] if no_spark else missing()
    for each in lacking:
        _print(console, f"without Spark: {each}")
    with Interrupts() as interrupts:
        try:
            judgement = play(console, Plan(seconds), interrupts, not no_spark and not lacking, console_port)
        except PortTaken as taken:
            raise click.ClickException(str(taken)) from taken
        explain(console, judgement)
    sys.exit(1 if judgement.problems else 0)


def play(
    console: Console, plan: Plan, interrupts: Interrupts, with_spark: bool, console_port: int | str | None
) -> Judgement:
    progress = DemoProgress()
    screen = Screen(console, progress, plan.seconds, with_spark)
    screen.introduce(BROKERS)
    with tempfile.TemporaryDirectory(prefix="highwater-demo-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        web = ConsoleProcess(console_port, home)
        cluster = LocalCluster(home, BROKERS, free_ports(BROKERS), SETTINGS)
        try:
            begun = time.monotonic()
            # These fork and inherit every open pipe, so they come before the process of the driver.
            cluster.start()
            progress.add_event(f"{BROKERS} brokers ready after {time.monotonic() - begun:.2f} s at {cluster.bootstrap}")
            web.announce(cluster.bootstrap, cluster.lock_path, *[partial(_print, console)] * 2)
            if interrupts.count:
                return Judgement(Verdict(), was_disturbed=False)
            destination: Destination
            if with_spark:
                destination = SparkPipeline(cluster.bootstrap, home, progress)
            else:
                destination = PlainReader(cluster.bootstrap, progress)
            return Demo(plan, cluster, destination, progress, screen).run(interrupts)
        finally:
            web.stop()
            cluster.stop()


def _print(console: Console, line: str) -> None:
    console.print(line, highlight=False, soft_wrap=True, markup=False)
