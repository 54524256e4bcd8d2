"""`make test`: the suite, and once more, alone, what failed of the tests on real processes.

Such tests depend on what else the machine does. One that fails and then passes is flaky: it is listed, and its two
outputs are kept. A few flaky tests do not fail the run; any other failure does.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

FLAKY_AT_MOST = 2
"""With more of them, it is no longer chance."""

AGAIN_AT_MOST = 20
"""When more tests fail, something is broken, and to run them all again would only take time."""

KEPT = Path("flaky-tests")
"""One folder below it for each run with something to keep."""


class Outcomes:
    """A plugin for the process that the workers report to."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: dict[str, list[str]] = {}
        """What each failed test, file that could not be collected, or crashed worker said."""
        self.repeatable: set[str] = set()
        """The failed tests that may be run again."""
        self._output: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        self._output.setdefault(name, []).extend(f"--- {title} ---\n{text}" for title, text in report.sections)
        if report.failed:
            self.passed.discard(name)
            self.failed.setdefault(name, []).append(f"--- failed: {report.when} ---\n{report.longreprtext}")
            if is_on_real_processes(report):
                self.repeatable.add(name)
            else:
                self.repeatable.discard(name)
        elif report.when == "call" and report.passed:
            self.passed.add(name)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.setdefault(report.nodeid or "collection", []).append(report.longreprtext)

    def output_of(self, name: str) -> str:
        """All that is known of a test: why it failed, and what it printed. A phase repeats what those before it had."""
        return "\n".join(dict.fromkeys([*self.failed.get(name, ["passed"]), *self._output.get(name, [])])) + "\n"


def is_on_real_processes(report: pytest.TestReport) -> bool:
    """When a worker crashes, xdist makes a report without a phase in the test's place; that is never chance."""
    has_phase = report.when in ("setup", "call", "teardown")
    return has_phase and (
        report.nodeid.startswith(("tests/cluster/", "tests/console/", "tests/pipeline/")) or "apache" in report.keywords
    )


def keep(folder: Path, name: str, first: str, second: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = re.sub(r"[^\w.-]+", "-", name.removeprefix("tests/")).strip("-")[:150]
    number = len(list(folder.glob("*.first.txt"))) + 1
    for run, text in (("first", first), ("second", second)):
        (folder / f"{number:02}-{file}.{run}.txt").write_text(f"{name}\n{text}")


def run(arguments: Sequence[str]) -> int:
    first = Outcomes()
    code = pytest.main(list(arguments), plugins=[first])
    if code != pytest.ExitCode.TESTS_FAILED or not first.failed:
        return int(code)

    again = [name for name in first.failed if name in first.repeatable]
    second = Outcomes()
    if 0 < len(again) <= AGAIN_AT_MOST:
        print(f"\nRun once more, alone, since they failed on real processes: {len(again)}", flush=True)
        # One worker and not none: this process has imported what the first run needed, and a crash must not end it.
        pytest.main(["-q", "-n", "1", *again], plugins=[second])
    elif again:
        print(f"\n{len(again)} tests on real processes failed: so many are not run once more.")

    flaky = [name for name in again if name in second.passed]
    broken = [name for name in first.failed if name not in flaky]
    return verdict(first, second, flaky, broken)


def verdict(first: Outcomes, second: Outcomes, flaky: list[str], broken: list[str]) -> int:
    """Prints what became of each failure; the last line is the one that counts."""
    folder = KEPT / time.strftime("%Y-%m-%dT%H-%M-%S")
    for name in [*flaky, *(name for name in broken if name in second.failed)]:
        keep(folder, name, first.output_of(name), second.output_of(name))
    for title, names in (("FAILED", broken), ("FLAKY: failed, then passed alone", flaky)):
        if names:
            print(f"\n{f' {title} ':!^100}", *names, sep="\n")
    if folder.exists():
        print(f"\nWhat they printed, both times, is in {folder.resolve()}")
    if flaky:
        print("Mend a flaky test before anything else: find what depends on the machine's speed.")
    if len(flaky) > FLAKY_AT_MOST:
        print(f"{len(flaky)} flaky tests fail the run: {FLAKY_AT_MOST} may be chance.")
        broken = broken + flaky
    passed = len((first.passed | second.passed).difference(broken))
    print(f"\n{passed} passed, {len(broken)} failed", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
