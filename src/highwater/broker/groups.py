"""The group coordinator of a broker: the shards of `__consumer_offsets` that it leads, and the requests to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv6Address, ip_address
from typing import TypeVar

from highwater import config as settings
from highwater.broker.applied_metadata import AppliedMetadata
from highwater.config import NodeConfig
from highwater.coordinator.coordinator import Coordinator, partition_for
from highwater.coordinator.tenure import Tenure
from highwater.effects import Caller, Effect, Now, Token
from highwater.errors import Code, KafkaError
from highwater.groups import MOST_KEPT, MOST_MEMBERS, GroupSettings, GroupShard
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.topics import TopicImage
from highwater.model import Uuid
from highwater.net.context import RequestContext
from highwater.net.deadlines import DeadlineQueue
from highwater.partition.partition import Partition
from highwater.wire.codec import Message, Struct
from highwater.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from highwater.world import World

OFFSETS_TOPIC = "__consumer_offsets"
R = TypeVar("R", bound=Struct)
_log = logging.getLogger(__name__)


class GroupCoordinator:
    def __init__(
        self,
        world: World,
        config: NodeConfig,
        deadlines: DeadlineQueue,
        metadata: AppliedMetadata,
    ) -> None:
        self._config = config
        self._failures = world.failures
        self._metadata = metadata
        draw, shard_settings = world.random("member-ids").randbytes, _settings(config)
        self.shards: Coordinator[GroupShard] = Coordinator(
            OFFSETS_TOPIC,
            world,
            deadlines,
            lambda most_bytes: GroupShard(shard_settings, lambda: _uuid(draw(16)), most_bytes, self._has_room),
            _answer,
            lambda: config.get(settings.OFFSETS_COMMIT_TIMEOUT_MS) / 1000,
            config.get(settings.OFFSETS_TOPIC_COMPRESSION_CODEC),
        )

    # Changes of metadata

    def role_changed(self, partition: Partition, image: MetadataImage) -> None:
        """`image` gives the partition its role. It is not older than the image of any earlier coordinator of these
        groups. So a topic that has offsets and is not in `image` was deleted, perhaps while there was no
        coordinator."""
        tenure = self.shards.role_changed(partition) if partition.tp.topic == OFFSETS_TOPIC else None
        if tenure is not None:
            tenure.when_active(lambda shard: shard.topics_are(lambda name: _id_of(image, name)))

    def removed(self, partition: Partition) -> None:
        if partition.tp.topic == OFFSETS_TOPIC:
            self.shards.removed(partition)

    def topics_deleted(self, topics: Iterable[TopicImage]) -> None:
        """Offsets of a deleted topic must not be used for a new topic of the same name."""
        gone = {topic.name: topic.id for topic in topics}
        for tenure in self.shards if gone else ():
            with self._failures.boundary("callback", "groups that learn of deleted topics"):
                tenure.when_active(lambda shard: shard.topics_deleted(gone))

    def stop(self) -> None:
        self.shards.stop()

    # Requests

    def index_of(self, group_id: str) -> int:
        topic = self._metadata.image.topics.by_name.get(OFFSETS_TOPIC)
        count = self._config.get(settings.OFFSETS_TOPIC_NUM_PARTITIONS) if topic is None else len(topic.partitions)
        return partition_for(group_id, count)

    def tenure_of(self, group_id: str) -> Tenure[GroupShard]:
        """Raises KafkaError if this broker does not coordinate the group, or not yet."""
        return self.shards.tenure(self.index_of(group_id))

    def ask(
        self,
        ctx: RequestContext,
        group_id: str,
        act: Callable[[GroupShard, Caller, Now], Sequence[Effect]],
        refused: Callable[[Code], R],
        reply: Callable[[R], None],
    ) -> None:
        """Lets the group's shard handle a request. `reply` is called once, perhaps much later: with the shard's
        response, or with the response that `refused` makes from an error."""
        try:
            tenure = self.tenure_of(group_id)
        except KafkaError as failed:
            reply(refused(failed.code))
        else:
            caller = Caller(reply, ctx.version, ctx.client_id or "", _java_host(ctx.peer.host))
            tenure.carry_out(act(tenure.machine, caller, tenure.now))

    def ask_as_member(
        self,
        ctx: RequestContext,
        group_id: str,
        act: Callable[[GroupShard, Caller, Now], Sequence[Effect]],
        refused: Callable[[Code], Message],
    ) -> None:
        """As `ask`, for a client that is or wants to be a member. It must name a group, and must be allowed to read
        it."""
        if not group_id:
            ctx.respond(refused(Code.INVALID_GROUP_ID))
        elif not ctx.authorize("Read", "Group", group_id):
            ctx.respond(refused(Code.GROUP_AUTHORIZATION_FAILED))
        else:
            self.ask(ctx, group_id, act, refused, ctx.respond)

    # Memory

    @property
    def kept(self) -> int:
        """The memory of all groups and offsets that this broker coordinates, in bytes."""
        return sum(tenure.machine.size for tenure in self.shards)

    def _has_room(self, more: int) -> bool:
        if more <= 0 or self.kept + more <= MOST_KEPT:
            return True
        line = f"groups and offsets take {MOST_KEPT >> 20} MiB, the most that they may: new ones are refused"
        if self._failures.is_news(line):
            _log.warning("%s. Delete unused groups, or lower offsets.retention.minutes", line)
        return False

    # The topic

    def topic_to_create(self) -> CreatableTopic:
        get = self._config.get
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(get(settings.OFFSETS_TOPIC_SEGMENT_BYTES)),
        }
        return CreatableTopic(
            name=OFFSETS_TOPIC,
            num_partitions=get(settings.OFFSETS_TOPIC_NUM_PARTITIONS),
            replication_factor=get(settings.OFFSETS_TOPIC_REPLICATION_FACTOR),
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )


def _answer(token: Token, response: Struct) -> None:
    assert callable(token), "the token of a caller is the function that answers it"
    token(response)


def _id_of(image: MetadataImage, topic: str) -> Uuid | None:
    known = image.topics.by_name.get(topic)
    return None if known is None else known.id


def _settings(config: NodeConfig) -> GroupSettings:
    return GroupSettings(
        min_session_timeout_ms=config.get(settings.GROUP_MIN_SESSION_TIMEOUT_MS),
        max_session_timeout_ms=config.get(settings.GROUP_MAX_SESSION_TIMEOUT_MS),
        initial_rebalance_delay_ms=config.get(settings.GROUP_INITIAL_REBALANCE_DELAY_MS),
        max_size=min(config.get(settings.GROUP_MAX_SIZE), MOST_MEMBERS),
        offset_metadata_max_size=config.get(settings.OFFSET_METADATA_MAX_BYTES),
        offsets_retention_ms=config.get(settings.OFFSETS_RETENTION_MINUTES) * 60_000,
        offsets_retention_check_interval_ms=config.get(settings.OFFSETS_RETENTION_CHECK_INTERVAL_MS),
    )


def _uuid(random: bytes) -> str:
    """A version 4 UUID of these random bytes, as text."""
    drawn = bytearray(random)
    drawn[6], drawn[8] = drawn[6] & 0x0F | 0x40, drawn[8] & 0x3F | 0x80
    text = drawn.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _java_host(host: str) -> str:
    """The address as Java prints it: after a slash, and IPv6 without abbreviation."""
    text, percent, scope = host.partition("%")
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        text = ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))
    return f"/{text}{percent}{scope}"
