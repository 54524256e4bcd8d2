"""What the cluster asks of a running node, wherever it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from highwater.cluster.layout import Member
from highwater.model import Endpoint, NodeId

Decide = Callable[[NodeId, Sequence[int]], int | None]
"""(node, ids of rules that a request falls under) -> the rule that strikes. Called from any thread."""


class State(Enum):
    DOWN = "down"
    UP = "up"
    PAUSED = "paused"


class Host(ABC):
    """One start of one node. Verbs are called by one thread at a time."""

    def __init__(self, member: Member, peers: Mapping[Endpoint, NodeId], decide: Decide) -> None:
        self.member = member
        self.peers = peers
        self.decide = decide
        self.state = State.DOWN
        self.failure: str | None = None
        """Why it ended by itself."""
        self.opens_logs = False
        """It was heard to do so, which takes long after an unclean stop; before that it waits for the metadata."""

    @abstractmethod
    def begin(self, commands: Sequence[tuple[str, Any]]) -> None:
        """Start it under these commands; do not wait for it."""

    @abstractmethod
    def wait_ready(self, seconds: float) -> bool:
        """False if it failed first (`failure` says why) or took longer."""

    @abstractmethod
    def stop(self, seconds: float) -> bool:
        """A controlled shutdown; False if it took longer, and was killed."""

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def pause(self) -> None:
        """It runs nothing any more when this returns."""

    @abstractmethod
    def resume(self) -> None: ...

    @abstractmethod
    def call(self, verb: str, argument: Any, seconds: float) -> Any:
        """The answer of a running node; of a paused or ended one TimeoutError or ConnectionError."""

    @abstractmethod
    def tell(self, verb: str, argument: Any) -> None:
        """As `call`, in the same order, without waiting; nothing happens where the node has ended."""
