"""What a replica of the quorum answers on the controller listener, whether it leads or not."""

from __future__ import annotations

from types import ModuleType

from highwater.raft_node import (
    k01_fetch,
    k52_vote,
    k53_begin_quorum_epoch,
    k54_end_quorum_epoch,
    k55_describe_quorum,
    k59_fetch_snapshot,
)

HANDLERS: tuple[ModuleType, ...] = (
    k01_fetch,
    k52_vote,
    k53_begin_quorum_epoch,
    k54_end_quorum_epoch,
    k55_describe_quorum,
    k59_fetch_snapshot,
)
