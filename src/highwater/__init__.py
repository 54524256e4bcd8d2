"""Highwater: a Kafka-compatible, replicated commit log.

from highwater import Cluster

with Cluster(brokers=3) as cluster:
    cluster.create_topic("orders", partitions=3, replication_factor=3)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from highwater.cluster import Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> Any:
    """Loaded on first use: the tools of the command line need no cluster."""
    if name == "Cluster":
        return import_module("highwater.cluster").Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
