"""The exception of clusters on this machine."""

from __future__ import annotations


class ClusterFailed(RuntimeError):
    """The cluster could not be started, or did not keep running, as asked for."""
