"""What KAFKA_ variables of the environment mean to a cluster whose nodes `highwater up` lays out."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from highwater.config import ConfigError
from highwater.config.node import SETTINGS
from highwater.config.properties import environment_overrides
from highwater.config.unsupported import is_unsupported

LAID_OUT = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "broker.rack",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "highwater.http.listener",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "process.roles",
    }
)
"""Each node has its own: one value for all of them, as a container's environment has it, cannot be meant."""


class Environment:
    """The variables that set something for every node. Those of clients, which share the prefix, are none of ours."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.settings: dict[str, str] = {}
        self._variables: dict[str, str] = {}
        for variable in sorted(environment):
            for name, value in environment_overrides({variable: environment[variable]}).items():
                if name in SETTINGS and name not in LAID_OUT:
                    self.settings[name] = value
                    self._variables[name] = variable

    def blame(self, wrong: ConfigError) -> str:
        """The error, with the variable that it comes from."""
        words = str(wrong).replace(":", " ").split()
        named = [variable for name, variable in self._variables.items() if name in words]
        return f"{wrong} (set by the environment variable {named[0]})" if named else str(wrong)


def check_known(settings: Mapping[str, str]) -> None:
    """ConfigError for a name that means nothing, with the one that may be meant."""
    for name in settings:
        if name not in SETTINGS and not is_unsupported(name):
            close = get_close_matches(name, SETTINGS, n=1)
            hint = f": did you mean {close[0]}?" if close else ""
            raise ConfigError(f"{name} is no setting of a node{hint}")
