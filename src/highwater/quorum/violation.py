"""Faults that end the node: the quorum's promises would not hold any longer."""

from __future__ import annotations


class QuorumViolation(AssertionError):
    """The log or a peer contradicts what Raft guarantees: stop, since going on could lose committed records."""


class IllegalTransition(QuorumViolation):
    """A move that is not in the table of transitions: our own bug."""
