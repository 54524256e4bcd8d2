"""Whatever a node does is under a boundary of `highwater.world.boundary`: nothing else catches whatever comes."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.repository import ROOT

SOURCE = ROOT / "src" / "highwater"
NODE = ("active_controller", "broker", "controller", "coordinator", "groups", "kernel", "log", "metadata", "net")
NODE += ("partition", "quorum", "raft_node", "replication", "storage", "wire")

CATCH_ALL = {
    "broker/forwarding.py": 1,  # a response that has waited: its connection ends, and not the publisher that sends it
    "broker/waiting_fetch.py": 1,  # a fetch that has waited: without the cost of a context manager
    "log/checkpoint.py": 1,  # the content cannot be made now: it is tried again
    "log/clean_stop.py": 1,  # one log of a stop: the others are closed, too
    "log/creation.py": 1,  # one partition of a job, which has no world to report to: its caller reports it
    "log/log.py": 1,  # amid a write: the partition goes offline, and the caller is refused
    "net/client.py": 1,  # an answer: one that is malformed is handled by itself
    "net/connection.py": 1,  # a request: as above, and without the cost of a context manager
    "net/turns.py": 1,  # the rest of a request, for the same reason
    "net/http.py": 1,  # half of a page must not look like the whole
    "partition/fetcher.py": 1,  # one partition's part of an answer: without the cost of a context manager
    "partition/partition.py": 1,  # a callback that waits for a commit: likewise
    "raft_node/k01_fetch.py": 1,  # an answer: it is given amid a step of the quorum, which has not failed
    "raft_node/installing.py": 1,  # a snapshot that cannot be read: it is fetched again
    "raft_node/inputs.py": 2,  # a broken invariant of the quorum ends the node
}
"""Boundaries that are written out, and why."""

OF_THE_NODE = {
    "broker/role.py": 2,  # the publisher, which follows the metadata; the listeners of the start
    "raft_node/inputs.py": 1,  # the quorum
}
"""Tasks without a decision of their own: if one fails, the node ends."""


def sources() -> Iterator[tuple[str, ast.AST]]:
    files = [SOURCE / "node.py", *(path for package in NODE for path in sorted((SOURCE / package).rglob("*.py")))]
    for path in files:
        yield name_of(path), ast.parse(path.read_text())


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def test_only_boundaries_catch_all_exceptions() -> None:
    found: Counter[str] = Counter()
    for name, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler) and catches_all(node.type):
                found[name] += 1
    assert found == CATCH_ALL


def catches_all(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(map(catches_all, caught.elts))
    return caught is None or (isinstance(caught, ast.Name) and caught.id in ("Exception", "BaseException"))


def test_every_task_says_what_becomes_of_its_failure_or_is_the_nodes_own() -> None:
    found: Counter[str] = Counter()
    for name, tree in sources():
        for node in ast.walk(tree):
            spawns = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "spawn"
            if spawns and isinstance(node, ast.Call) and len(node.args) + len(node.keywords) < 3:
                found[name] += 1
    assert found == OF_THE_NODE
