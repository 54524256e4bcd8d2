"""The branches of the machines of replication that a search has taken, and those that it never reached. A branch is one
outcome of one condition in the compiled code: `a and b` has four. While a search runs, functions with branches that are
left are traced instruction by instruction. The others cost little more than usual."""

from __future__ import annotations

import dis
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

from highwater.replication import alter_partition, conversation, follower, leader, reconciliation, serving

MACHINES = (leader, follower, conversation, alter_partition, reconciliation, serving)


class Branch(NamedTuple):
    file: str
    line: int
    column: int
    what: str
    """The outcome that never happened, with its condition."""

    def text(self) -> str:
        """The text, with the line of the source."""
        source = linecache.getline(self.file, self.line).strip()
        return f"{Path(self.file).name}:{self.line}: {self.what}\n    {source}"


class _Ways(NamedTuple):
    """The outcomes of one jump."""

    following: int
    """The next instruction if the jump is not taken."""
    stays: Branch
    jumps: Branch


class Branches:
    """The branches of the given modules. `left` returns those that were not reached so far."""

    def __init__(self, modules: tuple[ModuleType, ...] = MACHINES) -> None:
        self._codes: dict[int, tuple[CodeType, dict[int, _Ways], set[Branch]]] = {}
        """By the identity of each code object: its jumps, and the outcomes that are missing."""
        self._calls: dict[int, Branch] = {}
        for code in (each for module in modules for each in _codes_of(module)):
            ways = _ways_of(code)
            self._codes[id(code)] = code, ways, {each for way in ways.values() for each in way[1:]}
            self._calls[id(code)] = Branch(code.co_filename, _line_of(code), 0, f"{code.co_name} is never called")
        self._all = {branch for _, _, left in self._codes.values() for branch in left} | {*self._calls.values()}
        self._reached: set[Branch] = set()

    @property
    def count(self) -> int:
        return len(self._all)

    @property
    def left(self) -> list[Branch]:
        """In the order of the source. A function that was never called is reported as a whole, and a generator within
        it is not listed."""
        uncalled = {id(code) for code, _, _ in self._codes.values() if self._calls[id(code)] not in self._reached}
        within = {branch for each in uncalled for branch in self._codes[each][2]}
        within |= {self._calls[each] for each in uncalled if self._codes[each][0].co_name.startswith("<")}
        return sorted(self._all - self._reached - within)

    @contextmanager
    def watched(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        found = self._codes.get(id(frame.f_code))
        if found is None:
            return None
        _, ways, left = found
        self._reached.add(self._calls[id(frame.f_code)])
        if not left:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        jump: _Ways | None = None

        def step(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal jump
            if event == "opcode":
                at = frame.f_lasti
                if jump is not None:
                    taken = jump.stays if at == jump.following else jump.jumps
                    left.discard(taken)
                    self._reached.add(taken)
                jump = ways.get(at)
            return step

        return step


def _codes_of(module: ModuleType) -> Iterator[CodeType]:
    """The code of all functions in the module's file."""
    for member in vars(module).values():
        if getattr(member, "_is_protocol", False):
            continue  # others have its methods
        for each in vars(member).values() if isinstance(member, type) else (member,):
            function = each.fget if isinstance(each, property) else each
            if isinstance(function, FunctionType) and function.__code__.co_filename == module.__file__:
                yield from _with_inner(function.__code__)


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _with_inner(inner)


def _line_of(code: CodeType) -> int:
    """The line after its decorators."""
    line = code.co_firstlineno
    while linecache.getline(code.co_filename, line).lstrip().startswith("@"):
        line += 1
    return line


def _ways_of(code: CodeType) -> dict[int, _Ways]:
    instructions = list(dis.get_instructions(code))
    by_offset = {each.offset: each for each in instructions}
    ways: dict[int, _Ways] = {}
    for value, jump, following in zip(instructions, instructions[1:], instructions[2:], strict=False):
        outcomes = _outcomes(jump.opname)
        if outcomes is None or "LOAD_ASSERTION_ERROR" in (following.opname, by_offset[jump.argval].opname):
            continue  # an assertion that fails ends the search
        stays, jumps = (_branch(code, value, outcome) for outcome in outcomes)
        ways[jump.offset] = _Ways(following.offset, stays, jumps)
    return ways


def _outcomes(name: str) -> tuple[str, str] | None:
    """The values for which an instruction goes on to the next one, and for which it jumps. None if it has no choice."""
    if name == "FOR_ITER":
        return "never has an element", "never comes to its end"
    for end, stays, jumps in (
        ("_IF_TRUE", "never false", "never true"),
        ("_IF_FALSE", "never true", "never false"),
        ("_IF_NOT_NONE", "never None", "always None"),
        ("_IF_NONE", "always None", "never None"),
    ):
        if f"{end}_" in f"{name}_":
            return f"is {stays}", f"is {jumps}"
    return None


def _branch(code: CodeType, value: dis.Instruction, outcome: str) -> Branch:
    """The branch, with the expression that made the value."""
    place = value.positions
    assert place is not None and place.lineno is not None and place.end_lineno is not None
    lines = [linecache.getline(code.co_filename, at) for at in range(place.lineno, place.end_lineno + 1)]
    lines[-1] = lines[-1].encode()[: place.end_col_offset].decode()
    lines[0] = lines[0].encode()[place.col_offset :].decode()
    text = " ".join(line.strip() for line in lines)
    if text.startswith("for "):
        text = lines[0].strip().removesuffix(":")  # a loop's place is the whole of it
    return Branch(code.co_filename, place.lineno, place.col_offset or 0, f"{text} {outcome}")
