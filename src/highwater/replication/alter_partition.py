"""What a controller's answer to AlterPartition means for the leader that asked. Pure."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from highwater.errors import Code
from highwater.model import Epoch


class Meaning(Enum):
    MADE = "made"
    """The change is committed, with the ISR and the partition epoch of the answer."""
    REFUSED = "refused"
    """The committed ISR holds, and another change may be asked for."""
    OUTDATED = "outdated"
    """Newer metadata than ours decided, and is on its way: until it is here nothing else is asked for."""
    UNANSWERED = "unanswered"
    """Nobody knows whether it was made: it is asked for again, after a pause. The controller knows a repeated one."""


_MEANINGS = {
    Code.NONE: Meaning.MADE,
    Code.OPERATION_NOT_ATTEMPTED: Meaning.REFUSED,
    Code.INELIGIBLE_REPLICA: Meaning.REFUSED,
    Code.UNKNOWN_TOPIC_OR_PARTITION: Meaning.OUTDATED,
    Code.UNKNOWN_TOPIC_ID: Meaning.OUTDATED,
    Code.FENCED_LEADER_EPOCH: Meaning.OUTDATED,
    Code.INVALID_UPDATE_VERSION: Meaning.OUTDATED,
    Code.INVALID_REQUEST: Meaning.OUTDATED,
    Code.NEW_LEADER_ELECTED: Meaning.OUTDATED,
}


def meaning_of(code: Code) -> Meaning:
    """Any code that is not listed says nothing about the change."""
    return _MEANINGS.get(code, Meaning.UNANSWERED)


class Answer(NamedTuple):
    """The controller's, to one proposal."""

    code: Code
    partition_epoch: Epoch = -1
    """That of the change, where it was made."""
