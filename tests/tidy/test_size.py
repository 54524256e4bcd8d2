"""Small modules and small functions: what is larger has more than one reason to change."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.repository import named, python_files, tree_of

MODULE_LINES = 450
FUNCTION_LINES = 70
FOLDERS = ("src", "tests", "bench", "scripts")


def long_functions(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"{named(path)}:{node.lineno} {node.name} has {lines} lines"


def test_no_module_is_longer_than_450_lines() -> None:
    sizes = {named(path): len(path.read_text().splitlines()) for path in python_files(*FOLDERS)}
    assert sizes
    assert not {name: lines for name, lines in sizes.items() if lines > MODULE_LINES}


def test_no_function_is_longer_than_70_lines() -> None:
    found = [problem for path in python_files(*FOLDERS) for problem in long_functions(path)]
    assert not found, "\n".join(found)
