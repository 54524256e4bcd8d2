"""One node in a search: its life, its log and its machines."""

from __future__ import annotations

from collections import deque
from copy import copy
from typing import NamedTuple

from highwater.model import Epoch, NodeId, Offset
from highwater.replication.alter_partition import Answer, Proposal
from highwater.replication.conversation import Conversation
from highwater.replication.follower import Follower
from highwater.replication.follower_progress import Contact
from highwater.replication.leader import Leader
from highwater.sim.search.replica_log import Log

KEY = "p"
"""The key of the only partition in conversations."""


class Heard(NamedTuple):
    broker_epoch: int
    end: Offset


class Node:
    __slots__ = (
        "answer",
        "asked",
        "broker_epoch",
        "epoch",
        "follower",
        "heard",
        "id",
        "image",
        "is_alive",
        "is_offline",
        "is_refilled",
        "is_troubled",
        "keeps_start",
        "late",
        "leader",
        "leader_end",
        "leader_high_watermark",
        "life",
        "log",
        "lost_power",
        "partition_epoch",
        "talk",
    )

    def __init__(self, node: NodeId) -> None:
        self.id = node
        self.is_alive = True
        self.life = 1
        self.broker_epoch = -1
        """The broker epoch from the controller; -1 before the controller has answered the registration of this life."""
        self.image = 0
        """The index of the newest image that it has applied."""
        self.log = Log()
        self.is_offline = self.is_troubled = self.is_refilled = False
        self.lost_power = False
        """It lost unsynced records, and the controller does not know that yet."""
        self.epoch = self.partition_epoch = -1
        self.leader: Leader | None = None
        self.talk: tuple[NodeId, Conversation[str]] | None = None
        self.follower: Follower | None = None
        self.leader_high_watermark: Offset | None = None
        self.leader_end: Offset | None = None
        """Where its leader's log ended when it was asked, in this epoch. Only a replica that is fetched again asks."""
        self.asked: Proposal | None = None
        """A proposal that the controller did not get, or whose response was lost."""
        self.late: tuple[Proposal, Epoch, int] | None = None
        """A proposal that was sent on a lost connection, with its leader epoch and incarnation: the controller may
        still read it, but its response arrives nowhere."""
        self.keeps_start = False
        """Its log start is being written to disk."""
        self.heard: dict[NodeId, Heard] = {}
        """For a leader: what each follower has shown in this term, since it last left the ISR. The model writes this,
        and the machine is compared with it."""
        self.answer: tuple[Proposal, Answer] | None = None
        """A response on its way."""

    def copied(self, contacts: dict[int, Contact]) -> Node:
        """`contacts` maps the identity of each contact to its copy: channels and leaders share them."""
        twin = copy(self)
        twin.log, twin.heard = copy(self.log), dict(self.heard)
        if self.leader is not None:
            leader = twin.leader = copy(self.leader)
            leader.brokers = dict(leader.brokers)
            leader.waiting, leader.released = deque(leader.waiting), list(leader.released)
            leader.followers = {}
            for replica, progress in self.leader.followers.items():
                moved = leader.followers[replica] = copy(progress)
                if progress.contact is not None:
                    at = progress.contact.at
                    moved.contact = contacts.setdefault(id(progress.contact), Contact(at))
            leader._recount()
        if self.talk is not None:
            talk = copy(self.talk[1])
            for name in ("_fetching", "_moved", "_forgotten"):
                setattr(talk, name, dict(getattr(talk, name)))
            twin.follower = None if self.follower is None else copy(self.follower)
            talk.followers = {} if twin.follower is None else {KEY: twin.follower}
            talk._syncing = {key: talk.followers[key] for key in talk._syncing if key in talk.followers}
            twin.talk = (self.talk[0], talk)
        return twin

    def frozen(self) -> tuple[object, ...]:
        """What distinguishes two states of this node."""
        return (
            self.id,
            self.is_alive,
            self.life,
            self.broker_epoch,
            self.image,
            self.log.frozen(),
            (
                self.is_offline,
                self.is_troubled,
                self.is_refilled,
                self.lost_power,
                self.leader_high_watermark,
                self.leader_end,
                self.keeps_start,
            ),
            (self.epoch, self.partition_epoch),
            None if self.leader is None else _frozen_leader(self.leader),
            None if self.talk is None else _frozen_talk(*self.talk, self.follower),
            None if self.asked is None else self.asked[:4],
            None if self.late is None else (self.late[0][:4], *self.late[1:]),
            None if self.answer is None else (self.answer[0][:4], self.answer[1]),
        )


def _frozen_leader(leader: Leader) -> tuple[object, ...]:
    return (
        leader.isr,
        leader.elr,
        leader.partition_epoch,
        leader.high_watermark,
        leader.durable_end,
        leader.epoch_start,
        leader.is_frozen,
        None if leader.proposal is None else leader.proposal[:4],
        tuple(leader.waiting),
        tuple(sorted(leader.brokers.items())),
        tuple(
            (
                *(r, p.end, p.log_start, p.broker_epoch, p.caught_up_at, p.leader_end_at_fetch, p.has_left),
                None if p.contact is None else p.contact.at,
            )
            for r, p in sorted(leader.followers.items())
        ),
    )


def _frozen_talk(leader: NodeId, talk: Conversation[str], follower: Follower | None) -> tuple[object, ...]:
    return (
        leader,
        None
        if follower is None
        else (follower.state, follower.epoch, follower.is_moved, follower.asked_first, follower.asked_last),
        talk._in_flight,
        talk._session_id,
        talk._unnamed,
        bool(talk._syncing),
        bool(talk._forgotten),
    )
