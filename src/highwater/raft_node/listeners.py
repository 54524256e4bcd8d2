"""The callbacks by which a replica of the quorum reports its news to the rest of the node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from highwater.metadata.changes import Changes
from highwater.metadata.cluster import MetadataImage
from highwater.quorum import Leadership


@dataclass(slots=True)
class Listeners:
    """All are called on the event loop, never from within a call into the RaftNode."""

    committed: Callable[[MetadataImage, Changes], None]
    leadership: Callable[[Leadership], None]
    failed: Callable[[BaseException], None]
