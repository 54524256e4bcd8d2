"""A handler file is named for its API key, declares that key, and is registered."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.tidy.repository import PACKAGE, named, python_files, tree_of

HANDLER = re.compile(r"k(\d\d)_[a-z_]+\.py")


def handler_files() -> list[Path]:
    folders = ("active_controller", "broker", "raft_node")
    return [path for folder in folders for path in sorted((PACKAGE / folder).rglob("k[0-9][0-9]_*.py"))]


def declared_keys(tree: ast.Module) -> list[object]:
    """The `key` of every `Api(...)` in a module: a number, or the API_KEY of a message class."""
    keys: list[object] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Api":
            given = [word.value for word in node.keywords if word.arg == "key"] or node.args[:1]
            keys += [key.value if isinstance(key, ast.Constant) else ast.unparse(key) for key in given]
    return keys


def imported_names() -> set[str]:
    """Every module name that hand-written code of the package imports."""
    names: set[str] = set()
    for path in python_files("src/highwater"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Import):
                names.update(alias.name.rpartition(".")[2] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                names.add((node.module or "").rpartition(".")[2])
                names.update(alias.name for alias in node.names)
    return names


def test_every_handler_file_declares_the_key_in_its_name() -> None:
    wrong = []
    for path in handler_files():
        match = HANDLER.fullmatch(path.name)
        keys = declared_keys(tree_of(path))
        number = int(match[1]) if match else None
        if not keys or any(key != number and not str(key).endswith(".API_KEY") for key in keys):
            wrong.append(f"{named(path)} declares {keys}")
    assert not wrong, "\n".join(wrong)


def test_every_handler_file_is_registered() -> None:
    imported = imported_names()
    left_out = [named(path) for path in handler_files() if path.stem not in imported]
    assert not left_out, "nothing imports " + ", ".join(left_out)
