"""Notices the death of the quorum's leader: a closed connection is a hint, two refused connections are the proof."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model import Endpoint
from highwater.net.client import Gone
from highwater.net.probe import Probe
from highwater.quorum import Role
from highwater.quorum.voters import endpoint_of

if TYPE_CHECKING:
    from highwater.raft_node.raft_node import RaftNode


class LeaderWatch:
    def __init__(self, raft: RaftNode) -> None:
        self._raft = raft
        self._probing: set[Endpoint] = set()

    def lost(self, endpoint: Endpoint, reason: Gone) -> None:
        quorum = self._raft.quorum
        leader, epoch = quorum.leader_id, quorum.epoch
        is_leader = endpoint == endpoint_of(quorum.leader_listeners, self._raft.identity.listener)
        if leader is None or quorum.role is not Role.FOLLOWER or not is_leader or endpoint in self._probing:
            return
        self._probing.add(endpoint)

        def verdict(dead: bool) -> None:
            self._probing.discard(endpoint)
            if dead:
                self._raft.leader_died(leader, epoch)

        Probe(self._raft.world, endpoint, self._raft.deadlines, verdict)
