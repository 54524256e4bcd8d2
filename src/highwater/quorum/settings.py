"""Who this replica is and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from highwater.model import Endpoint
from highwater.quorum.voters import VoterNode


class Randomness(Protocol):
    """What is used of a `random.Random`."""

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
    """Bound of the random wait where nobody is there to be waited for: no leader known at start, or proof of its
    death. Kafka would wait a whole election or fetch timeout; a pre-vote costs nobody anything."""

    def __post_init__(self) -> None:
        for name in ("election_timeout", "fetch_timeout", "request_timeout", "retry_backoff"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive")
        if min(self.election_backoff_max, self.prompt_election) < 0:
            raise ValueError("a wait cannot be negative")

    @property
    def begin_epoch_interval(self) -> float:
        """How often a leader announces itself to voters that do not fetch; before they give up on it."""
        return self.fetch_timeout / 2

    @property
    def check_quorum_timeout(self) -> float:
        """How long a leader leads without hearing from a majority; longer than followers wait (KAFKA-15489)."""
        return self.fetch_timeout * 1.5


@dataclass(frozen=True, slots=True)
class Identity:
    cluster_id: str
    node: VoterNode
    """This replica as it would be listed in the voter set, whether it is there or not."""
    listener: str
    """The name of the listener by which replicas reach each other."""
    bootstrap: tuple[Endpoint, ...] = ()
    """`controller.quorum.bootstrap.servers`: where to ask for the leader besides the voters."""
