"""A test asserts something, waits for conditions instead of sleeping, and is found by the runner."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hypothesis import HealthCheck, settings

from tests.tidy.repository import ROOT, named, python_files, tree_of

Function = ast.FunctionDef | ast.AsyncFunctionDef

CHECKS = {
    "until",  # of the simulation: it fails if its condition never comes true
    "wait_until",  # of a cluster: likewise
    "wait_for",  # of asyncio: it raises TimeoutError
    "check",  # of an invariant of the simulation: it raises Broken
}
"""Functions outside `tests/` that fail if what they are called for does not hold."""

VIRTUAL = ("sim", "scenarios")
"""Folders whose tests run on the simulated loop."""

REAL = ("cluster", "pipeline", "console")
"""Folders whose tests run on real processes, whose retention follows the real clock."""
DATES = range(1_000_000_000_000, 2_000_000_000_000)
"""Milliseconds from 2001 to 2033."""


def files_of_tests() -> list[Path]:
    return [path for path in python_files("tests") if path.name.startswith("test_")]


def functions_of(path: Path) -> Iterator[Function]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, Function) and node.name.startswith("test_"):
            yield node


def asserts(path: Path, function: Function, seen: frozenset[Function] = frozenset()) -> bool:
    """Whether the function asserts something: by itself, or by a function of `tests/` that it calls."""
    seen |= {function}
    return any(
        _is_assertion(node)
        or (
            isinstance(node, ast.Call)
            and (name := _called(node)) is not None
            and (
                name in CHECKS
                or any(asserts(where, found, seen) for where, found in _found(path, name) if found not in seen)
            )
        )
        for node in ast.walk(function)
    )


def _is_assertion(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise):
        return node.exc is not None and "AssertionError" in ast.unparse(node.exc)
    return isinstance(node, ast.Assert) or (
        isinstance(node, ast.Attribute) and ast.unparse(node) in ("pytest.raises", "pytest.warns", "pytest.fail")
    )


def _called(call: ast.Call) -> str | None:
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else None


def _found(path: Path, name: str) -> Iterator[tuple[Path, Function]]:
    """The functions and methods of that name, in the file itself and in the files of `tests/` that it imports from."""
    for each in (path, *_imported_from_tests(path)):
        for function in _functions(each).get(name, []):
            yield each, function


@cache
def _functions(path: Path) -> dict[str, list[Function]]:
    functions: dict[str, list[Function]] = {}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, Function):
            functions.setdefault(node.name, []).append(node)
    return functions


@cache
def _imported_from_tests(path: Path) -> list[Path]:
    modules = [node.module or "" for node in ast.walk(tree_of(path)) if isinstance(node, ast.ImportFrom)]
    files = [ROOT / f"{module.replace('.', '/')}.py" for module in modules if module.startswith("tests.")]
    return [file for file in files if file.is_file()]


def test_every_test_asserts_something() -> None:
    tests = [(path, function) for path in files_of_tests() for function in functions_of(path)]
    assert len(tests) > 3_000
    found = [f"{named(path)}::{function.name}" for path, function in tests if not asserts(path, function)]
    assert not found, "\n".join(found)


def test_every_function_within_a_test_is_used() -> None:
    """A test whose play is never performed is green whatever happens."""
    idle = [
        f"{named(path)}::{test.name}: {inner.name}"
        for path in files_of_tests()
        for test in functions_of(path)
        for inner in _inner_functions(test)
        if not any(isinstance(node, ast.Name) and node.id == inner.name for node in ast.walk(test))
    ]
    assert not idle, "\n".join(idle)


def _inner_functions(test: Function) -> Iterator[Function]:
    """Without methods of classes and functions that a decorator takes."""
    methods = {method for each in ast.walk(test) if isinstance(each, ast.ClassDef) for method in each.body}
    for node in ast.walk(test):
        if isinstance(node, Function) and node is not test and node not in methods and not node.decorator_list:
            yield node


def test_no_test_sleeps() -> None:
    """`asyncio.sleep(0)` gives way to the event loop once, and does not wait for the clock. On the simulated loop
    `asyncio.sleep` moves virtual time."""
    sleeping = [
        f"{named(path)}:{node.lineno}"
        for path in files_of_tests()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and _is_sleep(node, path.relative_to(ROOT).parts[1] in VIRTUAL)
    ]
    assert not sleeping, "wait for a condition, or move virtual time: " + ", ".join(sleeping)


def _is_sleep(call: ast.Call, is_virtual: bool) -> bool:
    name = ast.unparse(call.func)
    if name == "asyncio.sleep":
        return not is_virtual and ast.unparse(call) != "asyncio.sleep(0)"
    return name in ("time.sleep", "sleep")


def test_records_with_a_fixed_date_are_kept_for_ever() -> None:
    """Retention of a real node deletes what is a week old, half a minute after its start and every five minutes. A slow
    machine lets that happen within a test. So a test turns it off, or gives its records the time of day."""
    deleted = [
        named(path)
        for path in files_of_tests()
        if path.relative_to(ROOT).parts[1] in REAL
        and any(_is_date(node) for node in ast.walk(tree_of(path)))
        and not any(kept in path.read_text() for kept in ('retention.ms": "-1"', 'retention_ms="-1"'))
    ]
    assert not deleted, "set retention.ms=-1 or use the time of day: " + ", ".join(deleted)


def _is_date(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value in DATES


def test_no_property_is_judged_by_the_clock() -> None:
    """A machine that pauses for a second is no counterexample."""
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
