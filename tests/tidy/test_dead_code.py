"""What only tests use is no part of the program."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from tests.tidy.repository import ROOT, documents, named, tree_of
from tests.tidy.usage import Declaration, Usage, declared

pytestmark = pytest.mark.slow

USERS = ("src", "bench", "scripts")
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

EXCEPTIONS = {
    "highwater.cluster.cluster.Cluster.get_bootstrap_server": "the name that testcontainers gives it, for users",
    "highwater.sim.simulation.Simulation.advance": "how the author of a test lets virtual time pass",
    "highwater.sim.simulation.Simulation.drift_clock": "a fault that a test may cause in the simulated world",
    "highwater.sim.simulation.Simulation.stall": "a fault that a test may cause in the simulated world",
}
"""What is there for others than the program itself, each with the reason."""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removeprefix("src.").removesuffix(".__init__")


def python_of_users() -> dict[str, ast.Module]:
    paths = [path for folder in USERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return {module_of(path): tree_of(path) for path in paths}


def texts_of_users() -> dict[str, str]:
    """What uses Python without being Python: the kernel in Cython, entry points, and examples for users."""
    cython = [path for pattern in ("*.pyx", "*.pxi") for path in (ROOT / "src").rglob(pattern)]
    texts = {named(path): path.read_text() for path in (*cython, ROOT / "pyproject.toml", ROOT / "Makefile")}
    examples = {named(path): "\n".join(EXAMPLE.findall(path.read_text())) for path in documents()}
    return {**texts, **examples}


def is_hand_written(module: str) -> bool:
    return module.startswith("highwater.") and not module.startswith("highwater.wire.messages")


def is_setting(declaration: Declaration) -> bool:
    """Settings are found by their type; tests/tidy/test_settings.py sees to it that each is acted on."""
    return declaration.module.startswith("highwater.config.") and declaration.name.isupper()


FOUND_BY_NAME = (
    (re.compile(r"highwater\.\w+\.k\d\d_\w+\.handle"), "highwater/net/registry.py"),
    (re.compile(r"highwater\.cli\.\w+\.command"), "highwater/cli/__init__.py"),
    (re.compile(r"highwater\.pytest_plugin\.pytest_\w+"), "pytest"),
)
"""Functions that are found by the name of their module, and the file that looks for them."""


def is_called_from_outside(declaration: Declaration) -> bool:
    """It overrides a method of a library, or somebody finds it by its name."""
    if any(pattern.fullmatch(declaration.full_name) for pattern, _ in FOUND_BY_NAME):
        return True
    if not declaration.owner:
        return False
    owner = getattr(importlib.import_module(declaration.module), declaration.owner)
    foreign = [base for base in owner.__mro__ if not base.__module__.startswith("highwater")]
    return any(declaration.name in vars(base) for base in foreign)


def unused(trees: dict[str, ast.Module], texts: dict[str, str]) -> list[Declaration]:
    usage = Usage(trees, texts)
    found = [each for module, tree in trees.items() if is_hand_written(module) for each in declared(module, tree)]
    return [each for each in found if not usage.uses(each) and not is_setting(each)]


def test_nothing_is_declared_that_the_program_does_not_use() -> None:
    found = {each.full_name for each in unused(python_of_users(), texts_of_users()) if not is_called_from_outside(each)}
    assert sorted(found - EXCEPTIONS.keys()) == []
    assert sorted(EXCEPTIONS.keys() - found) == [], "exceptions that are none any more"


def test_the_rule_distinguishes_what_is_used_from_what_is_not() -> None:
    trees = {
        "highwater.one": ast.parse(
            "LIMIT = 3\nUNREAD = 4\n"
            "def called(): return LIMIT\n"
            "def twin(): return twin()\n"
            "class Kept:\n    def asked(self): ...\n    def unasked(self): ...\n    def _do_it(self): ...\n"
        ),
        "highwater.two": ast.parse(
            "from highwater.one import called as renamed, Kept\n"
            "def twin(): return renamed(), Kept().asked, getattr(Kept, f'_do_{1}')\n"
        ),
        "highwater.three": ast.parse("from highwater import two\nprint(two.twin())\n"),
        "highwater.wire.messages.made": ast.parse("def decode(): ...\n"),
    }
    names = [each.full_name for each in unused(trees, {"README.md": "nothing"})]
    assert names == ["highwater.one.UNREAD", "highwater.one.twin", "highwater.one.Kept.unasked"]
    assert "highwater.one.UNREAD" not in [each.full_name for each in unused(trees, {"README.md": "see UNREAD"})]


def test_the_rule_looks_at_the_whole_program() -> None:
    modules = [module for module in python_of_users() if is_hand_written(module)]
    assert len(modules) > 400
