"""Scenarios of group B: what is lost and what is not, when leaders, disks and whole topics go."""

from __future__ import annotations

from highwater.broker.status import describe
from highwater.errors import Code
from highwater.metadata.topics import Recovery
from highwater.model import TopicPartition
from highwater.sim.group_client import GroupClient
from tests.scenarios.mishaps import (
    decided,
    delete_topic,
    fetch_by_id,
    lose_unsynced,
    produce_as,
    registration,
    replace_disk,
)
from tests.scenarios.stage import ORDERS, Stage


def test_b8_the_last_replica_standing_loses_power_and_an_eligible_one_leads_without_loss() -> None:
    """Setup: min.insync.replicas 2, the ISR shrinks from 3 to leader 2 alone. Fault: 2 loses power and all it had not
    synced. Must hold: a replica that left the ISR last is elected, and has all that was acknowledged (KIP-966)."""
    with Stage(4, watched=True) as stage:
        stage.create(replicas=(2, 3, 4), min_insync_replicas=2)
        stage.send(b"a", b"b")
        stage.cut("n2", "n3")
        stage.cut("n2", "n4")
        assert stage.run(stage.client.produce("n2", b"alone", acks=1)).code is Code.NONE
        stage.until(lambda: decided(stage).isr == (2,))
        lose_unsynced(stage, "n2")
        stage.until(lambda: decided(stage).leader != 2)
        stage.heal()
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3, 4})
        assert stage.read() == [b"a", b"b"]
        assert decided(stage).leader in (3, 4)
        assert stage.values("n2") == stage.values("n3") == stage.values("n4") == [b"a", b"b"]


def test_b10_a_replica_with_an_empty_disk_leads_only_once_it_has_everything_again() -> None:
    """Setup: 3 was in sync and may be elected. Fault: it comes back with an empty disk while leader 2 is down. Must
    hold: it does not lead before it has fetched all; after that it may (KAFKA-14139)."""
    with Stage(3) as stage:
        stage.create(replicas=(2, 3), min_insync_replicas=2)
        stage.send(b"a", b"b")
        stage.stop("n3")
        assert (decided(stage).isr, decided(stage).elr) == ((2,), (3,))
        stage.kill("n2")
        stage.until(lambda: registration(stage, 2).fenced)
        assert (decided(stage).isr, decided(stage).elr) == ((), (2, 3))
        replace_disk(stage, "n3")
        stage.start("n3")
        stage.holds_for(2.0, lambda: decided(stage).leader == -1, "an empty log leads")
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        stage.until(lambda: stage.log("n2").high_watermark == 2)
        assert stage.read() == stage.values("n3") == [b"a", b"b"]
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n3")
        assert stage.values("n3") == [b"a", b"b"]


def test_b14_a_leader_cut_off_from_the_others_commits_nothing_for_the_clients_it_keeps() -> None:
    """Setup: clients are attached to leader 2. Fault: it is cut off from controller and followers, past its fencing.
    Must hold: no acks=all succeeds there, reads end at its high watermark, and its tail is cut when it returns."""
    with Stage(4, watched=True) as stage:
        stage.create(replicas=(2, 3, 4))
        stage.send(b"a", b"b")
        stage.isolate("n2")
        pending = stage.begin(stage.visitor("patient").produce("n2", b"never", ms=6000), by="patient")
        assert stage.run(stage.client.produce("n2", b"tail", acks=1)).code is Code.NONE
        stage.until(lambda: stage.leader() == "n3")
        assert stage.run(stage.visitor("other").produce("n3", b"c"), by="other").code is Code.NONE
        stage.until(lambda: pending.done)
        assert pending.result is not None
        assert pending.result.code is Code.REQUEST_TIMED_OUT
        read = stage.run(stage.client.fetch("n2", 0))
        assert (read.code, read.values, read.high_watermark) == (Code.NONE, [b"a", b"b"], 2)
        stage.heal()
        stage.until(lambda: set(decided(stage).isr) == {2, 3, 4})
        assert stage.values("n2") == stage.values("n3") == stage.values("n4") == [b"a", b"b", b"c"]


def test_b17_a_broker_that_missed_a_deletion_and_a_creation_drops_the_old_topic_before_it_serves() -> None:
    """Setup: 4 has a replica. Fault: while it is down the topic is deleted and made anew. Must hold: its old log is
    recognised by its topic id and never used; a client that reads by the old id notices (KAFKA-14616, KAFKA-16157)."""
    with Stage(4) as stage:
        stage.create(replicas=(2, 3, 4))
        stage.send(b"old 1", b"old 2")
        stage.until(lambda: stage.log("n4").log_end == 2)
        old = stage.truth.topics.by_name[ORDERS.topic].id
        stage.kill("n4")
        stage.until(lambda: registration(stage, 4).fenced)
        stage.run(delete_topic(stage.client, ORDERS.topic))
        stage.run(stage.client.create(ORDERS, (2, 3, 4), {}))
        new = stage.truth.topics.by_name[ORDERS.topic].id
        assert new != old
        stage.send(b"new")
        assert stage.run(fetch_by_id(stage.client, "n2", old)) is Code.UNKNOWN_TOPIC_ID
        stage.start("n4")
        assert stage.partition("n4").topic_id == new
        assert stage.run(fetch_by_id(stage.visitor("late"), "n4", old), by="late") is Code.UNKNOWN_TOPIC_ID
        stage.until(lambda: set(decided(stage).isr) == {2, 3, 4})
        assert stage.values("n4") == stage.read() == [b"new"]


def test_b18_an_unclean_election_loses_exactly_what_the_elected_one_lacked() -> None:
    """Setup: unclean election is on, 3 has the first two of four acknowledged records. Fault: leader 2 dies. Must
    hold: 3 leads with those two; a producer that wrote more gets an error, and the old leader gives up the rest."""
    with Stage(3) as stage:
        stage.create(replicas=(2, 3), unclean_leader_election_enable="true")
        topic = stage.truth.topics.by_name[ORDERS.topic].id

        def write(node: str, sequence: int, value: bytes, producer: int = 7) -> Code:
            return stage.run(produce_as(stage.client, node, topic, producer, sequence, value))

        assert [write("n2", at, b"%d" % at) for at in range(2)] == [Code.NONE] * 2
        stage.cut("n2", "n3")
        assert [write("n2", at, b"%d" % at) for at in range(2, 4)] == [Code.NONE] * 2
        assert decided(stage).isr == (2,)
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n3")
        assert (decided(stage).isr, decided(stage).recovery) == ((3,), Recovery.RECOVERING)
        assert stage.read() == [b"0", b"1"]
        assert write("n3", 4, b"4") is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert write("n3", 1, b"1") is Code.NONE, "a repetition"
        assert write("n3", 0, b"first of a new id", producer=8) is Code.NONE
        stage.heal()
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert decided(stage).recovery is Recovery.RECOVERED
        assert stage.values("n2") == stage.values("n3") == stage.read() == [b"0", b"1", b"first of a new id"]


def test_b18_coordinators_load_anew_what_an_unclean_election_left() -> None:
    """Setup: 3 has the first of two acknowledged commits. Fault: coordinator 2 is cut off, and 3 is elected uncleanly;
    then 2, which never stopped, leads again. Must hold: the group stands where the elected one's log says, at 2 too;
    what it remembers of before is forgotten with the records (KIP-704)."""
    offsets = TopicPartition("__consumer_offsets", 0)
    with Stage(3) as stage:
        stage.create(replicas=(1, 2, 3))
        stage.create(offsets, replicas=(2, 3), unclean_leader_election_enable="true", cleanup_policy="compact")

        def group(by: str) -> GroupClient:
            return GroupClient(stage.visitor(by).client, "g", ORDERS.topic)

        def commit(offset: int, by: str = "client") -> None:
            stage.until(lambda: any(coordinates(stage, name) for name in ("n2", "n3")))
            stage.run(group(by).commit({ORDERS: offset}), by=by)

        def committed(by: str = "client") -> dict[TopicPartition, int]:
            return stage.run(group(by).committed(), by=by)

        commit(1)
        stage.until(lambda: stage.log("n3", offsets).log_end == stage.log("n2", offsets).log_end)
        stage.cut("n2", "n3")
        commit(2)
        assert (committed(), decided(stage, offsets).isr) == ({ORDERS: 2}, (2,))
        stage.cut("n2", "n1")
        stage.cut("n2", "other")
        stage.until(lambda: stage.leads("n3", offsets) and coordinates(stage, "n3"))
        assert committed("other") == {ORDERS: 1}
        commit(3, "other")
        stage.heal()
        stage.until(lambda: set(decided(stage, offsets).isr) == {2, 3})
        stage.kill("n3")
        stage.until(lambda: stage.leads("n2", offsets) and coordinates(stage, "n2"))
        assert committed() == {ORDERS: 3}


def coordinates(stage: Stage, name: str) -> bool:
    broker = stage.node(name).broker
    return broker is not None and any(broker.groups.shards.active)


def test_every_broker_reports_partitions_without_a_leader() -> None:
    """Also of those that it has no replica of: who has one may be down."""
    with Stage(3) as stage:
        stage.create(ORDERS, replicas=(2,))
        stage.kill("n2")
        row = {"topic": "orders", "partition": 0, "replicas": [2], "isr": [], "eligible": [2]}
        stage.until(lambda: describe(stage.node("n3").broker, 1, "active", 1)["leaderless"] == [row])
        stage.start("n2")
        stage.until(lambda: not describe(stage.node("n3").broker, 1, "active", 1)["leaderless"])
