"""What of a module a search has not reached: each outcome of each condition, in words."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from highwater.sim.search.branches import Branches

SOURCE = """
class Gate:
    def opens(self, key, friends):
        if not friends or (key is not None and key > 3):
            return "wide"
        for each in friends:
            if each == key:
                return "a little"
        return None

    @property
    def colour(self):
        return "green" if self.friends else "red"


def unused(limit):
    assert limit > 3, "an assertion that fails is no branch"
    return [each for each in range(limit) if each % 2]
"""


def loaded(folder: Path) -> ModuleType:
    file = folder / "gates.py"
    file.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("gates", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def left(branches: Branches) -> list[str]:
    return [f"{branch.line}: {branch.what}" for branch in branches.left]


def test_a_function_that_was_not_called_is_named_without_its_branches(tmp_path: Path) -> None:
    branches = Branches((loaded(tmp_path),))
    assert left(branches) == [
        "3: opens is never called",
        "12: colour is never called",
        "16: unused is never called",
    ]


def test_each_outcome_of_a_condition_counts_by_itself(tmp_path: Path) -> None:
    gates = loaded(tmp_path)
    branches = Branches((gates,))
    with branches.watched():
        assert gates.Gate().opens(2, [2]) == "a little"
    lines = [line for line in left(branches) if line[:2] in ("4:", "6:", "7:")]
    assert lines == [
        "4: friends is never false",
        "4: key is never None",
        "4: key > 3 is never true",
        "6: for each in friends never comes to its end",
        "7: each == key is never false",
    ]
    with branches.watched():
        gates.Gate().opens(2, [])
        gates.Gate().opens(None, [1])
        gates.Gate().opens(4, [1])
    assert [line for line in left(branches) if line[:2] in ("4:", "6:", "7:")] == []


def test_an_unreached_branch_is_reported_with_its_source_line(tmp_path: Path) -> None:
    branches = Branches((loaded(tmp_path),))
    assert branches.left[0].text() == "gates.py:3: opens is never called\n    def opens(self, key, friends):"


def test_nothing_is_followed_any_more_when_the_search_is_over(tmp_path: Path) -> None:
    before = sys.gettrace()
    with Branches((loaded(tmp_path),)).watched():
        assert sys.gettrace() is not before
    assert sys.gettrace() is before
