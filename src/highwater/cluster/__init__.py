"""A cluster for a test or a notebook, in this process or as processes, with faults on request.

The package may use `highwater.node` and everything below it, and `highwater.faults`. Start with `cluster` (the class
that a test uses), `layout` (ports, settings and directories of the nodes) and `host` (what can be done with a running
node).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from highwater.cluster.cluster import Cluster
    from highwater.cluster.failed import ClusterFailed
    from highwater.cluster.reading import StoredRecord
    from highwater.cluster.rules import Failure

_HOMES = {"Cluster": "cluster", "ClusterFailed": "failed", "Failure": "rules", "StoredRecord": "reading"}

__all__ = ["Cluster", "ClusterFailed", "Failure", "StoredRecord"]


def __getattr__(name: str) -> Any:
    """Loaded on first use: the process of a node needs none of it."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
