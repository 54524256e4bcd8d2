"""The origin of settings, so that a user looks for a wrong one in the right place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from highwater.config.properties import environment_overrides


def of_environment(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """By the name of the setting: the environment variable and its value."""
    found = {}
    for variable in sorted(environment):
        for name, value in environment_overrides({variable: environment[variable]}).items():
            found[name] = variable, value
    return found


class Origins:
    """The origins of settings that do not come from a node's file."""

    def __init__(self) -> None:
        self._origins: dict[str, str] = {}

    def note(self, names: Iterable[str], origin: str) -> None:
        self._origins.update(dict.fromkeys(names, origin))

    def of(self, text: str) -> list[str]:
        """The origins of all settings that a message names, as `log.roll.ms is set by --override`."""
        words = (word.rstrip(".") for word in re.findall(r"[\w.]+", text))
        named = dict.fromkeys(word for word in words if word in self._origins)
        return [f"{name} is set by {self._origins[name]}" for name in named]

    def blame(self, wrong: Exception) -> str:
        """The error, with its origin."""
        named = self.of(str(wrong))
        return f"{wrong} ({', '.join(named)})" if named else str(wrong)
