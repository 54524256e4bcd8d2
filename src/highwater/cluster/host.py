"""What a cluster can do with a running node, in a thread or in a process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from highwater.cluster.layout import NodeLayout
from highwater.model import Endpoint, NodeId

Decide = Callable[[NodeId, Sequence[int]], int | None]
"""(node, ids of the rules that match a request) -> the rule to apply. Called from any thread."""


class NodeState(Enum):
    DOWN = "down"
    UP = "up"
    PAUSED = "paused"


class Host(ABC):
    """One run of one node. Its methods are called by one thread at a time."""

    def __init__(self, member: NodeLayout, peers: Mapping[Endpoint, NodeId], decide: Decide) -> None:
        self.member = member
        self.peers = peers
        self.decide = decide
        self.state = NodeState.DOWN
        self.failure: str | None = None
        """The reason why the node ended by itself."""
        self.opens_logs = False
        """The node has reported that it opens its logs, which takes long after an unclean stop. Before that it waits
        for the metadata."""

    @abstractmethod
    def begin(self, commands: Sequence[tuple[str, Any]]) -> None:
        """Starts the node with these commands in force, and does not wait for it."""

    @abstractmethod
    def wait_ready(self, seconds: float) -> bool:
        """False if the node failed first (`failure` has the reason) or took longer."""

    @abstractmethod
    def stop(self, seconds: float) -> bool:
        """A controlled shutdown. False if it took longer, and the node was killed."""

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def pause(self) -> None:
        """When this returns, the node runs nothing any more."""

    @abstractmethod
    def resume(self) -> None: ...

    @abstractmethod
    def call(self, verb: str, argument: Any, seconds: float) -> Any:
        """The answer of a running node. Raises TimeoutError or ConnectionError for a paused or ended one."""

    @abstractmethod
    def send(self, verb: str, argument: Any) -> None:
        """As `call`, in the same order, but without waiting. Nothing happens if the node has ended."""
