"""Errors that end the node, because the guarantees of the quorum no longer hold."""

from __future__ import annotations


class QuorumViolation(AssertionError):
    """The log or a peer contradicts what Raft guarantees. The node stops: to go on could lose committed records."""


class IllegalTransition(QuorumViolation):
    """A move that is not in the table of transitions: a bug of Highwater."""
