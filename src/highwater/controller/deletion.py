"""Deleting topics, by name or by id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from highwater.config import DELETE_TOPIC_ENABLE, NodeConfig
from highwater.controller.decision import Authorize, Decision, allow_all, error_message, pieces_of
from highwater.errors import Code, KafkaError
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.topics import TopicImage
from highwater.model import ZERO_UUID, Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from highwater.wire.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from highwater.wire.messages.remove_topic_record import RemoveTopicRecord

Asked = tuple[str | None, Uuid]
"""A name, or no name and an id."""

_TOPICS_PER_PIECE: Final = 20


def delete_topics(
    head: MetadataImage,
    request: DeleteTopicsRequest,
    version: int,
    config: NodeConfig,
    authorize: Authorize = allow_all,
) -> Decision[DeleteTopicsResponse]:
    times = Counter(_asked(request))
    if not config.get(DELETE_TOPIC_ENABLE):
        code = Code.INVALID_REQUEST if version < 3 else Code.TOPIC_DELETION_DISABLED
        disabled = [DeletableTopicResult(name=name, topic_id=topic_id, error_code=code) for name, topic_id in times]
        return Decision(DeleteTopicsResponse(responses=disabled))
    results: list[DeletableTopicResult] = []
    records: list[Message] = []
    by_id = {topic_id for name, topic_id in times if name is None}
    by_name = {head.topics.by_name[name].id for name, _ in times if name is not None and name in head.topics.by_name}
    for (name, topic_id), count in times.items():
        try:
            _check_asked(name, topic_id, count)
            topic = _find(head, name, topic_id, authorize)
            if topic.id in by_id and topic.id in by_name:
                raise KafkaError(
                    Code.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
                )
        except KafkaError as error:
            results.append(
                DeletableTopicResult(
                    name=name, topic_id=topic_id, error_code=error.code, error_message=error_message(error)
                )
            )
        else:
            results.append(DeletableTopicResult(name=topic.name, topic_id=topic.id))
            records.append(RemoveTopicRecord(topic_id=topic.id))
    return Decision(DeleteTopicsResponse(responses=results), records)


def in_pieces(head: MetadataImage, request: DeleteTopicsRequest) -> list[DeleteTopicsRequest]:
    """Splits a request; each part is decided by itself, in a turn of its own. Entries for the same topic stay together,
    to be refused."""
    together: dict[Uuid | str, list[DeleteTopicState]] = {}
    for name, topic_id in _asked(request):
        known = None if name is None else head.topics.by_name.get(name)
        key = known.id if known is not None else topic_id if name is None else name
        together.setdefault(key, []).append(DeleteTopicState(name=name, topic_id=topic_id))
    return [
        DeleteTopicsRequest(topics=[state for states in piece for state in states], timeout_ms=request.timeout_ms)
        for piece in pieces_of(together.values(), _TOPICS_PER_PIECE)
    ] or [request]


def _asked(request: DeleteTopicsRequest) -> Iterator[Asked]:
    """Versions before 6 have a list of names only."""
    for name in request.topic_names:
        yield name, ZERO_UUID
    for topic in request.topics:
        yield topic.name, topic.topic_id


def _check_asked(name: str | None, topic_id: Uuid, count: int) -> None:
    if name is None and topic_id == ZERO_UUID:
        raise KafkaError(Code.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(Code.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if count > 1:
        raise KafkaError(Code.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")


def _find(head: MetadataImage, name: str | None, topic_id: Uuid, authorize: Authorize) -> TopicImage:
    """Raises KafkaError. A client that may not describe a topic must not learn from its name whether it exists."""
    if name is not None and not authorize("Describe", "Topic", name):
        raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
    topic = head.topics.by_id.get(topic_id) if name is None else head.topics.by_name.get(name)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_ID if name is None else Code.UNKNOWN_TOPIC_OR_PARTITION)
    if not authorize("Delete", "Topic", topic.name):
        raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
    return topic
