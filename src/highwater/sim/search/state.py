"""The state of a search: nodes with their logs and machines, what is on its way between them, and the metadata."""

from __future__ import annotations

from collections import deque
from copy import copy
from typing import NamedTuple

from highwater.errors import Code
from highwater.log.epoch_cache import EpochCache
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.partitions import PartitionImage
from highwater.model import Epoch, NodeId, Offset
from highwater.replication.alter_partition import Answer
from highwater.replication.conversation import Conversation
from highwater.replication.follower import Follower, Row
from highwater.replication.leader import Contact, Leader, Proposal

KEY = "p"
NOW, LONG_AGO = 0.0, -1000.0
"""Time is fresh or long ago, and nothing else."""
LAG_SECONDS = 10.0


class Batch(NamedTuple):
    base_offset: Offset
    last_offset: Offset
    leader_epoch: Epoch
    name: str
    """Which write it was: two leaders may give one offset to two of them."""


class Log:
    __slots__ = ("batches", "checkpoint", "durable_end", "end", "epochs", "high_watermark", "kept_start", "start")

    def __init__(self) -> None:
        self.batches: tuple[Batch, ...] = ()
        self.epochs: tuple[tuple[Epoch, Offset], ...] = ()
        self.start = self.end = self.durable_end = self.high_watermark = 0
        self.checkpoint = 0
        """The high watermark that a restart begins with."""
        self.kept_start = 0
        """The start that a restart begins with, if the batches are still there."""

    def history(self) -> EpochCache:
        return EpochCache(self.epochs)

    def append(self, batch: Batch) -> None:
        self.batches = (*self.batches, batch)
        self.end = batch.last_offset + 1
        history = self.history()
        if batch.leader_epoch != history.latest and history.follow(batch.leader_epoch, batch.base_offset):
            self.epochs = tuple(history.entries)

    def assign_epoch(self, epoch: Epoch) -> None:
        history = self.history()
        if history.assign(epoch, self.end):
            self.epochs = tuple(history.entries)

    def cut(self, offset: Offset) -> None:
        """Durable when it returns."""
        self.batches = tuple(batch for batch in self.batches if batch.last_offset < offset)
        self.end = min(self.end, max(offset, self.start)) if not self.batches else self.batches[-1].last_offset + 1
        self.end = max(self.end, self.start)
        self.durable_end = min(self.durable_end, self.end)
        self.high_watermark = min(self.high_watermark, self.end)
        self.checkpoint = min(self.checkpoint, self.end)
        history = self.history()
        history.truncate_end(self.end)
        self.epochs = tuple(history.entries)

    def begin_anew(self, offset: Offset, batches: tuple[Batch, ...] = ()) -> None:
        start = self.start
        self.batches, self.epochs = (), ()
        self.start = self.end = self.durable_end = self.high_watermark = self.checkpoint = offset
        for batch in batches:
            self.append(batch)
        if batches:
            self.durable_end = self.end
            self.raise_start(min(start, self.end))
        self.kept_start = self.start

    def raise_start(self, offset: Offset) -> None:
        self.start = max(self.start, offset)
        self.high_watermark = max(self.high_watermark, self.start)
        self.batches = tuple(batch for batch in self.batches if batch.last_offset >= self.start)
        history = self.history()
        history.truncate_start(self.start)
        self.epochs = tuple(history.entries)

    def forget_start(self) -> None:
        """The start as a new life finds it."""
        self.start = min(max(self.kept_start, self.batches[0].base_offset if self.batches else self.end), self.start)
        if self.epochs:
            self.epochs = ((self.epochs[0][0], self.start), *self.epochs[1:])

    def frozen(self) -> tuple[object, ...]:
        return (
            *(self.batches, self.epochs, self.start, self.kept_start, self.end, self.durable_end),
            *(self.high_watermark, self.checkpoint),
        )


Place = tuple[Epoch, Offset, Epoch, Offset]
"""The content of a fetch: leader epoch, offset, epoch of the last record, log start."""


class Request(NamedTuple):
    """A fetch on its way. If the session knows the position already, the fetch does not name it."""

    number: int
    broker_epoch: int
    begins_session: bool
    place: Place | None
    forgets: bool = False


class Reply(NamedTuple):
    number: int
    row: Row | None
    place: Place | None = None
    """The position that the row is for."""
    code: Code = Code.NONE


class Reading(NamedTuple):
    """An answer whose bytes are read later than its header was made."""

    number: int
    row: Row
    place: Place
    end: Offset
    """The end of the leader's log when the header was made."""


class Channel:
    """One follower's connection with one leader: first come, first served."""

    __slots__ = ("contact", "forgotten", "held", "place", "reading", "replies", "requests", "restated", "sent", "stale")

    def __init__(self) -> None:
        self.requests: tuple[Request, ...] = ()
        self.replies: tuple[Reply, ...] = ()
        self.held: Request | None = None
        """It has arrived and been counted, and there was nothing to say yet."""
        self.stale: Request | None = None
        """A request of a lost connection: the leader may still read it, but its response arrives nowhere."""
        self.reading: Reading | None = None
        self.place: Place | None = None
        """The leader's session: the last position that it got."""
        self.forgotten = False
        """The leader had no room for the session any more."""
        self.sent: tuple[Offset, Offset] | None = None
        self.restated = False
        self.contact = Contact(NOW)

    @property
    def is_empty(self) -> bool:
        return not (self.requests or self.replies or self.held or self.stale or self.place or self.reading)

    def frozen(self) -> tuple[object, ...]:
        return (
            self.requests,
            self.replies,
            self.held,
            self.stale,
            self.reading,
            self.place,
            self.forgotten,
            self.sent,
            self.restated,
            self.contact.at,
        )


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
        """As the controller gave it; -1 before the controller has answered the registration of this life."""
        self.image = 0
        """The place of the newest image that it has applied."""
        self.log = Log()
        self.is_offline = self.is_troubled = self.is_refilled = False
        self.lost_power = False
        """It lost what it had not synced, and the controller does not know it yet."""
        self.epoch = self.partition_epoch = -1
        self.leader: Leader | None = None
        self.talk: tuple[NodeId, Conversation[str]] | None = None
        self.follower: Follower | None = None
        self.leader_high_watermark: Offset | None = None
        self.asked: Proposal | None = None
        """A proposal that the controller has not got, or whose response was lost."""
        self.late: tuple[Proposal, Epoch, int] | None = None
        """A proposal that was sent on a lost connection, with its leader epoch and incarnation: the controller may
        still read it, but its response arrives nowhere."""
        self.keeps_start = False
        """Its log start is being written down."""
        self.heard: dict[NodeId, Heard] = {}
        """For a leader: what each follower has shown in this term, since it last left the ISR. The model writes this,
        and the machine is compared with it."""
        self.answer: tuple[Proposal, Answer] | None = None
        """A response on its way."""


class State:
    __slots__ = ("acked", "budget", "channels", "deleted", "forgiven", "images", "nodes", "written", "wrong")

    def __init__(self, nodes: dict[NodeId, Node], images: tuple[MetadataImage, ...], budget: int) -> None:
        self.nodes = nodes
        self.images = images
        self.budget = budget
        self.channels: dict[tuple[NodeId, NodeId], Channel] = {}
        self.written = 0
        self.deleted: Offset = 0
        """Clients know that everything below is deleted."""
        self.wrong: str | None = None
        """What a machine did and must not do, in the step that led here."""
        self.acked: tuple[Batch, ...] = ()
        """What clients know as committed."""
        self.forgiven: frozenset[str] = frozenset()
        """The part of it that may be lost: an unclean election was allowed, or the last copy lost its power."""

    @property
    def head(self) -> MetadataImage:
        return self.images[-1]

    def part(self, image: int = -1) -> PartitionImage:
        (topic,) = self.images[image].topics.by_id.values()
        return topic.partitions[0]

    def channel(self, follower: NodeId, leader: NodeId) -> Channel:
        return self.channels.setdefault((follower, leader), Channel())

    def copy(self) -> State:
        new = State({}, self.images, self.budget)
        new.written, new.acked, new.forgiven = self.written, self.acked, self.forgiven
        new.deleted = self.deleted
        contacts: dict[int, Contact] = {}
        for key, channel in self.channels.items():
            twin = new.channels[key] = copy(channel)
            twin.contact = contacts.setdefault(id(channel.contact), Contact(channel.contact.at))
        for node in self.nodes.values():
            new.nodes[node.id] = _copied(node, contacts)
        return new

    def normalise(self) -> None:
        """Removes differences that do not matter: fetches are numbered by their rank, and metadata that all nodes have
        applied is forgotten."""
        oldest = min((node.image for node in self.nodes.values() if node.is_alive), default=len(self.images) - 1)
        self.images = self.images[oldest:]
        for node in self.nodes.values():
            node.image = max(node.image - oldest, 0)
            if node.talk is not None:
                self._renumber(node, node.talk[1], self.channel(node.id, node.talk[0]))
        for key in [key for key, channel in self.channels.items() if channel.is_empty]:
            del self.channels[key]

    def _renumber(self, node: Node, talk: Conversation[str], channel: Channel) -> None:
        used = {each.number for each in channel.requests} | {each.number for each in channel.replies}
        used |= {each.number for each in (channel.held, channel.reading) if each is not None}
        follower = node.follower
        if follower is not None:
            used |= {each for each in (follower.asked_first, follower.asked_last) if each is not None}
        rank = {number: at for at, number in enumerate(sorted(used), 1)}
        talk._made = len(rank)
        if follower is not None and follower.asked_first is not None and follower.asked_last is not None:
            follower.asked_first, follower.asked_last = rank[follower.asked_first], rank[follower.asked_last]
        channel.requests = tuple(each._replace(number=rank[each.number]) for each in channel.requests)
        channel.replies = tuple(each._replace(number=rank[each.number]) for each in channel.replies)
        if channel.held is not None:
            channel.held = channel.held._replace(number=rank[channel.held.number])
        if channel.reading is not None:
            channel.reading = channel.reading._replace(number=rank[channel.reading.number])

    def frozen(self) -> tuple[object, ...]:
        """What distinguishes two states."""
        return (
            tuple(_frozen_node(node) for node in self.nodes.values()),
            tuple((key, channel.frozen()) for key, channel in sorted(self.channels.items())),
            tuple(map(_frozen_image, self.images)),
            self.written,
            self.acked,
            self.deleted,
            self.forgiven,
            self.budget,
        )


def _copied(node: Node, contacts: dict[int, Contact]) -> Node:
    twin = copy(node)
    twin.log, twin.heard = copy(node.log), dict(node.heard)
    if node.leader is not None:
        leader = twin.leader = copy(node.leader)
        leader.brokers = dict(leader.brokers)
        leader.waiting, leader.released = deque(leader.waiting), list(leader.released)
        leader.followers = {}
        for replica, progress in node.leader.followers.items():
            moved = leader.followers[replica] = copy(progress)
            if progress.contact is not None:
                at = progress.contact.at
                moved.contact = contacts.setdefault(id(progress.contact), Contact(at))
        leader._recount()
    if node.talk is not None:
        talk = copy(node.talk[1])
        for name in ("_fetching", "_moved", "_forgotten"):
            setattr(talk, name, dict(getattr(talk, name)))
        twin.follower = None if node.follower is None else copy(node.follower)
        talk.followers = {} if twin.follower is None else {KEY: twin.follower}
        talk._syncing = {key: talk.followers[key] for key in talk._syncing if key in talk.followers}
        twin.talk = (node.talk[0], talk)
    return twin


def _frozen_node(node: Node) -> tuple[object, ...]:
    leader, talk = node.leader, node.talk
    led = None
    if leader is not None:
        led = (
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
    follows = None
    if talk is not None:
        f, c = node.follower, talk[1]
        follows = (
            talk[0],
            None if f is None else (f.state, f.epoch, f.is_moved, f.asked_first, f.asked_last),
            c._in_flight,
            c._session_id,
            c._unnamed,
            bool(c._syncing),
            bool(c._forgotten),
        )
    return (
        node.id,
        node.is_alive,
        node.life,
        node.broker_epoch,
        node.image,
        node.log.frozen(),
        (
            node.is_offline,
            node.is_troubled,
            node.is_refilled,
            node.lost_power,
            node.leader_high_watermark,
            node.keeps_start,
        ),
        (node.epoch, node.partition_epoch),
        led,
        follows,
        None if node.asked is None else node.asked[:4],
        None if node.late is None else (node.late[0][:4], *node.late[1:]),
        None if node.answer is None else (node.answer[0][:4], node.answer[1]),
    )


def _frozen_image(image: MetadataImage) -> tuple[object, ...]:
    (topic,) = image.topics.by_id.values()
    return (
        topic.partitions[0],
        tuple((b.id, b.epoch, b.fenced, b.in_controlled_shutdown) for b in image.brokers.by_id.values()),
    )
