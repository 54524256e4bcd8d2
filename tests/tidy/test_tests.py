"""A test asserts something, and is found by the runner."""

from __future__ import annotations

import ast
from pathlib import Path

from hypothesis import HealthCheck, settings

from tests.tidy.repository import ROOT, named, python_files, tree_of


def asserts(path: Path) -> bool:
    """By itself, or through the checks of a module beside the tests."""
    return _has_assertion(path) or any(_has_assertion(source) for source in _imported_from_tests(path))


def _has_assertion(path: Path) -> bool:
    return any(
        isinstance(node, ast.Assert) or (isinstance(node, ast.Attribute) and node.attr == "raises")
        for node in ast.walk(tree_of(path))
    )


def _imported_from_tests(path: Path) -> list[Path]:
    modules = [node.module or "" for node in ast.walk(tree_of(path)) if isinstance(node, ast.ImportFrom)]
    files = [ROOT / f"{module.replace('.', '/')}.py" for module in modules if module.startswith("tests.")]
    return [file for file in files if file.is_file()]


def test_every_test_file_asserts_something() -> None:
    files = [path for path in python_files("tests") if path.name.startswith("test_")]
    assert files
    assert not [named(path) for path in files if not asserts(path)]


def test_no_test_sleeps() -> None:
    sleeping = [
        named(path)
        for path in python_files("tests")
        if path.name.startswith("test_") and any(_is_sleep(node) for node in ast.walk(tree_of(path)))
    ]
    assert not sleeping, "wait for a condition, or move virtual time: " + ", ".join(sleeping)


def _is_sleep(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep")


def test_no_property_is_judged_by_the_clock() -> None:
    """A machine that pauses for a second is no counterexample."""
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
