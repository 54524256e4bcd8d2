"""Kafka's error codes in one table, and the exception that carries one to where a response is written."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self

_RETRIABLE: Final = True


class Code(IntEnum):
    """An error code of the protocol: name in Kafka, meaning, and whether the same request may be tried again."""

    description: str
    retriable: bool

    def __new__(cls, code: int, description: str, retriable: bool = False) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.description = description
        member.retriable = retriable
        return member

    UNKNOWN_SERVER_ERROR = -1, "the server met an error that it did not expect"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the offset lies outside the log of this replica"
    CORRUPT_MESSAGE = 2, "the records fail their checksum or are otherwise damaged", _RETRIABLE
    UNKNOWN_TOPIC_OR_PARTITION = 3, "this broker knows no such topic or partition", _RETRIABLE
    INVALID_FETCH_SIZE = 4, "the fetch size is not positive"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader now", _RETRIABLE
    NOT_LEADER_OR_FOLLOWER = 6, "this broker is not the leader, or not a replica, of the partition", _RETRIABLE
    REQUEST_TIMED_OUT = 7, "the request was not completed within its time", _RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "the broker is not reachable"
    REPLICA_NOT_AVAILABLE = 9, "the broker does not hold a usable replica of the partition", _RETRIABLE
    MESSAGE_TOO_LARGE = 10, "the record batch is larger than the broker accepts"
    STALE_CONTROLLER_EPOCH = 11, "the controller has moved to a newer epoch"
    OFFSET_METADATA_TOO_LARGE = 12, "the metadata string of an offset commit is too long"
    NETWORK_EXCEPTION = 13, "the connection ended before the answer came", _RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still reading its partition", _RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, "no coordinator is available", _RETRIABLE
    NOT_COORDINATOR = 16, "this broker does not coordinate that group or transaction", _RETRIABLE
    INVALID_TOPIC_EXCEPTION = 17, "the topic name is not legal"
    RECORD_LIST_TOO_LARGE = 18, "the batch would not fit into one segment"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than min.insync.replicas asks for", _RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "the records were appended, but too few replicas stayed in sync", _RETRIABLE
    INVALID_REQUIRED_ACKS = 21, "acks is none of -1, 0 and 1"
    ILLEGAL_GENERATION = 22, "the member speaks for an older generation of its group"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member shares no protocol with the rest of its group"
    INVALID_GROUP_ID = 24, "the group id is not legal"
    UNKNOWN_MEMBER_ID = 25, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout is outside the broker's limits"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing, so the member must rejoin"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the offset commit is too large to be stored"
    TOPIC_AUTHORIZATION_FAILED = 29, "not allowed on this topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not allowed on this group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not allowed on the cluster"
    INVALID_TIMESTAMP = 32, "the timestamp of a record is outside the allowed range"
    UNSUPPORTED_SASL_MECHANISM = 33, "the SASL mechanism is not enabled here"
    ILLEGAL_SASL_STATE = 34, "the request does not fit the state of the SASL exchange"
    UNSUPPORTED_VERSION = 35, "the broker does not handle this version of the request"
    TOPIC_ALREADY_EXISTS = 36, "a topic of this name exists"
    INVALID_PARTITIONS = 37, "the number of partitions is not legal"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is not positive or exceeds the brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, "the replica assignment is not legal"
    INVALID_CONFIG = 40, "a configuration is not legal"
    NOT_CONTROLLER = 41, "this node is not the active controller", _RETRIABLE
    INVALID_REQUEST = 42, "the request contradicts itself or the protocol"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the message format on the broker cannot carry this"
    POLICY_VIOLATION = 44, "the request violates a policy of the cluster"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "the sequence number does not follow the producer's last one"
    DUPLICATE_SEQUENCE_NUMBER = 46, "the batch was appended before"
    INVALID_PRODUCER_EPOCH = 47, "the producer's epoch is older than the known one"
    INVALID_TXN_STATE = 48, "the transaction is not in a state that allows this"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id is not the one assigned to the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout exceeds the broker's limit"
    CONCURRENT_TRANSACTIONS = 51, "another operation on the transaction is under way", _RETRIABLE
    TRANSACTION_COORDINATOR_FENCED = 52, "the transaction coordinator has been replaced by a newer one"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not allowed on this transactional id"
    SECURITY_DISABLED = 54, "security is switched off"
    OPERATION_NOT_ATTEMPTED = 55, "not attempted, because something before it failed"
    KAFKA_STORAGE_ERROR = 56, "the disk under the log failed or is full", _RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, "the credentials were refused"
    UNKNOWN_PRODUCER_ID = 59, "the broker holds no state of this producer"
    REASSIGNMENT_IN_PROGRESS = 60, "the partition is being reassigned"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are switched off"
    DELEGATION_TOKEN_NOT_FOUND = 62, "there is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the token belongs to another principal"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "tokens cannot be requested over this connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not allowed on this delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "the principal type is not supported"
    NON_EMPTY_GROUP = 68, "the group has members"
    GROUP_ID_NOT_FOUND = 69, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, "the broker knows no such fetch session", _RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, "the request does not follow the last one of its fetch session", _RETRIABLE
    LISTENER_NOT_FOUND = 72, "the leader has no listener of the name that was asked through", _RETRIABLE
    TOPIC_DELETION_DISABLED = 73, "topics cannot be deleted here"
    FENCED_LEADER_EPOCH = 74, "the leader epoch of the request is older than the broker's", _RETRIABLE
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch of the request is newer than the broker's", _RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = 76, "the compression codec cannot be used here"
    STALE_BROKER_EPOCH = 77, "the broker's registration has been replaced"
    OFFSET_NOT_AVAILABLE = 78, "the leader cannot name a valid offset yet", _RETRIABLE
    MEMBER_ID_REQUIRED = 79, "the member must join again with the id it was given"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader cannot lead now", _RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "the group is full"
    FENCED_INSTANCE_ID = 82, "another member uses this instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica that may lead is available", _RETRIABLE
    ELECTION_NOT_NEEDED = 84, "the partition already has the leader asked for", _RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "the partition is not being reassigned"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group reads the topic that the offsets belong to"
    INVALID_RECORD = 87, "a record of the batch is not legal"
    UNSTABLE_OFFSET_COMMIT = 88, "offsets of an open transaction are still undecided", _RETRIABLE
    THROTTLING_QUOTA_EXCEEDED = 89, "a quota is used up", _RETRIABLE
    PRODUCER_FENCED = 90, "a newer producer has taken over the transactional id"
    RESOURCE_NOT_FOUND = 91, "there is no such resource"
    DUPLICATE_RESOURCE = 92, "the request names a resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential does not meet the requirements"
    INCONSISTENT_VOTER_SET = 94, "the voters of the request are not this quorum's"
    INVALID_UPDATE_VERSION = 95, "the update is based on another version"
    FEATURE_UPDATE_FAILED = 96, "the features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the forwarded principal could not be read"
    SNAPSHOT_NOT_FOUND = 98, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, "the position lies outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, "this broker knows no topic of this id", _RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "a live broker is registered with this id"
    BROKER_ID_NOT_REGISTERED = 102, "no broker is registered with this id"
    INCONSISTENT_TOPIC_ID = 103, "the topic id in the log is another one", _RETRIABLE
    INCONSISTENT_CLUSTER_ID = 104, "the request is meant for another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "a fetch session mixes topic names and topic ids", _RETRIABLE
    INELIGIBLE_REPLICA = 107, "a replica proposed for the ISR may not join it"
    NEW_LEADER_ELECTED = 108, "the change was accepted and elected another leader"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset is only in remote storage"
    FENCED_MEMBER_EPOCH = 110, "the member's epoch has been passed by the coordinator"
    UNRELEASED_INSTANCE_ID = 111, "the instance id is still held by its last member"
    UNSUPPORTED_ASSIGNOR = 112, "the assignor is not supported by the group"
    STALE_MEMBER_EPOCH = 113, "the member's epoch is not the current one"
    MISMATCHED_ENDPOINT_TYPE = 114, "the request reached a listener of the other kind"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "this kind of endpoint is not known"
    UNKNOWN_CONTROLLER_ID = 116, "there is no such controller"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription is not the client's current one"
    TELEMETRY_TOO_LARGE = 118, "the telemetry exceeds the broker's limit"
    INVALID_REGISTRATION = 119, "the registration is not legal"
    TRANSACTION_ABORTABLE = 120, "the transaction failed and can only be aborted"
    INVALID_RECORD_STATE = 121, "the record is not in a state that allows this acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, "the broker knows no such share session", _RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = 123, "the request does not follow the last one of its share session", _RETRIABLE
    FENCED_STATE_EPOCH = 124, "the share partition's state epoch is older than the coordinator's"
    INVALID_VOTER_KEY = 125, "the voter's id or directory id is not the expected one"
    DUPLICATE_VOTER = 126, "the voter is in the quorum"
    VOTER_NOT_FOUND = 127, "the voter is not in the quorum"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression is not legal"
    REBOOTSTRAP_REQUIRED = 129, "the client must begin anew from its bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, "the streams topology is not legal"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the streams topology epoch is not legal"
    STREAMS_TOPOLOGY_FENCED = 132, "the streams topology epoch has been passed"
    SHARE_SESSION_LIMIT_REACHED = 133, "the broker has no room for another share session", _RETRIABLE


class KafkaError(Exception):
    """A fault that the protocol has a code for; the message defaults to what the code means."""

    def __init__(self, code: Code, message: str | None = None) -> None:
        super().__init__(message or code.description)
        self.code = code

    @property
    def message(self) -> str:
        return str(self.args[0])

    def __repr__(self) -> str:
        return f"KafkaError({self.code.name}, {self.message!r})"


def is_retriable(code: int) -> bool:
    """Whether the same request may succeed later; a code that is not in the table may not."""
    return code in _BY_NUMBER and _BY_NUMBER[code].retriable


def code_of(number: int) -> Code:
    """The code of this number; one from a newer Kafka counts as UNKNOWN_SERVER_ERROR, as in Kafka's own clients."""
    return _BY_NUMBER.get(number, Code.UNKNOWN_SERVER_ERROR)


_BY_NUMBER: Final[dict[int, Code]] = {int(code): code for code in Code}
