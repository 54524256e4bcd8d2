"""The meaning of KAFKA_ environment variables for a cluster of `highwater up`."""

from __future__ import annotations

from collections.abc import Mapping

from highwater.cli.origins import Origins, of_environment
from highwater.cluster.layout import LAID_OUT
from highwater.config.names import near
from highwater.config.node import SETTINGS

MISSPELT = 0.92
"""The likeness of a name with one letter too many or too few. No client setting is this similar to a setting of
Highwater, and no unsupported setting of Kafka is."""
OF_EACH_NODE = frozenset({*LAID_OUT, "broker.rack"})
"""Settings that need a value for each node. One value for all, as a container's environment has it, cannot be meant."""


class Environment:
    """The variables that set something for every node. Variables of clients, which share the prefix, are ignored."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.settings: dict[str, str] = {}
        self.misspelt: list[str] = []
        """A line for each variable that means nothing and is similar to a setting."""
        self.origins = Origins()
        for name, (variable, value) in of_environment(environment).items():
            if name in OF_EACH_NODE:
                continue
            if name in SETTINGS:
                self.settings[name] = value
                self.origins.note([name], f"the environment variable {variable}")
                continue
            meant = near(name, MISSPELT)
            if meant is not None and meant not in OF_EACH_NODE:
                self.misspelt.append(
                    f"the environment variable {variable} is ignored: {name} is no setting of a node; "
                    f"did you mean {_as_variable(meant)}?"
                )


def _as_variable(name: str) -> str:
    return "KAFKA_" + name.upper().replace(".", "_")
