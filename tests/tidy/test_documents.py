"""A document may name only paths that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.tidy.repository import PACKAGE, ROOT, documents, named, tree_of

QUOTED = re.compile(r"`([^`\s]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
OWN_FILE = re.compile(r"[A-Za-z_.\-]+\.(?:md|toml|lock)")


def is_path(token: str) -> bool:
    """Whether a quoted word means a file or a directory of this repository."""
    first, slash, _ = token.partition("/")
    if not slash:
        return bool(OWN_FILE.fullmatch(token))
    tops = {path.name for path in (*ROOT.iterdir(), *PACKAGE.iterdir())}
    return first in tops and not first.startswith(".venv") and first not in {"data", ".apache", "build"}


def exists(token: str, document: Path) -> bool:
    places = (ROOT, PACKAGE, document.parent)
    token = token.rstrip("/")
    if "*" in token:
        return any(any(place.glob(token)) for place in places)
    return any((place / token).exists() for place in places)


def paths_of(document: Path) -> list[str]:
    text = document.read_text()
    links = [target for target in LINK.findall(text) if "://" not in target and not target.startswith("mailto:")]
    return [*links, *(token for token in QUOTED.findall(text) if is_path(token))]


def test_every_path_named_in_a_document_exists() -> None:
    missing = [f"{named(doc)}: {token}" for doc in documents() for token in paths_of(doc) if not exists(token, doc)]
    assert not missing, "\n".join(missing)


def test_the_documents_name_enough_paths_for_the_rule_to_mean_something() -> None:
    assert sum(len(paths_of(document)) for document in documents()) > 20
    assert not exists("src/highwater/nowhere.py", ROOT / "README.md")


def test_every_document_is_in_the_table_of_the_readme() -> None:
    table = (ROOT / "README.md").read_text().split("\n## Documents\n")[1].split("\n## ")[0]
    listed = set(LINK.findall(table))
    pages = [named(path) for path in (ROOT / "docs").glob("*.md")]
    assert len(pages) > 10
    assert not [page for page in pages if page not in listed]


DECIDED = re.compile(r"^\| [^|]+ \| `(src/[^`]+\.py)` \| `([\w.]+)` \|$", re.MULTILINE)
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def functions_of(path: Path) -> set[str]:
    """By their names, those of classes behind the class's."""
    tree = tree_of(path)
    found = {node.name for node in tree.body if isinstance(node, FUNCTION)}
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef):
            found |= {f"{owner.name}.{node.name}" for node in owner.body if isinstance(node, FUNCTION)}
    return found


def test_every_function_in_the_table_of_decisions_exists() -> None:
    rows = DECIDED.findall((ROOT / "ARCHITECTURE.md").read_text())
    assert len(rows) >= 10
    assert not [f"{file}: {function}" for file, function in rows if function not in functions_of(ROOT / file)]


HOP = re.compile(r"^\| (a [^|]+) \| [^|]+ \| `(src/[^`]+\.py)` \| `([\w.]+)` \|$", re.MULTILINE)


def test_every_hop_of_the_walks_is_a_function() -> None:
    hops = HOP.findall((ROOT / "ARCHITECTURE.md").read_text())
    assert {walk for walk, _, _ in hops} == {"a write", "a copy", "a decision", "a group join", "a Spark batch"}
    assert not [f"{file}: {function}" for _, file, function in hops if function not in functions_of(ROOT / file)]


def test_every_decision_is_in_the_list_of_decisions() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text()
    records = [path.name for path in folder.glob("[0-9]*.md")]
    assert records
    assert not [name for name in records if name not in listed]
