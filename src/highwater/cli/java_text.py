"""Apache's tools print the class name of a Java exception in the line. So do ours."""

from __future__ import annotations

from highwater.errors import Code, KafkaError

_PACKAGE = "org.apache.kafka.common.errors."

_IRREGULAR = {
    Code.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    Code.CORRUPT_MESSAGE: "CorruptRecordException",
    Code.REQUEST_TIMED_OUT: "TimeoutException",
    Code.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    Code.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    Code.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    Code.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    Code.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    Code.GROUP_SUBSCRIBED_TO_TOPIC: "GroupSubscribedToTopicException",
    Code.NETWORK_EXCEPTION: "NetworkException",
    Code.NON_EMPTY_GROUP: "GroupNotEmptyException",
    Code.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    Code.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    Code.INVALID_CONFIG: "InvalidConfigurationException",
    Code.KAFKA_STORAGE_ERROR: "KafkaStorageException",
}

_WORDING = {
    Code.OFFSET_OUT_OF_RANGE: "The requested offset is not within the range of offsets maintained by the server.",
    Code.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    Code.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    Code.GROUP_SUBSCRIBED_TO_TOPIC: "Deleting offsets of a topic is forbidden while the consumer group is actively "
    "subscribed to it.",
    Code.INVALID_GROUP_ID: "The configured groupId is invalid.",
    Code.NON_EMPTY_GROUP: "The group is not empty.",
    Code.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
    Code.POLICY_VIOLATION: "Request parameters do not satisfy the configured policy.",
}
"""The class names that scripts expect, if the response has a code but no text."""


def plain_text(error: KafkaError) -> str:
    """The message alone, as Throwable.getMessage gives it."""
    return error.message if error.message != error.code.description else _WORDING.get(error.code, error.message)


def exception_text(error: KafkaError) -> str:
    """`class: message`, as Throwable.toString gives it."""
    name = _IRREGULAR.get(error.code)
    if name is None:
        name = "".join(word.capitalize() for word in error.code.name.split("_")) + "Exception"
    return f"{_PACKAGE}{name}: {plain_text(error)}"
