"""Requests that are under way: one at a time for each peer, with a timeout, and with a pause after a failure."""

from __future__ import annotations

from dataclasses import dataclass

from highwater.model import NodeId
from highwater.quorum.ready import Peer
from highwater.quorum.settings import Timing


@dataclass(slots=True)
class _Link:
    ready_at: float
    correlation: int | None
    """The correlation of the request in flight; None during a pause after a failure."""


class Links:
    """All links are forgotten at each transition, so responses to an earlier role's requests are ignored."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._links: dict[NodeId, _Link] = {}
        self._sent = 0

    def reset(self) -> None:
        self._links.clear()

    def send(self, peer: Peer, now: float) -> int:
        """Notes a request as sent, and returns its correlation."""
        self._sent += 1
        self._links[peer.id] = _Link(now + self._timing.request_timeout, self._sent)
        return self._sent

    def sender_of(self, correlation: int) -> NodeId | None:
        """The peer whose response with this correlation is expected; None if it came too late."""
        return next((peer_id for peer_id, link in self._links.items() if link.correlation == correlation), None)

    def succeeded(self, peer_id: NodeId) -> None:
        self._links.pop(peer_id, None)

    def failed(self, peer_id: NodeId, now: float) -> None:
        """Pauses after a failed request. A request of an earlier role is forgotten and causes no pause."""
        if peer_id in self._links:
            self.pause(peer_id, now)

    def pause(self, peer_id: NodeId, now: float) -> None:
        self._links[peer_id] = _Link(now + self._timing.retry_backoff, None)

    def expire(self, now: float) -> None:
        """A request that timed out counts as failed. A pause that is over is forgotten."""
        for peer_id, link in list(self._links.items()):
            if now < link.ready_at:
                continue
            if link.correlation is None:
                del self._links[peer_id]
            else:
                self.pause(peer_id, now)

    def is_ready(self, peer: Peer) -> bool:
        return peer.id not in self._links

    def ready_at(self, peer: Peer) -> float | None:
        """When the peer is ready at the latest; None if it is ready now."""
        link = self._links.get(peer.id)
        return None if link is None else link.ready_at

    def any_in_flight(self) -> bool:
        return any(link.correlation is not None for link in self._links.values())

    def next_change(self) -> float | None:
        return min((link.ready_at for link in self._links.values()), default=None)
