"""What the program declares, and which of it the program itself uses: by names, without running anything."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

WORD = re.compile(r"[A-Za-z_]\w*")
TEXT_OF_NAMES = re.compile(r"[\w.:,\[\]| ]{1,200}")
"""What may name a declaration in a string: an entry point, a type, an attribute. Longer texts are prose."""
REGISTERING = frozenset({"command", "group", "fixture", "overload"})
"""A decorator of this name hands the function to somebody who calls it."""


@dataclass(frozen=True, order=True)
class Declaration:
    module: str
    owner: str
    """The class, or empty."""
    name: str
    lines: range = field(compare=False, hash=False)

    @property
    def full_name(self) -> str:
        return ".".join(filter(None, (self.module, self.owner, self.name)))


def declared(module: str, tree: ast.Module) -> Iterator[Declaration]:
    """Functions, classes, methods and constants; not the fields of classes, which their makers name."""
    for node in tree.body:
        yield from _names(module, "", node)
        if isinstance(node, ast.ClassDef) and not _numbers(node):
            for inner in node.body:
                yield from _names(module, node.name, inner)


def _names(module: str, owner: str, node: ast.stmt) -> Iterator[Declaration]:
    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        is_special = node.name.startswith("__")
        if not is_special and not any(_last_name(each) in REGISTERING for each in node.decorator_list):
            yield Declaration(module, owner, node.name, lines)
    elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        found = [each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        for each in found:
            if each.id.isupper():
                yield Declaration(module, owner, each.id, lines)


def _numbers(node: ast.ClassDef) -> bool:
    """A table of Kafka's numbers is whole, whether or not each of them is used."""
    return any(_last_name(base) == "IntEnum" for base in node.bases)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


class Usage:
    """Where names are used. A name of a module counts for the module that it was imported from; an attribute of
    anything else counts for every method of that name."""

    def __init__(self, trees: Mapping[str, ast.Module], texts: Mapping[str, str]) -> None:
        self._trees = trees
        self._imported = {module: dict(_imports(tree)) for module, tree in trees.items()}
        self._names: defaultdict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
        self._attributes: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        self._prefixes: set[str] = set()
        self._words = {word for text in texts.values() for word in WORD.findall(text)}
        for module, tree in trees.items():
            self._read(module, tree)

    def uses(self, declaration: Declaration) -> bool:
        name = declaration.name
        if name in self._words or any(name.startswith(prefix) for prefix in self._prefixes):
            return True
        places = self._attributes[name] if declaration.owner else self._names[declaration.module, name]
        own = (declaration.module, declaration.lines)
        return any(module != own[0] or line not in own[1] for module, line in places)

    def _read(self, module: str, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._names[self._origin(module, node.id)].append((module, node.lineno))
                self._attributes[node.id].append((module, node.lineno))  # in the body of its own class
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._attributes[node.attr].append((module, node.lineno))
                if isinstance(node.value, ast.Name):
                    owner = ".".join(filter(None, self._origin(module, node.value.id)))
                    self._names[self._origin(owner, node.attr)].append((module, node.lineno))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                if TEXT_OF_NAMES.fullmatch(node.value):
                    self._words.update(word for word in WORD.findall(node.value) if "_" in word or word[0].isupper())
            elif isinstance(node, ast.JoinedStr):
                self._prefixes |= {
                    each.value
                    for each in node.values[:1]
                    if isinstance(each, ast.Constant) and re.fullmatch(r"_\w+_", str(each.value))
                }

    def _origin(self, module: str, name: str) -> tuple[str, str]:
        """The module that declares the name, through any number of imports."""
        seen = set()
        while (source := self._imported.get(module, {}).get(name)) is not None and source not in seen:
            seen.add(source)
            module, name = source
        return module, name


def _imports(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """The local name, and where it comes from: a module and a name in it, or a module alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                yield alias.asname or alias.name, (node.module, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname is not None:
                    yield alias.asname, (alias.name, "")
