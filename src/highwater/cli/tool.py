"""What the tools share with Kafka's tools: how options are read, how misuse is reported, and exit code 1 for every
failure."""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from highwater.cli.completion import topic_names
from highwater.cli.verbs import VERBS, WrongVerb, with_flags

EXIT_CODE = 128 + signal.SIGINT
"""The exit code after Ctrl-C, as of a shell and of Apache's tools."""

_HAS_VERB = "highwater.cli.has_verb"
"""The key in a context's meta: whether the command line began with a verb."""
_TYPED = "highwater.cli.typed"
"""And the words that were typed behind the tool."""

F = TypeVar("F", bound=Callable[..., Any])


class Tool(click.Command):
    """A command that reports mistakes as Kafka's tools do: the reason, then the usage, on stderr; exit code 1."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """A verb in the place of flags is spelled out first."""
        try:
            spelled = with_flags(self.name or "", args)
        except WrongVerb as wrong:
            if not ctx.resilient_parsing:
                fail(str(wrong))
            spelled = args
        ctx.meta[_HAS_VERB] = spelled is not args
        ctx.meta[_TYPED] = list(args)
        return super().parse_args(ctx, spelled)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        verbs = VERBS.get(self.name or "", {})
        if verbs:
            with formatter.section("Short forms"):
                formatter.write_dl(
                    [(f"{name} {verb.usage}", f"{verb.flag} {verb.option or ''}") for name, verb in verbs.items()]
                )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        verbs = VERBS.get(self.name or "", {})
        names: list[str] = []
        typed: list[str] = ctx.meta.get(_TYPED, [])
        if not typed and not incomplete.startswith("-"):
            names = [verb for verb in verbs if verb.startswith(incomplete)]
        elif len(typed) == 1 and typed[0] in verbs and verbs[typed[0]].names_topics:
            names = topic_names(ctx, None, incomplete)
        return [CompletionItem(name) for name in names] + super().shell_complete(ctx, incomplete)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        bare = not args
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if error.message.startswith("Got unexpected extra argument"):
                fail(f"{error.message}: {self._place_of_names()}; highwater {info_name} --help lists them")
            context = error.ctx or click.Context(self, info_name=info_name, parent=parent)
            misuse(context, _reason(error))
        if bare and not context.resilient_parsing:  # a shell that completes the line wants no usage
            misuse(context, inspect.cleandoc(self.help or "").partition("\n\n")[0])
        return context

    def _place_of_names(self) -> str:
        if self.name in VERBS:
            return "names come right after the verb"
        has_topic = any("--topic" in parameter.opts for parameter in self.params)
        return f"this tool takes options alone{', such as --topic TOPIC' if has_topic else ''}"

    def invoke(self, ctx: click.Context) -> Any:
        """Ctrl-C ends the command silently, with the usual exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(EXIT_CODE)


def tool(name: str, kind: type[Tool] = Tool) -> Callable[[F], Tool]:
    """Makes a function a Tool, with --version beside click's own --help."""

    def wrap(function: F) -> Tool:
        versioned = click.version_option(package_name="highwater", message="%(version)s", help="Display the version.")
        command = click.command(name, cls=kind)(versioned(click.pass_context(function)))
        assert isinstance(command, Tool)
        return command

    return wrap


def misuse(context: click.Context, reason: str) -> NoReturn:
    """Ends with the reason, and with the whole usage if the command line has Kafka's form."""
    click.echo(reason, err=True)
    if context.meta.get(_HAS_VERB):
        click.echo(f"'{context.command_path} --help' lists the options", err=True)
    else:
        click.echo(context.get_help(), err=True)
    context.exit(1)


def fail(reason: str) -> NoReturn:
    """Ends with a reason on stderr and exit code 1."""
    click.echo(reason, err=True)
    sys.exit(1)


def given(context: click.Context, option: str) -> bool:
    """Whether the option is on the command line; `option` is its name without dashes."""
    return context.get_parameter_source(_parameter(option)) is ParameterSource.COMMANDLINE


def require(context: click.Context, *options: str) -> None:
    for option in options:
        if not given(context, option):
            misuse(context, f'Missing required argument "[{option}]"')


def exclude(context: click.Context, used: str, *others: str) -> None:
    """`used` must not be given together with any of `others`."""
    if given(context, used):
        for other in others:
            if given(context, other):
                misuse(context, f'Option "[{used}]" can\'t be used with option "[{other}]"')


def exactly_one(context: click.Context, *options: str) -> None:
    if sum(given(context, option) for option in options) != 1:
        named = ", ".join(f"[{option}]" for option in options)
        misuse(context, f"Exactly one of the following arguments is required: {named}")


def _parameter(option: str) -> str:
    return option.replace("-", "_").replace(".", "_")


def _reason(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        meant = next(iter(error.possibilities or ()), None)
        hint = f": did you mean {meant}?" if meant else ""
        return f"{error.option_name.lstrip('-')} is not a recognized option{hint}"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return f'Missing required argument "[{error.param.opts[-1].lstrip("-")}]"'
    if isinstance(error, click.BadOptionUsage):
        return f"Option {error.option_name.lstrip('-')} requires an argument"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"Option {error.param.opts[0].lstrip('-')}: {error.message}"
    return error.format_message()
