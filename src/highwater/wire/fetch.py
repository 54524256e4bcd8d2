"""Fetch without a class for each partition: requests decode to flat tuples, and responses are encoded as parts with the
records between them."""

from __future__ import annotations

from collections.abc import Generator, Sequence, Sized
from struct import Struct as Layout
from typing import Final, NamedTuple, TypeVar

from highwater.errors import Code
from highwater.model import ZERO_UUID, Uuid
from highwater.wire import flat
from highwater.wire.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from highwater.wire.reader import (
    MOST_OBJECTS,
    FlexibleReader,
    Malformed,
    Reader,
    object_budget,
)
from highwater.wire.writer import FlexibleWriter, Writer

LOG_START: Final = 5
SESSIONS: Final = 7
LEADER_EPOCHS: Final = 9
RACKS: Final = 11
FLEXIBLE: Final = 12
TOPIC_IDS: Final = 13
REPLICA_STATE: Final = 15
LEADER_HINTS: Final = 16
DIRECTORY_IDS: Final = 17
HIGH_WATERMARKS: Final = 18

UNSAID_HIGH_WATERMARK: Final = (1 << 63) - 1
"""Stands for the high watermark that a replica knows, if the request does not say it."""

_limits = Layout(">iiiib")
_limits_and_session = Layout(">iiibii")
_session = Layout(">ii")
_row = Layout(">iiqiqi")
_row_v4 = Layout(">iqi")
_row_v5 = Layout(">iqqi")
_row_v9 = Layout(">iiqqi")
_replica_state = Layout(">iq")
_error_session = Layout(">hi")
_offsets = Layout(">ihqq")
_aborted = Layout(">qq")
_tagged_divergence = Layout(">bbiqb")
_tagged_snapshot = Layout(">bbqib")
_ROWS_PER_TURN: Final = 100
_UNTAGGED: Final = (ZERO_UUID, UNSAID_HIGH_WATERMARK)

FetchPartition = tuple[int, int, int, int, int, int, Uuid, int]
"""(partition, current leader epoch, fetch offset, last fetched epoch, log start, max bytes, directory id,
high watermark)"""

P = TypeVar("P", bound=Sized)

PartitionRow = tuple[
    int,
    int,
    int,
    int,
    int,
    Sequence[tuple[int, int]] | None,
    int,
    Sequence[P] | None,
    tuple[int, int] | None,
    tuple[int, int] | None,
    tuple[int, int] | None,
]
"""(partition, error, high watermark, last stable offset, log start, (producer id, first offset) of each aborted
transaction, preferred read replica, parts of the records, diverging (epoch, end offset), current leader (id, epoch),
snapshot (end offset, epoch))"""

Topics = list[tuple[str | Uuid, list[FetchPartition]]]
Forgotten = list[tuple[str | Uuid, list[int]]]


class FetchRequestFlat(NamedTuple):
    cluster_id: str | None
    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: Topics
    """Topics are named by name up to version 12, and by id from version 13 on."""
    forgotten: Forgotten
    rack_id: str


def decode_request(data: memoryview | bytes | bytearray, version: int, most: int = MOST_OBJECTS) -> FetchRequestFlat:
    """Versions 4 to 18. Raises Malformed, and TooMany beyond `most` elements; unknown tags are dropped."""
    if version < FLEXIBLE:
        return _decode_classic(Reader(data, 0, most), version)
    try:
        return _decode_flexible(memoryview(data), version, most)
    except flat.ENDED:
        raise Malformed("the request ends within a value") from None


def _decode_classic(r: Reader, version: int) -> FetchRequestFlat:
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = r.unpack(_limits)
    session_id, session_epoch = r.unpack(_session) if version >= SESSIONS else (0, -1)
    size = 28 if version >= LEADER_EPOCHS else 24 if version >= LOG_START else 16
    topics: Topics = [
        (r.string(), [_classic_partition(r, version) for _ in range(r.count(size))]) for _ in range(r.count(6))
    ]
    forgotten: Forgotten = []
    if version >= SESSIONS:
        forgotten = [(r.string(), r.integers(r.count(4, 0), 4)) for _ in range(r.count(6))]
    rack_id = r.string() if version >= RACKS else ""
    limits = (max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch)
    return FetchRequestFlat(None, replica_id, -1, *limits, topics, forgotten, rack_id)


def _classic_partition(r: Reader, version: int) -> FetchPartition:
    epoch = log_start = -1
    if version >= LEADER_EPOCHS:
        partition, epoch, offset, log_start, max_bytes = r.unpack(_row_v9)
    elif version >= LOG_START:
        partition, offset, log_start, max_bytes = r.unpack(_row_v5)
    else:
        partition, offset, max_bytes = r.unpack(_row_v4)
    return partition, epoch, offset, -1, log_start, max_bytes, *_UNTAGGED


def _decode_flexible(data: memoryview, version: int, most: int) -> FetchRequestFlat:
    pos = 0
    replica_id = replica_epoch = -1
    if version < REPLICA_STATE:
        replica_id = int.from_bytes(data[:4], "big", signed=True)
        pos = 4
    limits: tuple[int, int, int, int, int, int]
    limits = _limits_and_session.unpack_from(data, pos)
    topics, pos, budget = _topics(data, pos + 21, version, most)
    forgotten, pos, budget = _forgotten(data, pos, version, budget)
    rack_id, pos = ("", pos + 1) if data[pos] == 1 else flat.string(data, pos)
    cluster_id = None
    if data[pos]:
        r = FlexibleReader(data, pos)
        r.budget = budget
        for _ in range(r.tag_count()):
            tag, size = r.uvarint(), r.uvarint()
            if tag == 0:
                cluster_id = r.nullable_string()
            elif tag == 1:
                if version < REPLICA_STATE:
                    raise Malformed(f"tag 1 in version {version}")
                replica_id, replica_epoch = r.unpack(_replica_state)
                r.skip_tags()
            else:
                r.view(size)
    return FetchRequestFlat(cluster_id, replica_id, replica_epoch, *limits, topics, forgotten, rack_id)


def _topic(data: memoryview, pos: int, version: int) -> tuple[str | Uuid, int]:
    if version >= TOPIC_IDS:
        return Uuid(bytes(data[pos : pos + 16])), pos + 16
    return flat.string(data, pos)


def _topics(data: memoryview, pos: int, version: int, most: int) -> tuple[Topics, int, int]:
    """The topics, the position after them, and what is left of the budget of objects."""
    count, pos = flat.count(data, pos, 18 if version >= TOPIC_IDS else 3)
    budget = flat.charge(object_budget(len(data), most), count)
    topics: Topics = []
    for _ in range(count):
        topic, pos = _topic(data, pos, version)
        partition_count, pos = flat.count(data, pos, 33)
        budget = flat.charge(budget, partition_count)
        partitions: list[FetchPartition] = []
        for _ in range(partition_count):
            row = _row.unpack_from(data, pos)
            pos += 32
            if data[pos] == 0:
                partitions.append(row + _UNTAGGED)
                pos += 1
            else:
                tagged, pos, budget = _partition_tags(data, pos, version, budget)
                partitions.append(row + tagged)
        topics.append((topic, partitions))
        pos, budget = flat.skip_tags(data, pos, budget)
    return topics, pos, budget


def _partition_tags(data: memoryview, pos: int, version: int, budget: int) -> tuple[tuple[Uuid, int], int, int]:
    directory_id, high_watermark = _UNTAGGED
    r = FlexibleReader(data, pos)
    r.budget = budget
    for _ in range(r.tag_count()):
        tag, size = r.uvarint(), r.uvarint()
        if tag == 0 and version >= DIRECTORY_IDS:
            directory_id = r.uuid()
        elif tag == 1 and version >= HIGH_WATERMARKS:
            high_watermark = r.int64()
        elif tag <= 1:
            raise Malformed(f"tag {tag} in version {version}")
        else:
            r.view(size)
    return (directory_id, high_watermark), r.pos, r.budget


def _forgotten(data: memoryview, pos: int, version: int, budget: int) -> tuple[Forgotten, int, int]:
    count, pos = flat.count(data, pos, 18 if version >= TOPIC_IDS else 3)
    budget = flat.charge(budget, count)
    forgotten: Forgotten = []
    for _ in range(count):
        topic, pos = _topic(data, pos, version)
        r = FlexibleReader(data, pos)
        r.budget = budget
        forgotten.append((topic, r.integers(r.count(4, 0), 4)))
        pos, budget = flat.skip_tags(data, r.pos, r.budget)
    return forgotten, pos, budget


def is_of_replica(request: FetchRequestFlat) -> bool:
    """Followers use the same API as consumers."""
    return request.replica_id >= 0


def refused(request: FetchRequestFlat, code: Code, version: int) -> FetchResponse:
    """The response with only an error. A fetch of a session names only changed partitions. If it names none, the error
    at the top level is the whole response."""
    return FetchResponse(
        error_code=Code.NONE if request.topics else code,
        responses=[
            FetchableTopicResponse(
                topic=topic if isinstance(topic, str) else "",
                topic_id=ZERO_UUID if isinstance(topic, str) else topic,
                partitions=[
                    PartitionData(
                        partition_index=partition[0],
                        error_code=code,
                        high_watermark=-1,
                        aborted_transactions=None,
                        records=None,
                    )
                    for partition in partitions
                ],
            )
            for topic, partitions in request.topics
        ],
    )


def encode_response(
    version: int,
    throttle_ms: int,
    error: int,
    session_id: int,
    topics: Sequence[tuple[str | Uuid, Sequence[PartitionRow[P]]]],
    node_endpoints: Sequence[flat.NodeEndpoint] = (),
) -> list[bytearray | P]:
    """Versions 4 to 18: the encoded bytes, with the parts of the records unchanged between them.

    Hints (where the leader is, which replica to read from) are left out of versions that cannot carry them.
    """
    steps = encode_by_turns(version, throttle_ms, error, session_id, topics, node_endpoints)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            encoded: list[bytearray | P] = end.value
            return encoded


def encode_by_turns(
    version: int,
    throttle_ms: int,
    error: int,
    session_id: int,
    topics: Sequence[tuple[str | Uuid, Sequence[PartitionRow[P]]]],
    node_endpoints: Sequence[flat.NodeEndpoint] = (),
) -> Generator[None, None, list[bytearray | P]]:
    """As `encode_response`, for a response that may have very many partitions: it pauses now and then."""
    parts: list[bytearray | P] = []
    w = FlexibleWriter() if version >= FLEXIBLE else Writer()
    w.int32(throttle_ms)
    if version >= SESSIONS:
        w.buffer += _error_session.pack(error, session_id)
    w.count(len(topics))
    for topic, rows in topics:
        flat.write_topic(w, topic)
        w.count(len(rows))
        for at, row in enumerate(rows, 1):
            _write_row(w, version, row, parts)
            if not at % _ROWS_PER_TURN:
                yield
        w.tags(())
    w.tags((), flat.endpoint_tag(node_endpoints) if version >= LEADER_HINTS else ())
    parts.append(w.buffer)
    return parts


def _write_row(w: Writer, version: int, row: PartitionRow[P], parts: list[bytearray | P]) -> None:
    partition, error, high_watermark, last_stable, log_start, aborted, preferred, records, *tagged = row
    w.buffer += _offsets.pack(partition, error, high_watermark, last_stable)
    if version >= LOG_START:
        w.int64(log_start)
    w.count(-1 if aborted is None else len(aborted))
    for producer_id, first_offset in aborted or ():
        w.buffer += _aborted.pack(producer_id, first_offset)
        w.tags(())
    if version >= RACKS:
        w.int32(preferred)
    w.count(-1 if records is None else sum(map(len, records)))
    if records:
        parts.append(w.buffer)
        parts.extend(records)
        w.buffer = bytearray()
    if version >= FLEXIBLE:
        w.buffer += _row_tags(*tagged)


def _row_tags(
    diverging: tuple[int, int] | None, leader: tuple[int, int] | None, snapshot: tuple[int, int] | None
) -> bytes:
    if diverging is None and leader is None and snapshot is None:
        return b"\0"
    fields = []
    if diverging is not None:
        fields.append(_tagged_divergence.pack(0, 13, *diverging, 0))
    if leader is not None:
        fields.append(flat.leader_tag(1, leader))
    if snapshot is not None:
        fields.append(_tagged_snapshot.pack(2, 13, *snapshot, 0))
    return bytes([len(fields)]) + b"".join(fields)
