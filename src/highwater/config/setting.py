"""The declaration of a setting: with Kafka's name, type, default and bounds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic

from highwater.config.kinds import PASSWORD, Allowed, ConfigError, Kind, Refusal, T

REQUIRED: Any = object()
"""The default of a setting that must be given."""


class Update(Enum):
    """How a setting may be changed while the node runs, in the words of Kafka's documentation."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True, eq=False)
class Setting(Generic[T]):
    """One setting of a node. `NodeConfig.get` returns its value."""

    name: str
    kind: Kind[T]
    default: T
    doc: str
    allowed: Allowed[T] | None = None
    update: Update = Update.READ_ONLY
    internal: bool = False
    """Not shown by DescribeConfigs unless it is set. Kafka's tests use it, and so do ours."""
    inert: str = ""
    """Why it is accepted although it changes nothing here. Every such setting is listed in docs/divergence.md."""
    kafka_default: str | None = None
    """Kafka's default, if ours differs on purpose."""

    @property
    def sensitive(self) -> bool:
        return self.kind.name == PASSWORD.name

    def parse(self, text: str) -> T:
        """Raises ConfigError."""
        return parse(self.name, self.kind, self.allowed, text)


def parse(name: str, kind: Kind[T], allowed: Allowed[T] | None, text: str) -> T:
    """The parsed value, or ConfigError with Kafka's message."""
    try:
        value = kind.parse(text)
        if allowed is not None:
            allowed.check(name, value)
    except Refusal as why:
        shown = "[hidden]" if kind.name == PASSWORD.name else text
        raise ConfigError(f"Invalid value {shown} for configuration {name}: {why}") from None
    return value
