"""Kafka's Raft (KRaft) as a pure state machine: elections with pre-vote, check-quorum, divergence, commitment.

The package has no I/O, no clock and no randomness of its own. It may use `errors`, `model` and the wire messages.
`Quorum` takes inputs and returns a `Ready` for each. The driver (`highwater.raft_node`) feeds the inputs and carries
out the `Ready`.

Start with `machine` (the inputs), `ready` (the results) and `transitions` (the table of moves between roles). Each role
has its own module; `core` holds the state that they share.
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
from highwater.quorum.voters import Listeners, ReplicaKey, VoterListener, VoterNode, VoterSet

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
    "VoterListener",
    "VoterNode",
    "VoterSet",
]
