"""Unknown names of settings, and the settings that may be meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from highwater.config.kinds import ConfigError
from highwater.config.node import SETTINGS
from highwater.config.unsupported import is_unsupported


def near(name: str, likeness: float = 0.6) -> str | None:
    """The setting that may be meant by an unknown name."""
    return next(iter(get_close_matches(name, SETTINGS, n=1, cutoff=likeness)), None)


def check_known(names: Iterable[str]) -> None:
    """Raises ConfigError for an unknown name, with the setting that may be meant."""
    for name in names:
        if name not in SETTINGS and not is_unsupported(name):
            meant = near(name)
            hint = f": did you mean {meant}?" if meant else ""
            raise ConfigError(f"{name} is no setting of a node{hint}")
