"""Judges changes by the tests of one folder, in a process that has all of it imported.

A process for each change is forked from it, which puts the changed code into the functions that are there, and runs the
tests that reach the line, the quickest first, up to the first red one. A change of what is executed only when a module
is imported needs a new process, and a changed file that a test's own processes import is in the copy of the tree.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.mutations.copies import GREEN, ran, reason_in
from tests.mutations.drawing import Change
from tests.mutations.reach import Kept, Reach, Tracer

PATIENCE_SECONDS = 5
"""Of processor time for a test that takes none; others get a multiple of theirs besides."""
PATIENCE_FACTOR = 6
STALLED_SECONDS = 90
"""Of the clock, for a mutant that waits for what never comes."""
MEMORY = 3 << 30
LABOUR_SECONDS = 12
"""Of processor time, as it was measured, for the tests of one mutant."""


@dataclass(frozen=True)
class Verdict:
    """What became of a change."""

    killed: bool
    why: str
    tests: int
    """That reach it."""


class Judge:
    """A plugin of pytest: it collects the tests as always, and then runs them as often as there are changes."""

    def __init__(self, tree: Path, folders: Sequence[str], kept: Path, changes: Sequence[Change], said: int) -> None:
        self._tree = tree
        self._tracer = Tracer(tree, folders)
        self._kept = Kept(kept, tree)
        self._changes = changes
        self._said = said

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        """No smaller counterexamples are looked for: the first is as red."""
        from hypothesis import Phase, settings

        settings.register_profile("ci", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        by_file: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            by_file.setdefault(item.nodeid.split("::")[0], []).append(item)
        reached: dict[str, Reach] = {}
        for file, items in by_file.items():
            known = self._kept.of(file)
            if known is None or set(known) != {item.nodeid for item in items}:
                known = self._measured(items)
                self._kept.keep(file, known)
            reached.update(known)
        functions = live_functions()
        gc.freeze()
        for change in self._changes:
            self._say({"verdict": asdict(self._judged(change, session.items, reached, functions))})
        return True

    def _say(self, what: dict[str, Any]) -> None:
        os.write(self._said, json.dumps(what).encode() + b"\n")

    def _measured(self, items: Sequence[pytest.Item]) -> dict[str, Reach]:
        """In a process of its own, so that this one stays as it is."""

        def measure(out: int) -> None:
            reached: dict[str, dict[str, Any]] = {}
            failed = _Failed(items[0].config)
            for item, following in zip(items, [*items[1:], None], strict=True):
                with self._tracer.measured() as reach:
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if failed.why is not None:
                    os.write(out, json.dumps({"red": f"{item.nodeid}: {failed.why}"}).encode())
                    return
                reached[item.nodeid] = vars(reach)
            with os.fdopen(out, "wb") as file:
                file.write(json.dumps(reached).encode())

        content = forked(measure, inf)
        reached = json.loads(content or '{"red": "the process ended"}')
        if "red" in reached:
            pytest.exit(f"the tests are not green to begin with: {reached['red']}", returncode=2)
        return {name: Reach(**reach) for name, reach in reached.items()}

    def _judged(
        self,
        change: Change,
        items: Sequence[pytest.Item],
        reached: dict[str, Reach],
        functions: dict[CodeType, list[FunctionType]],
    ) -> Verdict:
        def reaching(first: int, last: int) -> list[pytest.Item]:
            return [item for item in items if reached[item.nodeid].meets(change.file, first, last)]

        target = self._tree / change.file
        source = target.read_text()
        changed = change.applied_to(source)
        replaced = replacements(source, changed, str(target), functions)
        if not is_imported(target):
            chosen = []
        elif replaced is None:
            chosen = list(items)  # A constant is seen wherever it was imported to.
        else:
            # Tracing ends after many calls of a function: who reaches it may reach the line later.
            chosen = reaching(*change.statement) or reaching(*span_of(replaced))
        chosen = within_reason(chosen, reached)
        if not chosen:
            return Verdict(False, "no test reaches it", 0)
        target.write_text(changed)
        try:
            if replaced is None:
                code, output = ran(self._tree, [item.nodeid for item in chosen])
                return Verdict(code != GREEN, reason_in(output) if code != GREEN else "", len(chosen))
            killed, why = tried(replaced, chosen, reached)
            return Verdict(killed, why, len(chosen))
        finally:
            target.write_text(source)


def is_imported(file: Path) -> bool:
    """By any of the tests."""
    return any(getattr(module, "__file__", None) == str(file) for module in list(sys.modules.values()))


def span_of(replaced: Sequence[tuple[FunctionType, CodeType]]) -> tuple[int, int]:
    """The lines of the functions that change, without those where they are defined."""
    lines = [line for function, _ in replaced for _, _, line in function.__code__.co_lines() if line]
    return min(lines) + 1, max(lines)


def within_reason(items: Sequence[pytest.Item], reached: dict[str, Reach]) -> list[pytest.Item]:
    """The quickest first, as many as one mutant may cost; one at least."""
    chosen: list[pytest.Item] = []
    labour = 0.0
    for item in sorted(items, key=lambda item: reached[item.nodeid].seconds):
        labour += reached[item.nodeid].seconds
        if chosen and labour > LABOUR_SECONDS:
            break
        chosen.append(item)
    return chosen


def tried(
    replaced: Sequence[tuple[FunctionType, CodeType]], items: Sequence[pytest.Item], reached: dict[str, Reach]
) -> tuple[bool, str]:
    """Whether a test was red, hung or broke down, and which."""

    def run(out: int) -> None:
        for function, code in replaced:
            function.__code__ = code
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        failed = _Failed(items[0].config)
        for item, following in zip(items, [*items[1:], None], strict=True):
            os.write(out, f"{item.nodeid}\n".encode())
            signal.setitimer(signal.ITIMER_PROF, PATIENCE_SECONDS + PATIENCE_FACTOR * reached[item.nodeid].seconds)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if failed.why is not None:
                os.write(out, f"red {failed.why}\n".encode())
                return
        os.write(out, b"green\n")

    labour = sum(reached[item.nodeid].seconds for item in items)
    content = forked(run, STALLED_SECONDS + 20 * labour)
    lines = content.decode().splitlines()
    if lines[-1:] == ["green"]:
        return False, ""
    if lines and lines[-1].startswith("red "):
        return True, f"{lines[-2]}: {lines[-1][4:]}"
    return True, f"{lines[-1] if lines else items[0].nodeid}: it hung or broke down"


class _Failed:
    """Listens to the reports of the tests, and keeps why one is red."""

    def __init__(self, config: pytest.Config) -> None:
        self.why: str | None = None
        config.pluginmanager.register(self)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.why is None:
            self.why = reason_in(report.longreprtext).replace("\n", " ") or "red"


def forked(work: Callable[[int], None], seconds: float) -> bytes:
    """What the work wrote, in a process that ends by itself or after so many seconds, and all that it began with it."""
    receiving, out = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(receiving)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        try:
            work(out)
        finally:
            os._exit(0)
    os.close(out)
    content = b""
    until = time.monotonic() + seconds
    has_ended = False
    while not has_ended and time.monotonic() < until:
        if select.select([receiving], [], [], 1.0)[0]:
            part = os.read(receiving, 1 << 20)
            has_ended = not part
            content += part
        else:  # Processes that it began may hold the pipe open.
            has_ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    os.close(receiving)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return content


def live_functions() -> dict[CodeType, list[FunctionType]]:
    """Those of the program, by their code."""
    gc.unfreeze()
    found: dict[CodeType, list[FunctionType]] = {}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and (each.__module__ or "").startswith("highwater"):
            found.setdefault(each.__code__, []).append(each)
    return found


def replacements(
    source: str, changed: str, file: str, functions: dict[CodeType, list[FunctionType]]
) -> list[tuple[FunctionType, CodeType]] | None:
    """Functions that are there and the code that they get; None if that is not all of the change."""
    found: list[tuple[FunctionType, CodeType]] = []
    before = compile(source, file, "exec", dont_inherit=True)
    after = compile(changed, file, "exec", dont_inherit=True)
    for old, new in _changed(before, after):
        if old not in functions or old.co_freevars != new.co_freevars:
            return None
        found += [(function, new) for function in functions[old]]
    return found or None


def _changed(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The outermost functions that differ. A module, or the body of a class, differs only by what is inside it."""
    inside = [[const for const in code.co_consts if isinstance(const, CodeType)] for code in (old, new)]
    if old == new:
        return
    is_body = old.co_name == "<module>" or not old.co_flags & 0x2  # CO_NEWLOCALS: a function has locals of its own.
    if is_body and len(inside[0]) == len(inside[1]) and _without_code(old) == _without_code(new):
        for one, other in zip(*inside, strict=True):
            yield from _changed(one, other)
    else:
        yield old, new


def _without_code(code: CodeType) -> CodeType:
    """Nor positions: those of a definition say where its last line ends."""
    consts = tuple(None if isinstance(const, CodeType) else const for const in code.co_consts)
    return code.replace(co_consts=consts, co_linetable=b"")


def main() -> int:
    """What is asked comes as one line; the verdicts go out, one line each, in the order of the changes."""
    asked = json.loads(sys.stdin.readline())
    tree = Path.cwd()
    changes = [Change(**{**change, "statement": tuple(change["statement"])}) for change in asked["changes"]]
    said = os.dup(1)
    os.dup2(2, 1)
    judge = Judge(tree, asked["traced"], Path(asked["kept"]), changes, said)
    # Assertions stay plain: pytest would rewrite those of a package with a plugin, and not know its functions again.
    arguments = ["-q", "-s", "-n", "0", "-p", "no:cacheprovider", "-o", "timeout=0", "--assert=plain"]
    arguments += ["-m", "not apache and not slow"]
    return int(pytest.main([*arguments, f"--basetemp={asked['scratch']}", *asked["tests"]], plugins=[judge]))


if __name__ == "__main__":
    sys.exit(main())
