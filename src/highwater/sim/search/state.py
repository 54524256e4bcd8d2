"""The state of a search: nodes with their logs and machines, the messages between them, and the metadata."""

from __future__ import annotations

from copy import copy

from highwater.metadata.cluster import MetadataImage
from highwater.metadata.partitions import PartitionImage
from highwater.model import NodeId, Offset
from highwater.replication.conversation import Conversation
from highwater.replication.follower_progress import Contact
from highwater.sim.search.channel import Channel
from highwater.sim.search.node import Node
from highwater.sim.search.replica_log import Batch


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
        """The mistake of a machine in the step that led here."""
        self.acked: tuple[Batch, ...] = ()
        """What clients know as committed."""
        self.forgiven: frozenset[str] = frozenset()
        """The part of it that may be lost, because an unclean election was allowed or the last copy lost its power."""

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
            new.nodes[node.id] = node.copied(contacts)
        return new

    def normalise(self) -> None:
        """Removes differences that do not matter: fetches are numbered by their order, and metadata that all nodes have
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
            tuple(node.frozen() for node in self.nodes.values()),
            tuple((key, channel.frozen()) for key, channel in sorted(self.channels.items())),
            tuple(map(_frozen_image, self.images)),
            self.written,
            self.acked,
            self.deleted,
            self.forgiven,
            self.budget,
        )


def _frozen_image(image: MetadataImage) -> tuple[object, ...]:
    (topic,) = image.topics.by_id.values()
    return (
        topic.partitions[0],
        tuple((b.id, b.epoch, b.fenced, b.in_controlled_shutdown) for b in image.brokers.by_id.values()),
    )
