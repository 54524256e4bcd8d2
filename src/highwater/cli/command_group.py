"""Commands that contain others, and suggest the one that a mistyped word may mean."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import Any

import click

KAFKAS = {
    "consumer-groups": "groups",
    "metadata-quorum": "quorum",
    "server-start": "node",
}
"""Names of Kafka's tools that have another name here, without `kafka-` and `.sh`."""


class CommandGroup(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        """Ctrl-C ends every command without a message, with the usual exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            from highwater.cli.tool import EXIT_CODE  # --help loads no tool

            sys.exit(EXIT_CODE)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        typed = args[0]
        # While a shell completes a line, an unknown word is skipped.
        if ctx.resilient_parsing or self.get_command(ctx, typed) is not None:
            return super().resolve_command(ctx, args)
        meant = close_command(typed, self.list_commands(ctx))
        hint = f": did you mean '{meant}'?" if meant else f"; '{ctx.command_path} --help' lists them all"
        raise click.UsageError(f"No such command '{typed}'{hint}", ctx)


def close_command(typed: str, names: list[str]) -> str | None:
    word = typed.lower().removeprefix("kafka-").removesuffix(".sh").replace("_", "-")
    if KAFKAS.get(word) in names:
        return KAFKAS[word]
    return next(iter(get_close_matches(word, names, n=1)), None)
