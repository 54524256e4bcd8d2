"""`make test` as a whole, on suites that are thrown away: which failures it forgives, and how it reports them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.second_run import KEPT
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.slow

PASSES = """
def test_passes():
    pass
"""
FAILS = """
def test_fails():
    print("the same words each time")
    assert False, "always"
"""
EVERY_SECOND_TIME = """
from pathlib import Path

def test_flaky():
    here = Path(__file__ + ".seen")
    first = not here.exists()
    here.touch()
    print("first" if first else "second", "time")
    assert not first, "the machine is busy"
"""
FAILS_IN_SET_UP_EVERY_SECOND_TIME = """
from pathlib import Path
import pytest

@pytest.fixture
def process():
    here = Path(__file__ + ".seen")
    first = not here.exists()
    here.touch()
    assert not first, "did not start"

def test_flaky(process):
    pass
"""
FAILS_IN_TEAR_DOWN = """
import pytest

@pytest.fixture
def process():
    yield
    assert False, "did not end"

def test_left_behind(process):
    pass
"""
CRASHES_THE_FIRST_TIME = EVERY_SECOND_TIME.replace(
    "assert not first", "first and __import__('os')._exit(1)\n    assert 1"
)
SETTINGS = """
[pytest]
markers = apache
addopts = --import-mode=importlib
"""


@dataclass
class Ran:
    code: int
    output: str
    kept: list[Path]

    @property
    def last_line(self) -> str:
        return self.output.rstrip().splitlines()[-1]

    def kept_text(self, run: str) -> str:
        (file,) = (file for file in self.kept if file.name.endswith(f".{run}.txt"))
        return file.read_text()


def run(folder: Path, files: dict[str, str], *arguments: str) -> Ran:
    """The program of `make test`, with two workers, on a suite of these files below `tests`."""
    folder.mkdir(exist_ok=True)
    (folder / "pytest.ini").write_text(SETTINGS)
    for name, source in files.items():
        file = folder / "tests" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    command = [sys.executable, "-m", "tests.second_run", "-q", "-n", "2", "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Ran(done.returncode, done.stdout, sorted(folder.glob("flaky-tests/*/*.txt")))


def test_make_test_and_ci_run_it_and_what_it_keeps_is_not_committed() -> None:
    recipe = re.search(r"^test:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None and "-m tests.second_run $(WORKERS)" in recipe[1]
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert f"{KEPT}/" in (ROOT / ".gitignore").read_text().splitlines()


def test_a_test_that_passes_is_run_once(tmp_path: Path) -> None:
    ran = run(tmp_path, {"cluster/test_a.py": PASSES, "unit/test_b.py": PASSES})

    assert ran.code == 0, ran.output
    assert ran.last_line.startswith("2 passed in ")
    assert not (tmp_path / "flaky-tests").exists()


@pytest.mark.parametrize("folder", ["cluster", "pipeline"])
def test_a_test_that_fails_every_second_time_is_listed_and_forgiven(tmp_path: Path, folder: str) -> None:
    ran = run(tmp_path, {f"{folder}/test_a.py": EVERY_SECOND_TIME, "unit/test_b.py": PASSES})

    assert ran.code == 0, ran.output
    assert ran.last_line == "2 passed, 0 failed"
    listed = ran.output[ran.output.index("! FLAKY") :]
    assert f"tests/{folder}/test_a.py::test_flaky" in listed
    assert str(ran.kept[0].parent) in listed
    assert "the machine is busy" in ran.kept_text("first")
    assert "first time" in ran.kept_text("first")
    assert "second time" in ran.kept_text("second")


def test_a_failed_test_that_is_marked_apache_is_run_again_in_any_folder(tmp_path: Path) -> None:
    marked = EVERY_SECOND_TIME.replace("def test_flaky", "import pytest\n\n@pytest.mark.apache\ndef test_flaky")
    ran = run(tmp_path, {"unit/test_against_apache.py": marked})

    assert (ran.code, ran.last_line) == (0, "1 passed, 0 failed"), ran.output


def test_a_process_that_did_not_start_is_given_a_second_run(tmp_path: Path) -> None:
    ran = run(tmp_path, {"cluster/test_a.py": FAILS_IN_SET_UP_EVERY_SECOND_TIME})

    assert (ran.code, ran.last_line) == (0, "1 passed, 0 failed"), ran.output
    assert "did not start" in ran.kept_text("first")


@pytest.mark.parametrize("source", [FAILS, FAILS_IN_TEAR_DOWN], ids=["fails", "fails in tear-down"])
def test_a_test_that_always_fails_fails_the_run(tmp_path: Path, source: str) -> None:
    ran = run(tmp_path, {"cluster/test_a.py": source, "cluster/test_b.py": PASSES})

    assert (ran.code, ran.last_line) == (1, "1 passed, 1 failed"), ran.output
    assert "FLAKY" not in ran.output
    assert ran.kept_text("first").partition("\n")[0] == ran.kept_text("second").partition("\n")[0]


def test_two_flaky_tests_are_forgiven_and_three_are_not(tmp_path: Path) -> None:
    two = run(tmp_path / "two", {f"cluster/test_{name}.py": EVERY_SECOND_TIME for name in "ab"})
    three = run(tmp_path / "three", {f"cluster/test_{name}.py": EVERY_SECOND_TIME for name in "abc"})

    assert (two.code, two.last_line) == (0, "2 passed, 0 failed"), two.output
    assert (three.code, three.last_line) == (1, "0 passed, 3 failed"), three.output
    assert "3 flaky tests fail the run" in three.output
    assert len(three.kept) == 6


def test_a_failure_elsewhere_has_no_second_run_and_is_not_forgiven(tmp_path: Path) -> None:
    ran = run(tmp_path, {"unit/test_a.py": EVERY_SECOND_TIME, "cluster/test_b.py": EVERY_SECOND_TIME})

    assert (ran.code, ran.last_line) == (1, "1 passed, 1 failed"), ran.output
    assert "tests/unit/test_a.py::test_flaky" in ran.output[ran.output.index("! FAILED") : ran.output.index("! FLAKY")]
    assert "tests/cluster/test_b.py::test_flaky" in ran.output[ran.output.index("! FLAKY") :]


def test_a_crashed_worker_fails_the_run_wherever_it_crashed(tmp_path: Path) -> None:
    ran = run(tmp_path, {"cluster/test_a.py": CRASHES_THE_FIRST_TIME, "cluster/test_b.py": PASSES})

    assert (ran.code, ran.last_line) == (1, "1 passed, 1 failed"), ran.output


def test_a_crash_in_the_second_run_is_a_second_failure(tmp_path: Path) -> None:
    crashes_later = EVERY_SECOND_TIME.replace("assert not first", "first or __import__('os')._exit(0)\n    assert 0")
    ran = run(tmp_path, {"cluster/test_a.py": crashes_later, "cluster/test_b.py": EVERY_SECOND_TIME})

    assert (ran.code, ran.last_line) == (1, "1 passed, 1 failed"), ran.output


def test_a_file_that_cannot_be_collected_fails_the_run(tmp_path: Path) -> None:
    ran = run(tmp_path, {"cluster/test_a.py": "import nowhere", "cluster/test_b.py": PASSES})

    assert (ran.code, ran.last_line) == (1, "1 passed, 1 failed"), ran.output
    assert "No module named 'nowhere'" in ran.output


def test_a_wrong_option_fails_the_run(tmp_path: Path) -> None:
    assert run(tmp_path, {"cluster/test_a.py": PASSES}, "--no-such-option").code == pytest.ExitCode.USAGE_ERROR


def test_a_broken_cluster_is_not_tried_again_test_by_test(tmp_path: Path) -> None:
    many = "import pytest\n\n@pytest.mark.parametrize('n', range(21))\ndef test_fails(n):\n    assert 0\n"
    ran = run(tmp_path, {"cluster/test_a.py": many})

    assert (ran.code, ran.last_line) == (1, "0 passed, 21 failed"), ran.output
    assert "21 tests on real processes failed: so many are not run once more" in ran.output
