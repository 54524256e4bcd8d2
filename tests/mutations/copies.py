"""Copies of the tree, in which lines are broken, and runs of tests in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from compileall import compile_dir
from pathlib import Path
from py_compile import PycInvalidationMode

from tests.mutations.mutation import ROOT

PATIENCE_SECONDS = 300
PATIENCE_FOR_ONE = 20
"""What each test adds to it."""
GREEN, RED = 0, 1
"""pytest's exit codes; any other means that the tests did not run."""


def copy_of_tree(target: Path) -> Path:
    target.mkdir(parents=True)
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "ARCHITECTURE.md", ".apache"):
        if (ROOT / name).exists():
            (target / name).symlink_to(ROOT / name)
    return target


def compiled_copy_of_tree(target: Path) -> Path:
    """Python compares the content of these compiled files with that of their sources. So a line that is broken in a
    copy of this copy counts, and no other file is compiled again."""
    copy_of_tree(target)
    for name in ("src", "tests"):
        compile_dir(target / name, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    return target


def linked(tree: Path, target: Path) -> Path:
    """A copy that shares its files with the other one, until they are replaced."""
    return shutil.copytree(tree, target, symlinks=True, copy_function=os.link)


def environment_of(tree: Path) -> dict[str, str]:
    """Python knows compiled files by seconds and sizes, which is not enough for lines that are broken by turns."""
    path = f"{tree / 'src'}{os.pathsep}{tree}"
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def ran(tree: Path, tests: Sequence[str]) -> tuple[int, str]:
    """A mutant may hang: that is red too, for every test has its time limit."""
    patience = PATIENCE_SECONDS + PATIENCE_FOR_ONE * len(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout=100", *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment_of(tree), capture_output=True, text=True, timeout=patience
        )
    except subprocess.TimeoutExpired:
        return RED, "it hung"
    return done.returncode, done.stdout + done.stderr


def reason_in(output: str) -> str:
    """pytest marks the lines of an error by E; the first one says it, unless the test hung."""
    marked = [line[1:].strip() for line in output.splitlines() if line.startswith("E  ")]
    last = output.strip().splitlines()[-1:]
    return (marked or last or [""])[0][:160]
