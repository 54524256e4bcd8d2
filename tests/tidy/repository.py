"""The repository as the tidiness rules see it."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "highwater"
GENERATED = PACKAGE / "wire" / "messages"

OUTSIDE_A_NODE = ("cli", "client", "cluster", "console", "lab", "pipeline", "pytest_plugin", "sim")
"""What lives outside the simulated world; and `world` is its door. All else is what a node is made of."""


def python_files(*folders: str) -> Iterator[Path]:
    """Hand-written Python under the given folders, sorted."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if GENERATED not in path.parents:
                yield path


def node_files() -> list[Path]:
    """Every module that a node is made of, except the door to the world itself."""
    outside = {*OUTSIDE_A_NODE, "world"}
    return [path for path in python_files("src/highwater") if top_of(path) not in outside]


def top_of(path: Path) -> str:
    """The package or module directly under highwater."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())
