"""`highwater lab`: experiments on replication, on a real cluster in this process."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from highwater.cli.keys import Keys
from highwater.cli.output import output_option, print_json
from highwater.cluster.failed import ClusterFailed
from highwater.lab.bench import Bench, NotSeen
from highwater.lab.catalogue import EXPERIMENTS
from highwater.lab.drawing import drawn
from highwater.lab.frame import LANGUAGES, Frame, NotARecording, Recording, Words, recorded

WIDEST: Final = 110
NARROWEST: Final = 40
PIPE_WIDTH: Final = 100
KEY_SECONDS: Final = 3600.0
NEXT: Final = Words("any key: the next picture, q: quit ", "아무 키: 다음 그림, q: 끝내기 ")

_language = click.option(
    "--lang", "language", type=click.Choice(LANGUAGES), default="en", show_default=True, help="English or Korean."
)
_step = click.option("--step", is_flag=True, help="Wait for a key after each picture; q quits.")


@click.group("lab")
def command() -> None:
    """Watch replication happen: experiments on a real cluster, narrated and drawn as lanes.

    A lane is the log of one replica: [3] is a record below the high watermark, (4) one above it, {4} one that the
    leader does not have, ┃ the high watermark, and e1 the place where leader epoch 1 begins. In a long log they are
    █, ░ and x.
    """


@command.command("list")
@_language
@output_option
def list_experiments(language: str, output: str) -> None:
    """List the experiments, in the order of the course."""
    if output == "json":
        print_json([{"name": name, "title": each.title.told(language, {})} for name, each in EXPERIMENTS.items()])
        return
    width = max(map(len, EXPERIMENTS))
    for name, experiment in EXPERIMENTS.items():
        click.echo(f"{name:<{width}}  {experiment.title.told(language, {})}")


def _names_like(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    return [name for name in EXPERIMENTS if name.startswith(typed)]


@command.command("run")
@click.argument("name", required=False, shell_complete=_names_like)
@_step
@_language
@click.option("--record", type=click.Path(path_type=Path, dir_okay=False), help="Keep the pictures in this file.")
def run(name: str | None, step: bool, language: str, record: Path | None) -> None:
    """Run one experiment. The exit code is 0 only if all that it narrates was seen.

    With --step the experiment runs to its end first: a cluster that waits for a key would run into its time limits.
    """
    if name is None:
        raise click.UsageError("NAME is missing: `highwater lab list` has the experiments")
    experiment = EXPERIMENTS.get(name)
    if experiment is None:
        meant = next(iter(get_close_matches(name, EXPERIMENTS, n=1)), None)
        hint = "`highwater lab list` has them" if meant is None else f"did you mean {meant}?"
        raise click.ClickException(f"there is no experiment {name}: {hint}")
    if record is not None and not record.parent.is_dir():
        raise click.ClickException(f"--record {record}: there is no folder {record.parent}")
    console = _console()
    shown = 0

    def show(frame: Frame) -> None:
        nonlocal shown
        shown += 1
        if not step:
            console.print(drawn(frame, shown, 0, language, console.width))

    logging.getLogger("highwater").addHandler(logging.NullHandler())  # what the nodes log is not part of the story
    if sys.stderr.isatty():
        click.echo("starting three brokers and three controllers …", err=True)
    try:
        with Bench.new_cluster() as cluster:
            recording = experiment.run(cluster, show)
    except (NotSeen, TimeoutError, ClusterFailed) as failed:
        raise click.ClickException(f"{name}: it was not seen: {failed}") from failed
    if record is not None:
        _keep(recording, record)
    if step:
        _step_through(recording, language, console)


@command.command("replay")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_step
@_language
def replay(file: Path, step: bool, language: str) -> None:
    """Show the pictures of a recording again, in either language."""
    try:
        recording = recorded(file.read_text("utf-8"))
    except (NotARecording, UnicodeDecodeError) as wrong:
        raise click.ClickException(f"{file}: {wrong}") from wrong
    (_step_through if step else _play)(recording, language, _console())


def _play(recording: Recording, language: str, console: Console, goes_on: Callable[[], bool] = lambda: True) -> None:
    """`goes_on` is asked between two pictures."""
    count = len(recording.frames)
    for number, frame in enumerate(recording.frames, 1):
        console.print(drawn(frame, number, count, language, console.width))
        if number < count and not goes_on():
            return


def _step_through(recording: Recording, language: str, console: Console) -> None:
    """On a terminal, with a key between two pictures. q ends it."""
    with Keys() as keys:

        def goes_on() -> bool:
            if not keys.are_read or not sys.stdout.isatty():
                return True
            click.echo(NEXT.told(language, {}), nl=False)
            pressed: list[str] = []
            while keys.are_read and not pressed:
                pressed = keys.pressed(KEY_SECONDS)
            click.echo()
            return "q" not in pressed

        _play(recording, language, console, goes_on)


def _keep(recording: Recording, record: Path) -> None:
    try:
        record.write_text("\n".join(recording.lines()) + "\n", "utf-8")
    except OSError as failed:
        raise click.ClickException(f"--record {record}: {failed.strerror}") from failed


def _console() -> Console:
    columns = shutil.get_terminal_size((PIPE_WIDTH, 24)).columns
    return Console(width=max(NARROWEST, min(columns, WIDEST)), highlight=False, soft_wrap=False)
