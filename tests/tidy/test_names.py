"""Names are the domain's nouns, and nothing is left for later in a comment."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tidy.repository import GENERATED, ROOT, named, python_files

BANNED = frozenset({"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"})
LEFT_OPEN = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
TEXT = {".md", ".py", ".pyx", ".pxi", ".sh", ".toml", ".java", ".xml", ".yml"}
IGNORED = {"build", "data", "dist"}


def text_files() -> list[Path]:
    """Everything written by hand; what tools leave behind is in folders that begin with a dot, or in .gitignore."""
    folders = (path for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "." and path.name not in IGNORED)
    files = [path for folder in folders for path in folder.rglob("*") if "egg-info" not in str(path)]
    files += [*ROOT.iterdir(), ROOT / ".ci" / "run"]
    return sorted(
        path for path in files if path.is_file() and (path.suffix in TEXT or path.name in ("Makefile", "run"))
    )


def test_no_module_is_named_for_having_no_subject() -> None:
    names = {part.removesuffix(".py") for path in python_files("src", "tests", "bench") for part in path.parts}
    assert not names & BANNED


def test_nothing_is_marked_as_left_open() -> None:
    found = [
        named(path) for path in text_files() if GENERATED not in path.parents and LEFT_OPEN.search(path.read_text())
    ]
    assert not found


def test_no_file_names_a_place_of_one_machine_or_of_a_registry() -> None:
    # Split, so that this file does not name them either.
    places = ("/wo" + "rk/", "/ho" + "me/", "/ro" + "ot/", "/tmp/h" + "w", "py" + "pi.org", "repo1.ma" + "ven")
    places += ("repo.ma" + "ven", "pythonhos" + "ted")
    found = [f"{named(path)}: {place}" for path in text_files() for place in places if place in path.read_text()]
    assert not found, "\n".join(found)
