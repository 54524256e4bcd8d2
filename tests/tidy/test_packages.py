"""Each package says what it is for, what it may use and where to start reading."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from tests.tidy.repository import GENERATED, PACKAGE, named, python_files, top_of, tree_of

START = re.compile(r"\bStart (?:here|with)\b")
MAY_USE = re.compile(r"\b(?:may use|must not use|uses only|imports? (?:no|`)|touches only|through the injected)")
FEW = 2
"""A package with at most this many modules needs no place to start."""
MOST_HOLDERS = 3
"""The most packages of which each may have a public class of the same name."""
MODEL = PACKAGE / "sim" / "search"
"""It is a model of other packages, and its classes have the names of what they are models of."""


def packages() -> list[Path]:
    found = (path.parent for path in python_files("src/highwater") if path.name == "__init__.py")
    return [each for each in found if GENERATED not in (each, *each.parents) and each != PACKAGE]


def introduction(package: Path) -> str:
    return " ".join((ast.get_docstring(tree_of(package / "__init__.py")) or "").split())


def test_every_package_says_where_to_start_reading() -> None:
    large = [each for each in packages() if len(list(each.glob("*.py"))) - 1 > FEW]
    assert len(large) > 20
    assert not [named(each) for each in large if not START.search(introduction(each))]


def test_every_package_of_highwater_says_what_it_may_use() -> None:
    tops = [each for each in packages() if each.parent == PACKAGE]
    assert len(tops) > 20
    assert not [named(each) for each in tops if not MAY_USE.search(introduction(each))]


def test_few_packages_share_a_public_class_name() -> None:
    holders: dict[str, set[str]] = defaultdict(set)
    for path in python_files("src/highwater"):
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and node.name[0] != "_" and MODEL not in path.parents:
                holders[node.name].add(top_of(path))
    assert len(holders) > 500
    shared = {name: sorted(tops) for name, tops in holders.items() if len(tops) > MOST_HOLDERS}
    assert not shared, "give them names that tell them apart"
