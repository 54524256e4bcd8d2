"""A node reaches the outside through the world alone, or a simulated run would not be the run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.repository import named, node_files, tree_of

FORBIDDEN_MODULES = frozenset(
    {
        "concurrent",
        "datetime",
        "glob",
        "io",
        "multiprocessing",
        "os",
        "random",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "uuid",
        "uvloop",
    }
)
FORBIDDEN_NAMES = frozenset({("pathlib", "Path"), ("pathlib", "PosixPath")})
FORBIDDEN_CALLS = frozenset({"open", "input", "breakpoint"})
FORBIDDEN_ASYNCIO = frozenset(
    {
        "create_subprocess_exec",
        "create_subprocess_shell",
        "open_connection",
        "run_in_executor",
        "start_server",
        "to_thread",
    }
)
"""What the network and the jobs of the world are for."""


def breaches(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in _running_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in FORBIDDEN_MODULES:
                    yield node.lineno, f"imports {alias.name}"
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (node.module or "").split(".")[0] in FORBIDDEN_MODULES or (
                    node.module,
                    alias.name,
                ) in FORBIDDEN_NAMES:
                    yield node.lineno, f"imports {alias.name} from {node.module}"
                elif node.module == "asyncio" and alias.name in FORBIDDEN_ASYNCIO:
                    yield node.lineno, f"imports asyncio.{alias.name}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            yield node.lineno, f"calls {node.func.id}()"
        elif (
            isinstance(node, ast.Attribute) and ast.unparse(node.value) == "asyncio" and node.attr in FORBIDDEN_ASYNCIO
        ):
            yield node.lineno, f"uses asyncio.{node.attr}"


def _running_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING`, which never run."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child
        yield from _running_nodes(child)


def test_nothing_a_node_is_made_of_has_a_clock_a_die_or_a_file_of_its_own() -> None:
    found = [f"{named(path)}:{line} {what}" for path in node_files() for line, what in breaches(tree_of(path))]
    assert not found, "use the injected world:\n" + "\n".join(found)


def test_the_rule_sees_imports_calls_and_asyncio_but_not_annotations() -> None:
    source = """
import os.path
from time import monotonic
from pathlib import Path, PurePath
import asyncio
if TYPE_CHECKING:
    from random import Random
def read(disk, path):
    disk.open(path)
    open(path)
    asyncio.to_thread(read)
"""
    assert [what for _, what in breaches(ast.parse(source))] == [
        "imports os.path",
        "imports monotonic from time",
        "imports Path from pathlib",
        "calls open()",
        "uses asyncio.to_thread",
    ]
