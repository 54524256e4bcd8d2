"""What an operator does during the faults: creates and deletes topics, deletes records, changes settings, moves
leaders and replicas."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import TypeVar

from highwater.errors import Code, KafkaError, code_of
from highwater.metadata.configs import ResourceType
from highwater.model import TopicPartition
from highwater.net.client import CallFailed
from highwater.sim.client import Client
from highwater.sim.faults.fault import Fault
from highwater.sim.faults.permitted import Permitted
from highwater.sim.faults.scene import Scene
from highwater.sim.scratch import Scratch
from highwater.wire.codec import Message
from highwater.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from highwater.wire.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from highwater.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from highwater.wire.messages.delete_records_response import DeleteRecordsResponse
from highwater.wire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from highwater.wire.messages.elect_leaders_response import ElectLeadersResponse
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse

M = TypeVar("M", bound=Message)
SECONDS = 1.5
PREFERRED, UNCLEAN = 0, 1
SETTINGS = (
    ("index.interval.bytes", ("0", "200", "4096")),
    ("compression.type", ("producer", "gzip", "zstd", "uncompressed")),
    ("min.insync.replicas", ("1", "2")),
    ("internal.segment.bytes", ("1500", "4000", "9000")),
    ("flush.ms", ("50", "1000")),
)
"""Settings of topics, and their values."""
RETAINED = ("3000", "6000")


class Operations:
    """`trouble` queues work, and `work` does it, one thing after the other."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.permitted = Permitted()
        self.scratch = Scratch(scene.cluster)
        self._waiting: deque[Fault] = deque()

    def trouble(self, fault: Fault, name: str, until: float) -> bool:
        """Whether the verb is one of these."""
        if fault.verb not in VERBS:
            return False
        self._waiting.append(fault)
        return True

    async def work(self, client: Client) -> None:
        while not self._scene.over:
            if not self._waiting:
                await client.back_off()
                continue
            fault = self._waiting.popleft()
            try:
                done = await self._carry_out(client, fault.verb, fault.dice())
            except (CallFailed, KafkaError, TimeoutError) as failed:
                client.forget_leaders()
                self._scene.say(f"operator: {fault.verb} one: {failed}")
            else:
                self._scene.count(VERBS[fault.verb] if done else f"{VERBS[fault.verb]} in vain", "the cluster")
        client.close()

    async def _carry_out(self, client: Client, verb: str, dice: Random) -> bool:
        match verb:
            case "delete records of":
                return await self._delete_records(client, dice)
            case "retain less of":
                return await self._retain(client, dice)
            case "change a setting of":
                return await self._change_setting(client, dice)
            case "change min.insync.replicas of":
                topic = dice.choice(self._scene.partitions).topic
                return await self._set(client, topic, {"min.insync.replicas": dice.choice(("1", "2", "3"))})
            case "elect preferred leaders for":
                return await self._elect(client, PREFERRED, self._scene.partitions)
            case "elect uncleanly for":
                return await self._elect(client, UNCLEAN, [dice.choice(self._scene.partitions)])
            case "move a partition of":
                return await self._move(client, dice)
            case "cancel a move of":
                return await self._reassign(client, dice.choice(self._scene.partitions), None)
            case "create or delete a topic beside":
                return await self.scratch.turn_over(client, dice, SECONDS)
            case "delete records beside":
                return await self.scratch.delete_records(client, dice, SECONDS)
            case "add partitions beside":
                return await self.scratch.add_partitions(client, dice, SECONDS)
        raise AssertionError(verb)

    async def _delete_records(self, client: Client, dice: Random) -> bool:
        """Deletes up to a random offset below the committed end, mostly in the middle of a batch."""
        at = dice.choice(self._scene.partitions)
        leader = self._scene.cluster.leader_of(at)
        node = None if leader is None else self._scene.cluster.members[leader].node
        hosted = None if node is None or node.broker is None else node.broker.hosted.get(at)
        if hosted is None or hosted.log.high_watermark == 0:
            return False
        offset = dice.randint(0, hosted.log.high_watermark)
        self.permitted.deleted[at] = max(offset, self.permitted.deleted.get(at, 0))
        partition = DeleteRecordsPartition(partition_index=at.partition, offset=offset)
        topics = [DeleteRecordsTopic(name=at.topic, partitions=[partition])]
        self._scene.say(f"operator: {at} is to lose its records below {offset}")
        to, _ = await client.leader(at, SECONDS)
        answer = await client.ask(
            to, DeleteRecordsRequest(topics=topics, timeout_ms=1000), DeleteRecordsResponse, SECONDS
        )
        return answer.topics[0].partitions[0].error_code == Code.NONE

    async def _retain(self, client: Client, dice: Random) -> bool:
        topic, size = dice.choice(self._scene.partitions).topic, dice.choice(RETAINED)
        self.permitted.retained.add(topic)
        return await self._set(client, topic, {"retention.bytes": size, "internal.segment.bytes": "1500"})

    async def _change_setting(self, client: Client, dice: Random) -> bool:
        topic = dice.choice(self._scene.partitions).topic
        name, values = dice.choice(SETTINGS)
        return await self._set(client, topic, {name: dice.choice(values)})

    async def _set(self, client: Client, topic: str, settings: dict[str, str]) -> bool:
        self._scene.say(f"operator: {topic} is to have {settings}")
        configs = [AlterableConfig(name=name, value=value) for name, value in settings.items()]
        resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=topic, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = await client.ask_any(request, IncrementalAlterConfigsResponse, SECONDS)
        return answer.responses[0].error_code == Code.NONE

    async def _elect(self, client: Client, kind: int, partitions: Sequence[TopicPartition]) -> bool:
        if kind == UNCLEAN:
            self._scene.say(f"operator: {partitions[0]} shall have any leader")
            self.permitted.given_up |= {each.topic for each in partitions}
        topics = [TopicPartitions(topic=each.topic, partitions=[each.partition]) for each in partitions]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=1000)
        answer = await client.ask_any(request, ElectLeadersResponse, SECONDS)
        codes = [row.error_code for topic in answer.replica_election_results for row in topic.partition_result]
        return code_of(answer.error_code) is Code.NONE and Code.NONE in codes

    async def _move(self, client: Client, dice: Random) -> bool:
        """Moves the partition to two or three brokers, in any order. Some of them may have a replica already."""
        brokers = [member.id for member in self._scene.cluster.members.values() if member.is_broker]
        target = dice.sample(brokers, min(dice.choice((2, 3, 3)), len(brokers)))
        return await self._reassign(client, dice.choice(self._scene.partitions), target)

    async def _reassign(self, client: Client, at: TopicPartition, target: Sequence[int] | None) -> bool:
        self._scene.say(f"operator: {at} is to {'stay' if target is None else f'move to {target}'}")
        replicas = None if target is None else list(target)
        row = ReassignablePartition(partition_index=at.partition, replicas=replicas)
        topics = [ReassignableTopic(name=at.topic, partitions=[row])]
        request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=1000)
        answer = await client.ask_any(request, AlterPartitionReassignmentsResponse, SECONDS)
        codes = [row.error_code for topic in answer.responses for row in topic.partitions]
        return code_of(answer.error_code) is Code.NONE and Code.NONE in codes


VERBS = {
    "move a partition of": "partitions moved",
    "cancel a move of": "moves cancelled",
    "delete records of": "deletions of records",
    "retain less of": "retentions",
    "change a setting of": "settings changed",
    "change min.insync.replicas of": "bounds changed",
    "elect preferred leaders for": "preferred elections",
    "elect uncleanly for": "unclean elections asked for",
    "create or delete a topic beside": "topics created or deleted",
    "add partitions beside": "partitions added",
    "delete records beside": "deletions of records beside",
}
"""The names under which they are counted."""
