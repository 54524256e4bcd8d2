"""Answers that refuse a whole admin request with one code: what is told when no controller can be asked."""

from __future__ import annotations

from highwater.errors import Code
from highwater.wire.messages.create_partitions_request import CreatePartitionsRequest
from highwater.wire.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from highwater.wire.messages.create_topics_request import CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest
from highwater.wire.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from highwater.wire.messages.elect_leaders_request import ElectLeadersRequest
from highwater.wire.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from highwater.wire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from highwater.wire.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from highwater.wire.messages.unregister_broker_response import UnregisterBrokerResponse


def create_topics(request: CreateTopicsRequest, code: Code) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=code, error_message=code.description)
            for topic in request.topics
        ]
    )


def delete_topics(request: DeleteTopicsRequest, code: Code) -> DeleteTopicsResponse:
    named = [DeletableTopicResult(name=name, error_code=code) for name in request.topic_names]
    stated = [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code) for topic in request.topics
    ]
    return DeleteTopicsResponse(responses=[*named, *stated])


def create_partitions(request: CreatePartitionsRequest, code: Code) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(name=topic.name, error_code=code) for topic in request.topics]
    )


def incremental_alter_configs(request: IncrementalAlterConfigsRequest, code: Code) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=code.description,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def elect_leaders(request: ElectLeadersRequest, code: Code, version: int = 2) -> ElectLeadersResponse:
    """Version 0 has no room for a code at the top."""
    results = [
        ReplicaElectionResult(
            topic=named.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=code, error_message=code.description)
                for index in named.partitions
            ],
        )
        for named in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code if version > 0 else 0, replica_election_results=results)


def unregister_broker(code: Code) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=code, error_message=code.description)
