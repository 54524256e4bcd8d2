"""Fetch (1): begins or resumes the reader's session, and reads from each partition's offset (`waiting_fetch`).

v4 isolation levels, v7 sessions (KIP-227), v11 the reader's rack, v12 leader epochs and divergence, v13 topics by id,
v15 the replica in a tagged field, v16 leader hints (KIP-951), v17 directories, v18 the reader's high watermark.
"""

from __future__ import annotations

from collections.abc import Iterator

from highwater.broker.broker import Broker
from highwater.broker.waiting_fetch import AT_ONCE, PER_PIECE, WaitingFetch, refuse
from highwater.errors import Code, KafkaError
from highwater.model import NodeId
from highwater.net.context import RequestContext
from highwater.net.registry import MOST_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.partition.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, FetchSession
from highwater.wire import fetch
from highwater.wire.fetch import FetchRequestFlat
from highwater.wire.messages.fetch_request import FetchRequest

API = Api(
    1,
    (4, 18),
    FetchRequest,
    decode=fetch.decode_request,
    most_elements=MOST_ELEMENTS,
    refuse=fetch.refused,
    exempt=fetch.is_of_replica,
)
_BY_ID_FROM = 13
_SESSIONS_FROM = 7
_FOLLOWERS_FROM = 15
"""Older versions lack the follower's broker epoch. The fetches of one incarnation would count for the next one."""


def handle(broker: Broker, ctx: RequestContext, request: FetchRequestFlat) -> Work | None:
    if request.replica_id >= 0 and not ctx.authorize("ClusterAction", "Cluster", "kafka-cluster"):
        refuse(ctx, Code.CLUSTER_AUTHORIZATION_FAILED)
        return None
    if request.replica_id >= 0 and (ctx.version < _FOLLOWERS_FROM or request.replica_epoch < 0):
        refuse(ctx, Code.UNSUPPORTED_VERSION)
        return None
    try:
        session, full = _session(broker, ctx, request)
    except KafkaError as refused:
        refuse(ctx, refused.code)
        return None
    fetching = WaitingFetch(broker, ctx, request, session, full)
    updates = _updated(session, request)
    partitions = sum([len(named) for _, named in request.topics])
    if partitions > AT_ONCE:
        if not broker.sessions.admit(session, partitions):
            refuse(ctx, Code.NONE)
            return None
        return fetching.after(updates)
    try:
        for _ in updates:
            """They are few."""
    except KafkaError as refused:
        fetching.refuse(refused.code)
        return None
    fetching.begin()
    return None


def _updated(session: FetchSession, request: FetchRequestFlat) -> Iterator[None]:
    for topic, partitions in request.topics:
        for index, epoch, offset, last_fetched_epoch, log_start, max_bytes, _directory, _high_watermark in partitions:
            session.update(topic, index, epoch, offset, last_fetched_epoch, log_start, max_bytes)
            if len(session.dirty) % PER_PIECE == 0:
                yield
    for topic, indexes in request.forgotten:
        session.forget(topic, indexes)
        yield


def _session(broker: Broker, ctx: RequestContext, request: FetchRequestFlat) -> tuple[FetchSession, bool]:
    """The session of the fetch, and whether the response must name all partitions."""
    by_id = ctx.version >= _BY_ID_FROM
    now = broker.world.clock.monotonic()
    if request.session_epoch == FINAL_EPOCH or ctx.version < _SESSIONS_FROM:
        broker.sessions.remove_id(request.session_id)
        return FetchSession(0, by_id, False, now), True
    if request.session_epoch == INITIAL_EPOCH:
        broker.sessions.remove_id(request.session_id)
        if not request.topics:
            return FetchSession(0, by_id, False, now), True
        return _begun(broker, ctx, request, by_id), True
    return broker.sessions.resume(request.session_id, request.session_epoch, by_id, now), False


def _begun(broker: Broker, ctx: RequestContext, request: FetchRequestFlat, by_id: bool) -> FetchSession:
    """Begins a session. It ends with its connection: a client that comes back begins a new one."""
    partitions = sum(len(named) for _, named in request.topics)
    session = broker.sessions.create(by_id, request.replica_id >= 0, broker.world.clock.monotonic(), partitions)
    connection, replica = ctx.connection, request.replica_id

    def lost() -> None:
        # A doubt about a broker that nobody knows would be kept for ever.
        if broker.metadata.image.brokers.get(NodeId(replica)) is not None:
            broker.doubts.cast(NodeId(replica))
        broker.sessions.end_with(connection)

    if broker.sessions.tie(session, connection):
        connection.on_close(lost)
    return session
