"""The settings of one node: its file, and what overrides it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from highwater.cli.origins import Origins, of_environment
from highwater.config import ConfigError, NodeConfig, parse_properties


def read_config(path: Path, overrides: tuple[str, ...] = (), environment: Mapping[str, str] = os.environ) -> NodeConfig:
    """The file, then KAFKA_ environment variables, then --override; later ones win. ConfigError names the file, or the
    variables or options from which a wrong setting comes."""
    origins = Origins()
    try:
        properties = parse_properties(path.read_text(encoding="iso-8859-1"))
    except (ValueError, OSError) as wrong:
        raise ConfigError(f"{path}: {getattr(wrong, 'strerror', None) or wrong}") from wrong
    for name, (variable, value) in of_environment(environment).items():
        properties[name] = value
        origins.note([name], f"the environment variable {variable}")
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key:
            raise ConfigError(f"--override takes key=value, not {override!r}")
        properties[key] = value
        origins.note([key], f"--override {override}")
    try:
        return NodeConfig.parse(properties)
    except ConfigError as wrong:
        raise ConfigError(origins.blame(wrong) if origins.of(str(wrong)) else f"{path}: {wrong}") from wrong
