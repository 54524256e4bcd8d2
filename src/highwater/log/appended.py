"""What an append says of itself: who wrote the batch, and where it lies."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from highwater.model import Offset


class Origin(Enum):
    """Who wrote a batch: decides what is checked on append."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    RAFT_LEADER = "raft-leader"


class Appended(NamedTuple):
    base_offset: Offset
    last_offset: Offset
    append_time: int
    duplicate: bool = False
