"""The origin and the result of an append."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from highwater.model import Offset


class Origin(Enum):
    """Where a batch comes from. It decides what is checked on append."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    RAFT_LEADER = "raft-leader"


class Appended(NamedTuple):
    base_offset: Offset
    last_offset: Offset
    append_time: int
    duplicate: bool = False
