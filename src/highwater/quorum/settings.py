"""The identity of this replica, and its timeouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from highwater.model import Endpoint
from highwater.quorum.voters import VoterNode


class Randomness(Protocol):
    """The part of `random.Random` that is used."""

    def random(self) -> float:
        """Uniform in [0, 1)."""
        ...


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. The names and defaults are those of Kafka's `controller.quorum.*.ms` settings."""

    election_timeout: float = 1.0
    fetch_timeout: float = 2.0
    election_backoff_max: float = 1.0
    request_timeout: float = 2.0
    retry_backoff: float = 0.02
    prompt_election: float = 0.05
    """The longest random wait before a pre-vote if there is no leader to wait for: none is known at the start, or it is
    proven dead. Kafka waits for a whole election or fetch timeout; but a pre-vote disturbs no other node."""

    def __post_init__(self) -> None:
        for name in ("election_timeout", "fetch_timeout", "request_timeout", "retry_backoff"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive")
        if min(self.election_backoff_max, self.prompt_election) < 0:
            raise ValueError("a wait cannot be negative")

    @property
    def begin_epoch_interval(self) -> float:
        """How often a leader announces itself to voters that do not fetch: before their fetch timeout."""
        return self.fetch_timeout / 2

    @property
    def check_quorum_timeout(self) -> float:
        """How long a leader stays leader without fetches of a majority. Followers give up earlier (KAFKA-15489)."""
        return self.fetch_timeout * 1.5

    @property
    def sync_timeout(self) -> float:
        """How long a leader stays leader while its disk syncs nothing of what it has appended. Kafka has no such bound.
        It is longer than most disks ever pause, because an election does not make a slow disk faster."""
        return self.fetch_timeout * 3


@dataclass(frozen=True, slots=True)
class Identity:
    cluster_id: str
    node: VoterNode
    """This replica as an entry of the voter set, even if it is not a voter."""
    listener: str
    """The name of the listener on which replicas reach each other."""
    bootstrap: tuple[Endpoint, ...] = ()
    """`controller.quorum.bootstrap.servers`: further nodes to ask for the leader, besides the voters."""
