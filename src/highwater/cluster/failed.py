"""The one exception of clusters on this machine."""

from __future__ import annotations


class ClusterFailed(RuntimeError):
    """The cluster did not become, or stay, what it was asked to be."""
