"""A name in backticks in a docstring exists."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

import pytest

from tests.tidy.repository import named, python_files, tree_of

pytestmark = pytest.mark.slow

QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?")

EXCEPTIONS = {
    "PnDTnHnMnS": "the form of a duration in ISO 8601",
    "__": "what stands for a dash in the name of a variable, by Kafka's rule",
    "___": "what stands for an underscore, by the same rule",
    "_fast": "the kernel in Cython",
    "pyiceberg": "a library",
    "python3": "a program",
    "random.Random": "of the standard library, which decisions must not import",
}

Trees = Mapping[str, ast.Module]


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Of modules, classes and functions, and those below a constant or a field."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                yield each.value


def assigned(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


class Vocabulary:
    """The names of a program: those that hold everywhere, and those of one file."""

    def __init__(self, trees: Trees) -> None:
        self.everywhere: set[str] = set()
        self.texts: set[str] = set()
        """Strings of the program that are no docstrings: settings, options, file names."""
        self.of_file: dict[str, set[str]] = {}
        self._members: defaultdict[str, set[str]] = defaultdict(set)
        self._bases: defaultdict[str, set[str]] = defaultdict(set)
        for path, tree in trees.items():
            self.everywhere.update(re.findall(r"\w+", path.removesuffix(".py")))
            self.of_file[path] = set(self._read(tree))

    def _read(self, tree: ast.Module) -> Iterator[str]:
        prose = {id(each) for each in docstrings(tree)}
        self.everywhere.update(assigned(tree.body))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.everywhere.add(node.name)
                if isinstance(node, ast.ClassDef):
                    self._read_class(node)
            elif isinstance(node, ast.Attribute):
                yield node.attr
            elif isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.arg | ast.keyword):
                yield node.arg or ""
            elif isinstance(node, ast.alias):
                yield from node.name.split(".")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                self.texts.add(node.value)

    def _read_class(self, node: ast.ClassDef) -> None:
        members = self._members[node.name]
        members.update(assigned(node.body))
        for each in ast.walk(node):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                members.add(each.name)
            elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                members.add(each.attr)
        self.everywhere |= members
        self._bases[node.name] |= {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}

    def _has(self, owner: str, member: str, seen: frozenset[str] = frozenset()) -> bool:
        if member in self._members[owner]:
            return True
        return any(self._has(base, member, seen | {owner}) for base in self._bases[owner] - seen)

    def knows(self, quoted: str, path: str) -> bool:
        if quoted in self.texts or keyword.iskeyword(quoted):
            return True
        parts = quoted.removesuffix("()").split(".")
        for owner, member in pairwise(parts):
            if owner in self._bases and not self._has(owner, member):
                return False
        known = (self.everywhere, self.of_file[path], vars(builtins))
        return all(any(part in names for names in known) for part in parts)


def unknown(trees: Trees) -> list[tuple[str, int, str]]:
    vocabulary = Vocabulary(trees)
    return [
        (path, text.lineno, quoted)
        for path, tree in trees.items()
        for text in docstrings(tree)
        for quoted in QUOTED.findall(str(text.value))
        if NAME.fullmatch(quoted) and not vocabulary.knows(quoted, path)
    ]


def test_every_name_in_a_docstring_exists() -> None:
    found = unknown({named(path): tree_of(path) for path in python_files("src")})
    assert [f"{path}:{line}: {quoted}" for path, line, quoted in found if quoted not in EXCEPTIONS] == []
    assert EXCEPTIONS.keys() - {quoted for _, _, quoted in found} == set(), "exceptions that are none any more"


def test_the_rule_distinguishes_names_that_exist_from_those_that_do_not() -> None:
    trees = {
        "src/one.py": ast.parse(
            'class Log:\n    """`end`, `Log.end`, `Log.start`, `gone`, `retention.ms`, `two`"""\n'
            '    def end(self, limit): """`limit`, `limits`"""\n'
        ),
        "src/two.py": ast.parse('"""`Log.end()`, `limit`, `a sentence`, `raise`"""\nNAME = "retention.ms"\n'),
    }
    assert [quoted for _, _, quoted in unknown(trees)] == ["Log.start", "gone", "limits", "limit"]


def test_the_docstrings_name_enough_for_the_rule_to_mean_something() -> None:
    texts = [str(text.value) for path in python_files("src") for text in docstrings(tree_of(path))]
    assert sum(bool(NAME.fullmatch(quoted)) for text in texts for quoted in QUOTED.findall(text)) > 500
