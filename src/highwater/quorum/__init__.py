"""Kafka's Raft as a pure machine: elections with pre-vote, check-quorum, divergence, commitment.

No I/O, no clock and no randomness of its own. `Quorum` takes inputs and returns a `Ready` for each; the driver feeds
it and does what it says. Each role has its module, `transitions` is the table of moves between them.
"""

from __future__ import annotations

from highwater.quorum.election_state import CorruptElectionState, ElectionState
from highwater.quorum.log_view import BOOTSTRAP_SNAPSHOT, LogPosition, LogView
from highwater.quorum.machine import Quorum
from highwater.quorum.messages import KRAFT_VERSION, NEVER_LOGGED, Caller
from highwater.quorum.ready import EpochStart, FetchAnswer, FollowerFetch, Leadership, Peer, Ready, Request
from highwater.quorum.settings import Identity, Timing
from highwater.quorum.transitions import Role
from highwater.quorum.violation import IllegalTransition, QuorumViolation
from highwater.quorum.voters import Listener, Listeners, ReplicaKey, VoterNode, VoterSet

__all__ = [
    "BOOTSTRAP_SNAPSHOT",
    "KRAFT_VERSION",
    "NEVER_LOGGED",
    "Caller",
    "CorruptElectionState",
    "ElectionState",
    "EpochStart",
    "FetchAnswer",
    "FollowerFetch",
    "Identity",
    "IllegalTransition",
    "Leadership",
    "Listener",
    "Listeners",
    "LogPosition",
    "LogView",
    "Peer",
    "Quorum",
    "QuorumViolation",
    "Ready",
    "ReplicaKey",
    "Request",
    "Role",
    "Timing",
    "VoterNode",
    "VoterSet",
]
