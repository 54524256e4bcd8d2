"""Questions and commands about topics, settings and the cluster; errors are KafkaErrors with Kafka's codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from highwater.client.answers import check
from highwater.client.client import Broker, Client
from highwater.client.connection import Connection
from highwater.client.failures import UnsupportedApi
from highwater.errors import Code
from highwater.model import METADATA_TOPIC, Endpoint, NodeId, TopicPartition, Uuid
from highwater.model import ResourceType as ResourceType
from highwater.wire.codec import UnsupportedField
from highwater.wire.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from highwater.wire.messages.create_partitions_response import CreatePartitionsResponse
from highwater.wire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from highwater.wire.messages.delete_topics_response import DeleteTopicsResponse
from highwater.wire.messages.describe_cluster_request import DescribeClusterRequest
from highwater.wire.messages.describe_cluster_response import DescribeClusterResponse
from highwater.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from highwater.wire.messages.describe_configs_response import DescribeConfigsResourceResult, DescribeConfigsResponse
from highwater.wire.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from highwater.wire.messages.describe_quorum_response import DescribeQuorumResponse
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from highwater.wire.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from highwater.wire.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
)

USE_DEFAULT = -1
"""The number of partitions, or the replication factor, that the cluster is configured with (KIP-464)."""


class ConfigSource(IntEnum):
    """The source of a setting's value, by its number in DescribeConfigs."""

    UNKNOWN = -1
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignment: Sequence[Sequence[int]] = ()
    """The replicas of each partition. It cannot be given together with the two counts above."""
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller: NodeId
    brokers: Sequence[Broker]
    fenced: frozenset[NodeId] = frozenset()
    """Brokers among them that are registered and do not serve."""


class Admin:
    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def _timeout_ms(self) -> int:
        return int(self.client.request_timeout * 1000)

    def _change(self, attempt: Callable[[], None]) -> None:
        """A change that the controller cannot write fails at once, as in Apache's client: a disk rarely gets room
        within seconds, and the error has the reason."""
        self.client.retrying(attempt, final=(Code.KAFKA_STORAGE_ERROR,))

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> None:
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics], timeout_ms=self._timeout_ms, validate_only=validate_only
        )

        def attempt() -> None:
            for result in self.client.ask(request, CreateTopicsResponse).topics:
                check(result.error_code, result.error_message)

        self._change(attempt)

    def delete_topics(self, names: Iterable[str]) -> None:
        asked = list(names)

        def attempt() -> None:
            connection = self.client.any_connection()
            # Version 6 names topics in structs, older ones in a plain list, and neither carries the other's.
            by_struct = connection.version(DeleteTopicsRequest) >= 6
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in asked] if by_struct else [],
                topic_names=[] if by_struct else asked,
                timeout_ms=self._timeout_ms,
            )
            for result in connection.request(request, DeleteTopicsResponse).responses:
                check(result.error_code, result.error_message)

        self._change(attempt)
        for name in asked:
            self.client.forget(name)

    def create_partitions(
        self, counts: Mapping[str, int], assignments: Mapping[str, Sequence[Sequence[int]]] | None = None
    ) -> None:
        """Grow each topic to its count; `assignments` places the new partitions."""
        placed = assignments or {}
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=name,
                    count=count,
                    assignments=[CreatePartitionsAssignment(broker_ids=list(ids)) for ids in placed[name]]
                    if name in placed
                    else None,
                )
                for name, count in counts.items()
            ],
            timeout_ms=self._timeout_ms,
        )

        def attempt() -> None:
            for result in self.client.ask(request, CreatePartitionsResponse).results:
                check(result.error_code, result.error_message)

        self._change(attempt)
        for name in counts:
            self.client.forget(name)

    def list_topics(self, *, internal: bool = True) -> dict[str, Uuid]:
        """Every topic's name and id, as the server lists them."""
        response = self.client.retrying(lambda: self.client.metadata(None))
        return {
            topic.name: topic.topic_id
            for topic in response.topics
            if topic.name is not None and (internal or not topic.is_internal)
        }

    def describe_configs(
        self, resource: ResourceType, names: Sequence[str], *, synonyms: bool = False
    ) -> dict[str, list[DescribeConfigsResourceResult]]:
        """All settings of each resource. The settings of a broker are asked of that broker."""
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=resource, resource_name=name, configuration_keys=None)
                for name in names
            ],
            include_synonyms=synonyms,
        )

        def attempt() -> dict[str, list[DescribeConfigsResourceResult]]:
            response = self._resource_connection(resource, names).request(request, DescribeConfigsResponse)
            for result in response.results:
                check(result.error_code, result.error_message)
            return {result.resource_name: result.configs for result in response.results}

        return self.client.retrying(attempt) if names else {}

    def alter_configs(
        self,
        resource: ResourceType,
        name: str,
        *,
        put: Mapping[str, str] | None = None,
        delete: Iterable[str] = (),
        validate_only: bool = False,
    ) -> None:
        """IncrementalAlterConfigs: settings not named stay as they are."""
        changes = [AlterableConfig(name=key, config_operation=1, value=None) for key in delete]
        changes += [AlterableConfig(name=key, config_operation=0, value=value) for key, value in (put or {}).items()]
        request = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=resource, resource_name=name, configs=changes)],
            validate_only=validate_only,
        )

        def attempt() -> None:
            connection = self._resource_connection(resource, [name])
            for result in connection.request(request, IncrementalAlterConfigsResponse).responses:
                check(result.error_code, result.error_message)

        self._change(attempt)

    def describe_cluster(self, *, fenced: bool = False) -> ClusterDescription:
        """From DescribeCluster, or from Metadata if the server is too old. With the `fenced` brokers, if the server can
        list them."""
        request = DescribeClusterRequest(include_fenced_brokers=fenced)

        def attempt() -> ClusterDescription:
            try:
                try:
                    response = self.client.ask(request, DescribeClusterResponse)
                except UnsupportedField:
                    response = self.client.ask(DescribeClusterRequest(), DescribeClusterResponse)
            except UnsupportedApi:
                self.client.metadata([])
                view = self.client.view
                return ClusterDescription(view.cluster_id or "", view.controller, tuple(view.brokers.values()))
            check(response.error_code, response.error_message)
            brokers = tuple(
                Broker(NodeId(broker.broker_id), Endpoint(broker.host, broker.port), broker.rack)
                for broker in response.brokers
            )
            away = frozenset(NodeId(broker.broker_id) for broker in response.brokers if broker.is_fenced)
            return ClusterDescription(response.cluster_id, NodeId(response.controller_id), brokers, away)

        return self.client.retrying(attempt)

    def describe_quorum(self) -> DescribeQuorumResponse:
        request = DescribeQuorumRequest(
            topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
        )

        def attempt() -> DescribeQuorumResponse:
            response = self.client.ask(request, DescribeQuorumResponse)
            check(response.error_code, response.error_message)
            for topic in response.topics:
                for partition in topic.partitions:
                    check(partition.error_code, partition.error_message)
            return response

        return self.client.retrying(attempt)

    def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OngoingPartitionReassignment]:
        """The reassignments that are under way (among `partitions`); empty if the server does not have the API or does
        not allow it."""
        topics: dict[str, list[int]] | None = None
        if partitions is not None:
            topics = {}
            for topic, partition in partitions:
                topics.setdefault(topic, []).append(partition)
        request = ListPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms,
            topics=None
            if topics is None
            else [ListPartitionReassignmentsTopics(name=name, partition_indexes=ids) for name, ids in topics.items()],
        )

        def attempt() -> dict[TopicPartition, OngoingPartitionReassignment]:
            connection = self.client.any_connection()
            if not connection.offers(ListPartitionReassignmentsRequest):
                return {}
            response = connection.request(request, ListPartitionReassignmentsResponse)
            if response.error_code == Code.CLUSTER_AUTHORIZATION_FAILED:
                return {}
            check(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, partition.partition_index): partition
                for topic in response.topics
                for partition in topic.partitions
            }

        return self.client.retrying(attempt)

    def _resource_connection(self, resource: ResourceType, names: Sequence[str]) -> Connection:
        if resource in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and names[0]:
            return self.client.broker_connection(NodeId(int(names[0])))
        return self.client.any_connection()


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=USE_DEFAULT if topic.assignment else topic.partitions,
        replication_factor=USE_DEFAULT if topic.assignment else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in enumerate(topic.assignment)
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )
