"""What a second look at the mends of replication found: late requests, doubled truncations, forgotten damage."""

from __future__ import annotations

import errno
from collections.abc import Generator
from pathlib import PurePath
from typing import Any

import pytest

from highwater.errors import Code
from highwater.log import truncation
from highwater.log.scan import BadBatch
from highwater.log.truncation import find_cut
from highwater.model import NO_NODE, TopicPartition
from highwater.world import Step
from tests.scenarios.mishaps import decided, delete_topic, registration
from tests.scenarios.stage import ORDERS, Stage
from tests.scenarios.test_d_damage import place

OTHER = TopicPartition("other", 0)


def test_a_proposal_names_the_incarnation_that_it_was_made_for() -> None:
    """It waits behind another request while its replica loses power and its tail, and comes back: the request is built
    only then, and must not name the new incarnation, which lacks what is acknowledged (KIP-903)."""
    patient = {
        "broker_session_timeout_ms": 60_000,
        "replica_lag_time_max_ms": 60_000,
        "controller_socket_timeout_ms": 60_000,
    }
    with Stage(4, **patient) as stage:
        stage.create(replicas=(2, 3))
        stage.create(OTHER, replicas=(2, 4))
        for at in range(5):
            stage.send(b"v%d" % at)
            stage.send(b"o%d" % at, tp=OTHER)
        stage.until(lambda: stage.log("n3").high_watermark == 5)
        stage.kill("n3", "n4")
        stage.until(lambda: tuple(decided(stage).isr) == (2,) and tuple(decided(stage, OTHER).isr) == (2,), 90)
        for at in range(5, 10):
            stage.send(b"v%d" % at)
            stage.send(b"o%d" % at, tp=OTHER)
        stage.cut("n2", "n3")
        stage.cut("n2", "n4")
        stage.start("n3", "n4")
        stage.pass_time(1.0)
        stage.cut("n2", "n1")
        stage.heal("n2", "n4")
        leader, other = stage.partition("n2").require_leader(), stage.partition("n2", OTHER).require_leader()
        stage.until(lambda: other.proposal is not None)
        stage.pass_time(0.1)  # that request is under way
        stage.heal("n2", "n3")
        stage.until(lambda: leader.proposal is not None)
        former = leader.followers[3].broker_epoch
        stage.cut_power("n3")
        stage.lose_records("n3", 5)
        stage.start("n3", waits=False)
        stage.until(lambda: leader.followers[3].broker_epoch != former, 55)
        stage.cut("n2", "n3")
        stage.until(lambda: not registration(stage, 3).fenced, 20)
        stage.heal("n2", "n1")
        stage.holds_for(20.0, lambda: 3 not in decided(stage).isr or stage.log("n3").log_end >= 10)


def test_a_truncation_that_its_role_has_left_behind_cuts_nothing_that_was_fetched_since() -> None:
    """No descriptor is left while n3 looks for the place of its cut. Its leader goes, another leads, and n3 follows
    that one: not before the cut has ended."""
    with Stage(4, watched=True, replica_lag_time_max_ms=60_000, broker_session_timeout_ms=3000) as stage:
        stage.create(replicas=(3, 2, 4))
        for value in (b"a", b"b", b"c"):
            stage.send(value * 10)
        stage.until(lambda: stage.log("n2").high_watermark == 3 and stage.log("n4").high_watermark == 3)
        stage.isolate("n3")
        stage.begin(stage.client.produce("n3", b"tail", acks=1))
        stage.until(lambda: decided(stage).leader == 2 and stage.log("n3").log_end == 4)
        stage.until(lambda: stage.leads("n2"))
        stage.write("n2", b"other")
        stage.storage("n3").fail("open", "*/orders-0/*.log", errno.EMFILE, times=None)
        stage.heal()
        stage.until(lambda: stage.partition("n3").is_being_cut)
        stage.pass_time(0.3)
        stage.cut("n2", "n1")
        stage.until(lambda: decided(stage).leader == 4)
        stage.pass_time(3.0)
        stage.heal("n2", "n1")
        stage.until(lambda: set(decided(stage).isr) == {2, 4})
        for at in range(5):
            stage.send(b"acked%d" % at)
        stage.storage("n3").mend()
        stage.until(lambda: set(decided(stage).isr) == {2, 3, 4})
        stage.holds_for(3.0, lambda: stage.log("n3").log_end == stage.log("n4").log_end)
        assert stage.values("n3") == stage.values("n4")


def test_retention_does_not_make_a_damaged_log_whole() -> None:
    with Stage(3, broker_session_timeout_ms=60_000, replica_lag_time_max_ms=60_000) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"old")
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        log = stage.log("n3")
        log.roll()
        for at in range(5):
            stage.send(b"v%d" % at * 50)
        stage.until(lambda: stage.log("n3").high_watermark == 6)
        node = stage.storage("n3").file(log.active.file.path)
        position, size = place(node, 2)
        node.data[position + size - 2] ^= 0x10
        stage.cut("n3", "n1")
        log.found_damaged(BadBatch(log.active.file.path, position, "its checksum is wrong"))
        log.drop_oldest()
        assert log.trouble is not None
        stage.heal()
        stage.until(lambda: stage.has("n3") and stage.log("n3") is not log)
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.values("n3") == stage.values("n2")[1:] or stage.values("n3") == stage.values("n2")


@pytest.mark.parametrize("short", [errno.ENOSPC, errno.EMFILE])
def test_a_follower_without_room_to_restart_its_log_does_so_later_and_delays_no_other(short: int) -> None:
    with Stage(3, watched=True) as stage:
        stage.create(replicas=(2, 3))
        stage.create(OTHER, replicas=(2, 3))
        stage.send(b"v0")
        stage.send(b"o0", tp=OTHER)
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        stage.kill("n3")
        stage.until(lambda: set(decided(stage).isr) == {2})
        for at in range(5):
            stage.send(b"w%d" % at)
        assert stage.run(stage.client.delete_records("n2", 6)) is Code.NONE
        stage.send(b"more")
        fault = stage.storage("n3").fail("create", "/data/orders-0/*6.log*", short, times=3)
        stage.start("n3")
        stage.until(lambda: fault.struck == 3)
        stage.until(lambda: set(decided(stage, OTHER).isr) == {2, 3})
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.log("n3").offline is None
        assert stage.values("n3") == [b"more"]
        stage.stop("n3")


def test_a_batch_that_finds_no_room_in_a_log_that_begins_anew_is_fetched_again_after_a_pause() -> None:
    with Stage(3) as stage:
        stage.create(replicas=(2, 3))
        stage.kill("n3")
        stage.until(lambda: set(decided(stage).isr) == {2})
        stage.send(*[b"v%d" % at for at in range(10)])
        stage.run(stage.client.delete_records("n2", 5))
        fault = stage.storage("n3").fail("append", "/data/orders-0/*.log", errno.ENOSPC, times=None)
        stage.start("n3")
        stage.until(lambda: fault.struck)
        stage.pass_time(5.0)
        assert fault.struck < 30
        stage.storage("n3").mend()
        stage.until(lambda: set(decided(stage).isr) == {2, 3})


def test_a_topic_whose_only_log_is_damaged_can_be_deleted_and_made_again() -> None:
    with Stage(3) as stage:
        stage.create(replicas=(2,))
        for at in range(5):
            stage.send(b"v%d" % at * 100)
        stage.stop("n2")
        stage.start("n2")
        stage.until(lambda: stage.log("n2").recovery_point >= 5)
        stage.pass_time(70.0)
        stage.cut_power("n2")
        file = stage.storage("n2").file(PurePath("/data/orders-0/00000000000000000000.log"))
        file.data[:40] = bytes(40)
        stage.start("n2")
        assert not stage.has("n2")
        stage.run(delete_topic(stage.client, ORDERS.topic))
        stage.run(stage.client.create(ORDERS, (2,), {}))
        stage.until(lambda: stage.has("n2") and stage.leads("n2"))
        assert stage.write("n2", b"anew") == 0


def test_many_truncations_that_wait_delay_other_partitions_by_one_pause_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """n2 is to cut twelve tails off, and the look for the places takes an hour. Then its leader dies: all of them get
    another role."""

    def find_slowly(*args: Any) -> Generator[Step, None, Any]:
        yield Step(takes=3600.0)
        return (yield from find_cut(*args))

    monkeypatch.setattr(truncation, "find_cut", find_slowly)
    many = [TopicPartition("many", at) for at in range(12)]
    with Stage(3) as stage:
        stage.create(many[-1], replicas=(2, 3), flush_messages=1)
        for tp in many:
            stage.send(b"a", tp=tp)
        stage.until(lambda: all(stage.log("n3", tp).high_watermark == 1 for tp in many))
        stage.isolate("n2")
        for tp in many:
            stage.begin(stage.client.produce("n2", b"tail", tp=tp, acks=1))
        stage.until(lambda: all(decided(stage, tp).leader == 3 and stage.log("n2", tp).log_end == 2 for tp in many))
        stage.until(lambda: all(stage.leads("n3", tp) for tp in many))
        for tp in many:
            stage.write("n3", b"other", tp=tp)
        stage.heal()
        stage.until(lambda: all(stage.partition("n2", tp).is_being_cut for tp in many))
        stage.kill("n3")
        stage.until(lambda: all(decided(stage, tp).leader == NO_NODE for tp in many))
        begun, metadata = stage.now, stage.node("n2").broker.metadata
        stage.until(lambda: metadata.image.topics.by_name["many"].partitions[0].leader == NO_NODE, 60)
        assert stage.now - begun < 5.0
        cuts = [stage.partition("n2", tp).cutting for tp in many]
        assert all(cut is not None and not cut.done() for cut in cuts)
