"""Short forms of the tools: `topics create orders` stands for `topics --create --topic orders`.

A verb is the first word of a command line, and names follow it directly. Kafka's flags begin with a dash, so no command
line of Kafka's tools begins with a word.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple


class Verb(NamedTuple):
    flag: str
    option: str | None = None
    """The option that takes the names; None if the verb takes none."""
    needs_name: bool = False
    takes_several: bool = False
    without_names: tuple[str, ...] = ()
    """The flags that are added if no name is given."""
    instead_of_names: tuple[str, ...] = ()
    """The flags that take the place of names on the command line."""
    is_exact: bool = False
    """A name is meant literally, though the option takes a regular expression: what is changed is what was typed."""

    @property
    def names_topics(self) -> bool:
        """Whether its names are those of topics that there are."""
        return self.option == "--topic" and self.flag != "--create"

    @property
    def usage(self) -> str:
        if self.option is None:
            return ""
        name = f"{self.option.lstrip('-').upper()}{'…' if self.takes_several else ''}"
        return name if self.needs_name else f"[{name}]"


VERBS: dict[str, dict[str, Verb]] = {
    "topics": {
        "create": Verb("--create", "--topic", needs_name=True),
        "list": Verb("--list", "--topic"),
        "describe": Verb("--describe", "--topic"),
        "alter": Verb("--alter", "--topic", needs_name=True, is_exact=True),
        "delete": Verb("--delete", "--topic", needs_name=True, is_exact=True),
    },
    "groups": {
        "list": Verb("--list"),
        "describe": Verb("--describe", "--group", takes_several=True, without_names=("--all-groups",)),
        "delete": Verb("--delete", "--group", needs_name=True, takes_several=True, instead_of_names=("--all-groups",)),
        "reset-offsets": Verb("--reset-offsets", "--group", needs_name=True, instead_of_names=("--all-groups",)),
    },
    "configs": {
        "describe": Verb("--describe", "--topic", needs_name=True),
        "alter": Verb("--alter", "--topic", needs_name=True),
    },
}


ANSWERED_BY_THEMSELVES = ("--help", "--version")
"""Options that print their answer and end, so that nothing else is required."""


class WrongVerb(ValueError):
    """The reason is one line."""


def with_flags(tool: str, args: list[str]) -> list[str]:
    """The command line with flags in the place of a verb and its names. Raises WrongVerb."""
    verbs = VERBS.get(tool, {})
    if not args or args[0].startswith("-") or not verbs:
        return args
    word = args[0]
    if word not in verbs:
        meant = get_close_matches(word.lower(), verbs, n=1)
        hint = f"did you mean '{meant[0]}'?" if meant else f"there are {', '.join(verbs)}"
        raise WrongVerb(f"{tool} has no verb '{word}': {hint}")
    verb = verbs[word]
    names = list(_leading_words(args[1:]))
    rest = args[1 + len(names) :]
    named_by = (verb.option, *verb.instead_of_names, *ANSWERED_BY_THEMSELVES)
    is_named = any(each.partition("=")[0] in named_by for each in rest)
    if verb.needs_name and not names and not is_named and not (tool == "configs" and rest):
        raise WrongVerb(f"{tool} {word} needs a name: highwater {tool} {word} {verb.usage}")
    if len(names) > (verb.option is not None) and not verb.takes_several:
        most = "no name" if verb.option is None else "one name"
        raise WrongVerb(f"{tool} {word} takes {most}, but got {len(names)}: {' '.join(names)}")
    given = [part for name in names for part in (verb.option or "", literal(name) if verb.is_exact else name)]
    if not names and not is_named:
        given += verb.without_names
    return [verb.flag, *given, *rest]


def literal(name: str) -> str:
    """The regular expression that matches this topic alone: of its letters, only the dot has a meaning there."""
    return name.replace(".", "[.]")


def as_typed(expression: str) -> str:
    """What `literal` made an expression of."""
    return expression.replace("[.]", ".")


def _leading_words(args: list[str]) -> list[str]:
    count = next((at for at, word in enumerate(args) if word.startswith("-")), len(args))
    return args[:count]
