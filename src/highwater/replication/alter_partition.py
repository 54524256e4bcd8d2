"""A change of the ISR that a leader asks the controller for by AlterPartition, and what the response means. Pure."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from highwater.errors import Code
from highwater.model import Epoch, NodeId


class Proposal(NamedTuple):
    """A change of the ISR that the leader asks the controller for."""

    isr: tuple[NodeId, ...]
    epochs: tuple[int | None, ...]
    """The broker epochs of the members when the proposal was made: a later incarnation may lack records that this one
    had. None for the leader itself and for a member that has not fetched in this term."""
    partition_epoch: Epoch
    expands: bool
    why: str = ""


class Meaning(Enum):
    MADE = "made"
    """The change is committed, with the ISR and the partition epoch of the response."""
    REFUSED = "refused"
    """The committed ISR stays, and the leader may propose another change."""
    OUTDATED = "outdated"
    """The controller has newer metadata than this leader. The leader proposes nothing until that metadata arrives."""
    UNANSWERED = "unanswered"
    """The leader does not know whether the change was made. It repeats the proposal after a pause; the controller
    recognises a repeated proposal."""


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
    """A code that is not listed leaves it open whether the change was made."""
    return _MEANINGS.get(code, Meaning.UNANSWERED)


class Answer(NamedTuple):
    """The controller's answer to one proposal."""

    code: Code
    partition_epoch: Epoch = -1
    """The partition epoch after the change; -1 if the change was not made."""
