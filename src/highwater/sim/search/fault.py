"""The faults of a search."""

from __future__ import annotations

from enum import Enum


class Fault(Enum):
    """Each takes one from the budget of a search."""

    CRASH = "crash"
    """A process dies. In flush mode its power goes with it, and what was not synced."""
    POWER = "power"
    """Outside flush mode: one machine at a time loses what it had not synced, which is all since it started."""
    FENCE = "fence"
    """The controller does not hear a broker that lives."""
    LAG = "lag"
    """A follower was not caught up for too long."""
    RESET = "reset"
    """A follower's connection is lost, but for a request that its leader has received."""
    LOSS = "loss"
    """The controller's answer to a leader is lost."""
    DAMAGE = "damage"
    """A follower's log is found damaged, and is fetched anew."""
    APPEND = "append"
    """An append of fetched batches fails after the first of them."""
    SYNC = "sync"
    """A sync fails: the log is offline until its broker starts again."""
    DELETE = "delete"
    """Records are deleted at the leader, up to the middle of a batch."""
    REPEAT = "repeat"
    """A leader loses its connection with the controller, which may still read what was asked on it."""
    SESSION = "session"
    """A leader has no room for a follower's session any more."""
    COLD = "cold"
    """The bytes of an answer are read later than its header was made."""
