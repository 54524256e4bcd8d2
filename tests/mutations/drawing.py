"""Changes of one line, found in a package by its syntax and drawn by a seed.

Not drawn is what changes nothing that a test should see: log lines, messages of errors, pauses of jobs, `__repr__`,
assertions, types, decorators, and names that are bound once, which would only be missing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

TURNED: dict[type[ast.cmpop], tuple[tuple[str, str], ...]] = {
    ast.Lt: (("<", "<="), ("<", ">=")),
    ast.LtE: (("<=", "<"), ("<=", ">")),
    ast.Gt: ((">", ">="), (">", "<=")),
    ast.GtE: ((">=", ">"), (">=", "<")),
    ast.Eq: (("==", "!="),),
    ast.NotEq: (("!=", "=="),),
    ast.Is: (("is", "is not"),),
    ast.IsNot: ((r"is\s+not", "is"),),
    ast.In: (("in", "not in"),),
    ast.NotIn: ((r"not\s+in", "in"),),
}
"""How an operator is written, and what takes its place: the other side, and the other end where there is one."""
LOGGERS = ("_log", "log", "logger", "_state_change_log")
LOGGED = ("debug", "info", "warning", "error", "exception")
PAUSE = "yield Step()"
"""Where a job may be paused."""
SPOKEN = ("__repr__", "__str__")
DECLARED = ("__all__", "__slots__")
SHAPES = ("covariant", "contravariant", "strict", "repr", "compare", "slots", "frozen", "init", "kw_only", "exc_info")
"""Keyword arguments that say how something is declared, compared in pairs or shown."""

Edit = tuple[int, int, str]
"""From, to, and what stands there instead."""


class Found(NamedTuple):
    """What could be changed: the kind, the first and the last line of the whole statement, and how."""

    kind: str
    statement: tuple[int, int]
    edits: list[Edit]


@dataclass(frozen=True)
class Change:
    """One line, or several that are one statement, with others in their place: no line of the file moves."""

    file: str
    kind: str
    line: int
    last: int
    replacement: str
    before: str
    after: str
    """The line that changes, as it is and as it becomes."""
    statement: tuple[int, int]
    """The lines of the whole statement: Python says of one of them that it was reached."""

    def applied_to(self, source: str) -> str:
        lines = source.split("\n")
        lines[self.line - 1 : self.last] = self.replacement.split("\n")
        return "\n".join(lines)


def drawn(root: Path, folder: str, count: int, seed: int) -> list[Change]:
    """At most one change for each line; fewer than asked for only if the package has not as many lines."""
    die = Random(f"{seed} {folder}")
    files = {str(path.relative_to(root)): path.read_text() for path in sorted((root / folder).rglob("*.py"))}
    by_line: dict[tuple[str, int], list[Found]] = {}
    for file, source in files.items():
        for found in found_in(source):
            by_line.setdefault((file, source.count("\n", 0, found.edits[0][0]) + 1), []).append(found)
    lines = sorted(by_line)
    die.shuffle(lines)
    changes: list[Change] = []
    for file, line in lines:
        found = die.choice(by_line[file, line])
        if len(changes) < count and (change := change_by(found, files[file], file)) is not None:
            changes.append(change)
    return sorted(changes, key=lambda change: (change.file, change.line))


def change_by(found: Found, source: str, file: str) -> Change | None:
    """None if it is no program, or the same one."""
    changed = source
    for start, end, text in sorted(found.edits, reverse=True):
        changed = changed[:start] + text + changed[end:]
    try:
        if ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source)):
            return None
        compile(changed, file, "exec", dont_inherit=True)
    except SyntaxError:
        return None
    before, after = source.split("\n"), changed.split("\n")
    different = [at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    first, last = different[0], different[-1]
    return Change(
        file=file,
        kind=found.kind,
        line=first + 1,
        last=last + 1,
        replacement="\n".join(after[first : last + 1]),
        before=before[first].strip(),
        after=after[first].strip(),
        statement=found.statement,
    )


def found_in(source: str) -> list[Found]:
    """All that could be changed in a module."""
    return list(_Finder(_Text(source)).found_in(ast.parse(source)))


class _Text:
    """A source, and where its nodes lie in it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._lines = source.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._place(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        return self._place(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def _place(self, line: int, column: int) -> int:
        """Columns are counted in bytes."""
        text = self._lines[line - 1]
        return self._starts[line - 1] + len(text.encode()[:column].decode())

    def of(self, node: ast.expr | ast.stmt) -> str:
        return self.source[self.start(node) : self.end(node)]

    def instead(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        """Of as many lines as it was."""
        missing = self.of(node).count("\n") - text.count("\n")
        if missing and isinstance(node, ast.expr):
            text = f"({text}" + "\n" * missing + ")"
        else:
            text += "\n" * missing
        return self.start(node), self.end(node), text

    def between(self, one: ast.expr, other: ast.expr, old: str, new: str) -> Edit:
        """The operator that stands between two operands."""
        start, end = self.end(one), self.start(other)
        word = rf"\b{old}\b" if old[0].isalpha() else re.escape(old)
        return start, end, re.sub(word, new, self.source[start:end], count=1)


class _Finder:
    """Goes through a module and says what could be changed, statement by statement."""

    def __init__(self, text: _Text) -> None:
        self._text = text
        self._statement = (0, 0)

    def found_in(self, module: ast.Module) -> Iterator[Found]:
        yield from self._body(module.body, None)

    def _body(self, body: Sequence[ast.stmt], function: ast.AST | None) -> Iterator[Found]:
        for statement in body:
            if not _is_idle(statement):
                yield from self._of(statement, function)

    def _of(self, node: ast.stmt, function: ast.AST | None) -> Iterator[Found]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            defaults = [default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None]
            yield from self._expressions(node, defaults)
            yield from self._body(node.body, node)
            return
        if isinstance(node, ast.ClassDef):
            yield from self._body(node.body, None)
            return
        yield from self._dropped(node, function)
        yield from self._expressions(node, list(_own_expressions(node)))
        yield from self._switched_off(node)
        if isinstance(node, ast.Return) and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from self._answered_otherwise(node, function)
        for body in _bodies(node):
            yield from self._body(body, function)

    def _expressions(self, node: ast.stmt, expressions: Sequence[ast.expr]) -> Iterator[Found]:
        for expression in expressions:
            last = expression.end_lineno or expression.lineno
            self._statement = (min(node.lineno, expression.lineno), last)
            for part in _parts(expression):
                for kind, edits in self._changes_of(part):
                    yield Found(kind, self._statement, edits)

    def _changes_of(self, node: ast.AST) -> Iterator[tuple[str, list[Edit]]]:
        text = self._text
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            for at, operator in enumerate(node.ops):
                for old, new in TURNED[type(operator)]:
                    yield "comparison turned", [text.between(operands[at], operands[at + 1], old, new)]
        elif isinstance(node, ast.BoolOp):
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            pairs = zip(node.values, node.values[1:], strict=False)
            yield "and/or exchanged", [text.between(one, other, old, new) for one, other in pairs]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield "boolean turned", [text.instead(node, f"({text.of(node.operand)})")]
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield "boolean turned", [text.instead(node, str(not node.value))]
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            yield "constant off by one", [text.instead(node, str(node.value + 1))]
        elif isinstance(node, ast.IfExp):
            for value in ("False", "True"):
                yield "branch switched off", [text.instead(node.test, value)]
        elif isinstance(node, ast.comprehension):
            for condition in node.ifs:
                yield "branch switched off", [text.instead(condition, "True")]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            yield "comparison turned", [text.instead(node.func, "max" if node.func.id == "min" else "min")]

    def _switched_off(self, node: ast.stmt) -> Iterator[Found]:
        if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Constant):
            self._statement = (node.lineno, node.test.end_lineno or node.lineno)
            yield Found("branch switched off", self._statement, [self._text.instead(node.test, "False")])
            if isinstance(node, ast.If) and node.orelse:
                yield Found("branch switched off", self._statement, [self._text.instead(node.test, "True")])

    def _dropped(self, node: ast.stmt, function: ast.AST | None) -> Iterator[Found]:
        if function is None:
            return
        kind = None
        if isinstance(node, ast.Expr):
            kind = "call dropped"
        elif isinstance(node, ast.Delete | ast.AugAssign) or (
            isinstance(node, ast.Assign) and _is_bound_elsewhere(node, function)
        ):
            kind = "assignment dropped"
        if kind is not None:
            self._statement = (node.lineno, node.end_lineno or node.lineno)
            yield Found(kind, self._statement, [self._text.instead(node, "pass")])

    def _answered_otherwise(
        self, node: ast.Return, function: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> Iterator[Found]:
        if node.value is None or function.returns is None:
            return
        said = ast.unparse(function.returns)
        text = self._text.of(node.value)
        other = {"bool": f"not ({text})", "int": f"({text}) + 1"}.get(said)
        if other is None and said.endswith("| None"):
            other = "None"
        if other is not None:
            self._statement = (node.lineno, node.end_lineno or node.lineno)
            missing = text.count("\n") - other.count("\n")
            edit = (self._text.start(node.value), self._text.end(node.value), other + "\n" * missing)
            yield Found("return value negated", self._statement, [edit])


def _is_idle(node: ast.stmt) -> bool:
    """Says something to people or to the checker of types, or asserts it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name in SPOKEN
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
    if isinstance(node, ast.Assign):
        return isinstance(node.value, ast.JoinedStr) or any(
            isinstance(target, ast.Name) and target.id in DECLARED for target in node.targets
        )
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _is_logged(node.value) or ast.unparse(node) == PAUSE
    return isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom)


def _is_logged(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in LOGGED
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in LOGGERS
    )


def _own_expressions(node: ast.stmt) -> Iterator[ast.expr]:
    """Those of the statement itself, without the statements inside it and without its annotation."""
    for name, value in ast.iter_fields(node):
        if name == "annotation":
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.expr):
                yield part
            elif isinstance(part, ast.withitem):
                yield part.context_expr
            elif isinstance(part, ast.match_case) and part.guard is not None:
                yield part.guard


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those below it, without texts made for people and without what only declares a shape."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.keyword) and node.arg in SHAPES):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _parts(child)


def _is_bound_elsewhere(node: ast.Assign, function: ast.AST) -> bool:
    """Otherwise a name would be missing without it, and so would an attribute that is made in `__init__`."""
    if isinstance(function, ast.FunctionDef) and function.name == "__init__":
        return False
    for target in node.targets:
        if isinstance(target, ast.Name):
            bound = [
                each
                for each in ast.walk(function)
                if (isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.id == target.id)
                or (isinstance(each, ast.arg) and each.arg == target.id)
            ]
            if len(bound) < 2:
                return False
        elif not isinstance(target, ast.Attribute | ast.Subscript):
            return False
    return True
