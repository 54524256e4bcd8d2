"""The faults of a search."""

from __future__ import annotations

from enum import Enum


class Fault(Enum):
    """Each fault takes one from the budget of the search."""

    CRASH = "crash"
    """A process dies. In flush mode it also loses power, and unsynced records with it."""
    POWER = "power"
    """Outside flush mode: one machine at a time loses all unsynced records, which are all records since its start."""
    FENCE = "fence"
    """The controller does not hear a living broker."""
    LAG = "lag"
    """A follower was not caught up for too long."""
    RESET = "reset"
    """A follower's connection is lost. A request that the leader has received stays."""
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
