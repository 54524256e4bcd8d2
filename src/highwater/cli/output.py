"""`-o json`: what a tool lists, for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

import click

LIKELY = 0.9
"""How much an unknown name must be like a known one to be taken for a mistake where other names are taken, too."""

Decorated = Callable[..., Any]


def output_option(function: Decorated) -> Decorated:
    option = click.option(
        "-o", "--output", type=click.Choice(["text", "json"]), default="text",
        help="How a listing or description is printed: as Kafka's tool prints it, or as JSON.",
    )  # fmt: skip
    return option(function)


def print_json(found: object) -> None:
    click.echo(json.dumps(found, indent=2, ensure_ascii=False))


def suggest(typed: str, names: Iterable[str], likeness: float = 0.6) -> None:
    """Prints the name that may be meant on stderr: stdout keeps the words of Kafka's tool."""
    meant = get_close_matches(typed, list(names), n=1, cutoff=likeness)
    if meant:
        click.echo(f"Did you mean '{meant[0]}'?", err=True)


def suggest_setting(typed: Iterable[str], settings: Iterable[str], likeness: float = 0.6) -> None:
    """For each name that is none of the settings: the one that may be meant."""
    known = list(settings)
    for name in typed:
        if name not in known:
            suggest(name, known, likeness)
