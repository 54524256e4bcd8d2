"""Each difference from Kafka names the test that shows it."""

from __future__ import annotations

import ast
import re

import pytest

from tests.tidy.repository import ROOT, python_files, tree_of

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "divergence.md").read_text()
NAMED = re.compile(r"`(test_\w+)`")


def differences() -> list[str]:
    """Every item of a list on the page, on one line."""
    items = re.findall(r"^- .*(?:\n  .*)*", PAGE, re.MULTILINE)
    return [re.sub(r"\s+", " ", item) for item in items]


def test_every_difference_names_a_test() -> None:
    assert len(differences()) > 20
    assert not [item for item in differences() if not NAMED.search(item)]


def test_every_test_that_is_named_exists() -> None:
    tests = {
        node.name
        for path in python_files("tests")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not set(NAMED.findall(PAGE)) - tests
