"""Scenario B19 and its neighbours: consumers that read from a follower in their rack (KIP-392). Brokers n1, n2 and n3
are in the racks r1, r2 and r3."""

from __future__ import annotations

from typing import Any

from highwater.config import RACK_AWARE_SELECTOR
from highwater.errors import Code
from highwater.model import NodeId, TopicPartition
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from highwater.wire.messages.fetch_response import FetchResponse, PartitionData
from tests.scenarios.pair import in_step, lead
from tests.scenarios.stage import ORDERS, Stage
from tests.scenarios.visitor import FETCH_BYTES, Fetched

LONG_MS = 10_000
NO_RACK_VERSION = 10


def racked(size: int = 3, **settings: Any) -> Stage:
    return Stage(size, broker_rack="r{id}", replica_selector_class=RACK_AWARE_SELECTOR, **settings)


def fetch(stage: Stage, node: str, offset: int, rack: str = "r3", **more: Any) -> Fetched:
    return stage.run(stage.client.fetch(node, offset, rack=rack, **more))


def known_isr(stage: Stage, name: str) -> tuple[NodeId, ...]:
    """The ISR in the metadata that this node has applied."""
    broker = stage.node(name).broker
    image = None if broker is None else broker.metadata.partition_image(ORDERS.topic, 0)
    return () if image is None else image.isr


def prepare(stage: Stage, *values: bytes, **configs: object) -> None:
    """ORDERS on n2, which leads, and n3: both have the values, and n3 knows that they are committed."""
    stage.create(replicas=(2, 3), **configs)
    stage.send(*values)
    stage.until(lambda: in_step(stage) and stage.log("n3").high_watermark == len(values))


async def in_session(
    stage: Stage, node: str, session: int, turn: int, wanted: dict[int, int], wait_ms: int = LONG_MS
) -> tuple[int, list[PartitionData]]:
    """One fetch of a session of a consumer in r3: `wanted` has the offsets of the partitions that it names."""
    rows = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        for index, offset in wanted.items()
    ]
    topic = stage.truth.topics.by_name[ORDERS.topic].id
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        session_id=session,
        session_epoch=turn,
        topics=[FetchTopic(topic_id=topic, partitions=rows)] if rows else [],
        rack_id="r3",
    )
    answer = await stage.client.ask(node, request, FetchResponse)
    assert answer.error_code == Code.NONE
    return answer.session_id, [row for each in answer.responses for row in each.partitions]


def test_a_leader_sends_a_consumer_to_the_follower_in_its_rack_at_once_and_without_records() -> None:
    with racked() as stage:
        prepare(stage, b"m1", b"m2")
        began = stage.now
        sent = fetch(stage, "n2", 0, wait_ms=LONG_MS)
        assert (sent.code, sent.preferred, sent.values, sent.high_watermark) == (Code.NONE, 3, [], 2)
        assert fetch(stage, "n2", 2, wait_ms=LONG_MS).preferred == 3, "also where there is nothing to read yet"
        assert stage.now < began + 1.0
        assert fetch(stage, "n3", 0) == Fetched(Code.NONE, [b"m1", b"m2"], 2, 0, None)


def test_a_leader_serves_consumers_of_its_own_rack_of_an_unknown_rack_and_without_a_rack() -> None:
    with racked() as stage:
        prepare(stage, b"m1")
        for rack in ("r2", "r9", "r1", ""):
            assert fetch(stage, "n2", 0, rack) == Fetched(Code.NONE, [b"m1"], 1, 0, None), rack
        old = fetch(stage, "n2", 0, highest=NO_RACK_VERSION)
        assert (old.values, old.preferred) == ([b"m1"], -1)


def test_a_leader_without_the_selector_serves_every_consumer_itself() -> None:
    with Stage(broker_rack="r{id}") as stage:
        prepare(stage, b"m1")
        assert fetch(stage, "n2", 0).values == [b"m1"]


def test_a_follower_refuses_consumers_without_a_rack_and_those_of_older_versions() -> None:
    with racked() as stage:
        prepare(stage, b"m1")
        assert fetch(stage, "n3", 0, rack="").code is Code.NOT_LEADER_OR_FOLLOWER
        assert fetch(stage, "n3", 0, highest=NO_RACK_VERSION).code is Code.NOT_LEADER_OR_FOLLOWER
        assert fetch(stage, "n3", 0, rack="r1").values == [b"m1"], "any rack does: the leader has chosen"


def test_a_follower_checks_the_leader_epoch_of_a_consumer() -> None:
    with racked() as stage:
        prepare(stage, b"m1")
        epoch = stage.image().leader_epoch
        assert fetch(stage, "n3", 0, epoch=epoch).values == [b"m1"]
        assert fetch(stage, "n3", 0, epoch=epoch + 1).code is Code.UNKNOWN_LEADER_EPOCH
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n3")
        stage.start("n2")
        stage.until(lambda: in_step(stage) and len(known_isr(stage, "n2")) == 2)
        assert fetch(stage, "n2", 0, rack="r2", epoch=epoch).code is Code.FENCED_LEADER_EPOCH


def test_a_follower_serves_up_to_its_own_high_watermark_and_refuses_offsets_beyond_its_own_end() -> None:
    """n3 has m2, but the answer that says that it is committed does not reach n3."""
    with racked(replica_lag_time_max_ms=60_000) as stage:
        prepare(stage, b"m1")
        stage.write("n2", b"m2", acks=1)
        stage.until(lambda: stage.log("n3").log_end == 2)
        stage.cut("n2", "n3", one_way=True)
        stage.until(lambda: stage.log("n2").high_watermark == 2)
        assert stage.log("n3").high_watermark == 1
        assert fetch(stage, "n3", 0).values == [b"m1"]
        assert fetch(stage, "n3", 1) == Fetched(Code.NONE, [], 1, 0, None)
        assert fetch(stage, "n3", 2).code is Code.NONE, "its log holds the offset"
        assert fetch(stage, "n3", 3) == Fetched(Code.OFFSET_OUT_OF_RANGE, [], 1, 0, None)


def test_a_read_committed_consumer_reads_a_follower_up_to_its_last_stable_offset() -> None:
    with racked() as stage:
        prepare(stage, b"m1")
        assert fetch(stage, "n3", 0, committed_only=True).values == [b"m1"]
        stage.log("n3").producers.first_unstable = lambda _: 0  # type: ignore[method-assign]
        assert fetch(stage, "n3", 0, committed_only=True) == Fetched(Code.NONE, [], 1, 0, None)
        assert fetch(stage, "n3", 0).values == [b"m1"], "others read up to the high watermark"


def test_list_offsets_and_offset_for_leader_epoch_stay_with_the_leader() -> None:
    with racked() as stage:
        prepare(stage, b"m1")
        assert stage.run(stage.client.list_offset("n3")).code is Code.NOT_LEADER_OR_FOLLOWER
        assert stage.run(stage.client.epoch_end("n3", 0)).code is Code.NOT_LEADER_OR_FOLLOWER


def test_a_consumer_that_waits_at_a_follower_is_answered_when_the_followers_high_watermark_moves() -> None:
    with racked() as stage:
        prepare(stage, b"m1")
        waiting = stage.begin(stage.client.fetch("n3", 1, rack="r3", wait_ms=LONG_MS))
        stage.pass_time(1.0)
        assert not waiting.done
        stage.send(b"m2")
        stage.until(lambda: waiting.done, seconds=2.0)
        assert waiting.result is not None and waiting.result.values == [b"m2"]


def test_the_preferred_replica_is_news_in_a_session_again_and_again() -> None:
    with racked() as stage:
        prepare(stage, b"m1")
        session, rows = stage.run(in_session(stage, "n2", 0, 0, {0: 1}))
        assert [row.preferred_read_replica for row in rows] == [3]
        for turn in (1, 2):
            _, rows = stage.run(in_session(stage, "n2", session, turn, {}))
            assert [row.preferred_read_replica for row in rows] == [3], "though the partition has not changed"


def test_a_session_holds_partitions_that_the_broker_leads_and_partitions_that_it_follows() -> None:
    """n3 follows partition 0 and leads partition 1."""
    with racked() as stage:
        stage.create(TopicPartition(ORDERS.topic, 1), replicas=(2, 3))
        one = TopicPartition(ORDERS.topic, 1)
        stage.send(b"zero")
        stage.send(b"one", tp=one)
        stage.kill("n2")
        stage.until(lambda: stage.leader() == stage.leader(one) == "n3")
        stage.start("n2")
        stage.until(lambda: len(stage.image().isr) == len(stage.image(one).isr) == 2)
        stage.run(stage.client.elect(0))
        stage.until(lambda: stage.leader() == "n2" and stage.partition("n3").has_leader_high_watermark)
        session, rows = stage.run(in_session(stage, "n3", 0, 0, {0: 0, 1: 0}))
        assert {row.partition_index for row in rows if row.records} == {0, 1}
        assert session != 0
        waiting = stage.begin(in_session(stage, "n3", session, 1, {0: 1, 1: 1}))
        stage.pass_time(0.5)
        stage.send(b"more")
        stage.until(lambda: waiting.done, seconds=2.0)
        assert waiting.result is not None
        assert [row.partition_index for row in waiting.result[1] if row.records] == [0]


def test_b19_a_replica_that_has_left_the_isr_is_neither_preferred_nor_served() -> None:
    """KAFKA-14372. n3 is cut off from its leader, lags and leaves the ISR. A consumer that waits at n3 gets
    NOT_LEADER_OR_FOLLOWER, which sends it back to the leader, and the leader serves it."""
    with racked() as stage:
        prepare(stage, b"m1")
        session, _ = stage.run(in_session(stage, "n3", 0, 0, {0: 1}, wait_ms=100))
        stage.cut("n2", "n3")
        stage.write("n2", b"m2")
        stage.until(lambda: stage.image().isr == (2,))
        stage.until(lambda: known_isr(stage, "n3") == (2,))
        assert fetch(stage, "n3", 1).code is Code.NOT_LEADER_OR_FOLLOWER
        _, rows = stage.run(in_session(stage, "n3", session, 1, {}))
        assert [row.error_code for row in rows] == [Code.NOT_LEADER_OR_FOLLOWER], "though nothing changed in n3"
        assert rows[0].current_leader.leader_id == 2
        assert fetch(stage, "n2", 1).values == [b"m2"]
        stage.heal()
        stage.until(lambda: len(known_isr(stage, "n3")) == 2 and stage.log("n3").high_watermark == 2)
        assert fetch(stage, "n2", 1).preferred == 3
        assert fetch(stage, "n3", 1).values == [b"m2"]


def test_b19_a_fenced_replica_that_the_leader_still_counts_as_in_sync_is_not_preferred() -> None:
    """KAFKA-15390. n3 dies and is fenced. Only unfenced brokers are considered, whatever the leader's ISR says."""
    with racked(broker_session_timeout_ms=600) as stage:
        prepare(stage, b"m1")
        stage.kill("n3")
        broker = stage.node("n2").broker
        assert broker is not None
        stage.until(lambda: not broker.metadata.image.brokers.is_active(NodeId(3)))
        assert broker.metadata.racks_through("PLAINTEXT") == {1: "r1", 2: "r2"}
        assert fetch(stage, "n2", 0).values == [b"m1"]
        stage.partition("n2").require_leader().isr = (NodeId(2), NodeId(3))
        assert fetch(stage, "n2", 0).values == [b"m1"], "though the leader counts n3 as in sync"


def test_b19_a_replica_without_contact_to_anyone_sends_its_consumers_back_after_the_longest_lag() -> None:
    """n3 is cut off from all nodes and cannot know that it has left the ISR. Its consumers reach it all the same."""
    with racked() as stage:
        prepare(stage, b"m1")
        waiting = stage.begin(stage.visitor("other").fetch("n3", 1, rack="r3", wait_ms=LONG_MS), by="other")
        stage.isolate("n3")
        assert fetch(stage, "n3", 0).values == [b"m1"], "it may be a short interruption"
        stage.pass_time(2.0)
        assert known_isr(stage, "n3") == (2, 3)
        assert fetch(stage, "n3", 0).code is Code.NOT_LEADER_OR_FOLLOWER
        assert fetch(stage, "n2", 0).values == [b"m1"], "and the leader does not send them there again"
        stage.until(lambda: waiting.done)
        assert waiting.result is not None and waiting.result.code is Code.NOT_LEADER_OR_FOLLOWER


def test_a_consumer_at_a_follower_that_is_cut_below_its_high_watermark_is_sent_back_to_the_leader() -> None:
    """n3 has records that n2, which was elected uncleanly, does not have: n3 cuts them off, below its high watermark. A
    consumer that has read them there is out of range afterwards, as it is at the leader."""
    with racked(expects_failures=True) as stage:
        prepare(stage, b"m1")
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n3")
        for value in (b"m2", b"m3"):
            stage.write("n3", value)
        stage.pass_time(0.5)  # its high watermark is in the checkpoint now
        stage.kill("n3")
        lead(stage, "n2")
        stage.write("n2", b"other")
        stage.start("n3", waits=False)
        stage.until(lambda: stage.has("n3") and stage.partition("n3").is_being_cut)
        assert stage.log("n3").high_watermark == 3
        asked = stage.begin(stage.client.fetch("n3", 3, rack="r3"))
        stage.until(lambda: asked.done)
        assert asked.result is not None and asked.result.code in (
            Code.NOT_LEADER_OR_FOLLOWER,
            Code.OFFSET_OUT_OF_RANGE,
        )
        stage.until(lambda: len(known_isr(stage, "n3")) == 2 and stage.log("n3").high_watermark == 2)
        assert fetch(stage, "n3", 3).code is Code.OFFSET_OUT_OF_RANGE
        assert fetch(stage, "n3", 0).values == [b"m1", b"other"]
