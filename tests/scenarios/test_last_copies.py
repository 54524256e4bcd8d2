"""The last copy of a partition: what is damaged is kept until another log is in sync, and what failed leads no more."""

from __future__ import annotations

import errno
from pathlib import PurePath

import pytest

from highwater.errors import Code
from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.model import NO_NODE
from highwater.wire import records
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from tests.scenarios.damaged_replicas import (
    DELAY_SECONDS,
    SENT,
    UNCLEAN,
    aside,
    begun_anew,
    damage,
    fail,
    keep_a_copy_of_2,
    remove_segment,
    send_all,
    stop_2_and_lose_3,
)
from tests.scenarios.mishaps import decided, delete_topic, replace_disk
from tests.scenarios.stage import ORDERS, Stage
from tests.unit.controller.clusters import then


def begin_anew_beside_the_dead(stage: Stage) -> None:
    """Everything is on 2 and 3. Then 3 dies, which nobody knows yet, and 2 is damaged."""
    stage.create(replicas=(2, 3))
    send_all(stage)
    stage.cut_power("n3")
    damage(stage, "n2")
    stage.until(lambda: begun_anew(stage, "n2"))


def alone_in_sync(stage: Stage, **configs: object) -> None:
    """Everything is on 2 and 3; then 3 dies, and 2 is the last of the ISR."""
    stage.create(replicas=(2, 3), **configs)
    send_all(stage)
    stage.kill("n3")
    stage.until(lambda: set(decided(stage).isr) == {2})


def alone_in_sync_beside_an_empty_replica(stage: Stage) -> None:
    """2 is the last of the ISR. 3 serves again and cannot fetch. Unclean elections are allowed."""
    alone_in_sync(stage, unclean_leader_election_enable="true")
    stage.start("n3", waits=False)
    stage.cut("n3", "n2")
    stage.until(lambda: stage.serves("n3"))


def test_a_damaged_log_is_kept_while_the_replicas_with_everything_are_dead() -> None:
    """3 is in the ISR and dead, which nobody knows yet. So 2 may begin anew; but 3 never comes back."""
    with Stage(3, broker_session_timeout_ms=9_000) as stage:
        begin_anew_beside_the_dead(stage)
        stage.pass_time(2 * DELAY_SECONDS)
        (kept,) = aside(stage, "n2")
        file = stage.storage("n2").file(PurePath("/data") / kept / f"{0:020d}.log")
        assert all(value in bytes(file.data) for value in SENT)
        stage.kill("n2")
        stage.start("n2")
        stage.pass_time(DELAY_SECONDS)
        assert aside(stage, "n2") == [kept], "a new life keeps it as well"


def test_a_damaged_log_is_deleted_once_the_log_in_its_place_is_in_sync() -> None:
    with Stage(3, watched=True) as stage:
        stage.create(replicas=(2, 3))
        send_all(stage)
        damage(stage, "n3")
        stage.until(lambda: aside(stage, "n3"))
        (kept,) = aside(stage, "n3")
        assert kept.endswith("-stray")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        stage.pass_time(DELAY_SECONDS)
        assert aside(stage, "n3") == []
        assert stage.values("n3") == SENT


def test_a_damaged_log_that_an_earlier_life_kept_is_deleted_once_its_log_is_in_sync() -> None:
    with Stage(3, watched=True) as stage:
        stage.create(replicas=(2, 3))
        send_all(stage)
        stage.cut("n3", "n2")
        damage(stage, "n3")
        stage.until(lambda: aside(stage, "n3"))
        stage.kill("n3")
        stage.heal()
        stage.start("n3")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        stage.pass_time(DELAY_SECONDS)
        assert aside(stage, "n3") == []


def test_a_damaged_log_that_was_kept_goes_with_its_topic() -> None:
    with Stage(3, broker_session_timeout_ms=9_000) as stage:
        begin_anew_beside_the_dead(stage)
        stage.run(delete_topic(stage.client, ORDERS.topic))
        stage.pass_time(DELAY_SECONDS)
        assert aside(stage, "n2") == []


def test_a_damaged_log_that_is_put_aside_after_its_topic_was_deleted_is_not_kept() -> None:
    """Its directory could not be renamed at once."""
    with Stage(3) as stage:
        stage.create(replicas=(2, 3), file_delete_delay_ms=1000)
        send_all(stage)
        fault = stage.storage("n3").fail("rename", "/data/orders-0", errno.EIO, times=None)
        damage(stage, "n3")
        stage.until(lambda: fault.struck)
        stage.run(delete_topic(stage.client, ORDERS.topic))
        stage.until(lambda: ORDERS.topic not in stage.node("n3").broker.metadata.image.topics.by_name)
        stage.pass_time(5.0)
        stage.storage("n3").mend()
        stage.until(lambda: aside(stage, "n3"))
        stage.until(lambda: not aside(stage, "n3"))


def test_a_damaged_log_that_was_kept_goes_with_a_topic_that_is_deleted_while_its_broker_is_down() -> None:
    with Stage(3, broker_session_timeout_ms=9_000) as stage:
        begin_anew_beside_the_dead(stage)
        stage.kill("n2")
        stage.run(delete_topic(stage.visitor("operator"), ORDERS.topic), by="operator")
        stage.start("n2")
        stage.pass_time(DELAY_SECONDS)
        assert aside(stage, "n2") == []


def test_a_log_that_began_anew_is_not_elected_before_it_has_what_is_committed() -> None:
    """Uncleanly either: 3, which is dead and not fenced yet, would cut what it has when it is back."""
    settings = {"broker_session_timeout_ms": 9_000, "unclean_leader_election_interval_ms": 1_000}
    with Stage(3, log_flush_interval_messages=1, **settings) as stage:
        stage.create(replicas=(2, 3), unclean_leader_election_enable="true")
        send_all(stage)
        stage.cut_power("n3")
        damage(stage, "n2")
        stage.until(lambda: begun_anew(stage, "n2"))
        stage.holds_for(30.0, lambda: decided(stage).leader != 2)
        assert stage.run(stage.client.elect(UNCLEAN)) is Code.ELIGIBLE_LEADERS_NOT_AVAILABLE
        stage.kill("n2")
        stage.start("n2")
        stage.holds_for(5.0, lambda: decided(stage).directory(2) == DIRECTORY_LOST)
        stage.start("n3")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.values("n2") == stage.values("n3") == SENT
        stage.pass_time(DELAY_SECONDS)
        assert aside(stage, "n2") == []


def test_a_damaged_log_is_kept_though_one_with_less_is_in_sync() -> None:
    """3 loses with its power what it had not synced, and leads again: there is no other copy of it."""
    with Stage(3, broker_session_timeout_ms=9_000) as stage:
        keep_a_copy_of_2(stage)
        stage.pass_time(DELAY_SECONDS)
        (kept,) = aside(stage, "n2")
        stage.kill("n2")
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        stage.pass_time(DELAY_SECONDS)
        assert aside(stage, "n2") == [kept]


def test_the_last_copy_that_is_damaged_keeps_the_lead_though_unclean_elections_are_allowed() -> None:
    with Stage(3) as stage:
        alone_in_sync_beside_an_empty_replica(stage)
        damage(stage, "n2")
        stage.holds_for(5.0, lambda: decided(stage).leader == 2)
        assert decided(stage).directory(2) != DIRECTORY_LOST


def test_the_last_copy_whose_disk_fails_gives_the_lead_to_another_where_unclean_elections_are_allowed() -> None:
    with Stage(3) as stage:
        alone_in_sync_beside_an_empty_replica(stage)
        fail(stage, "n2")
        stage.until(lambda: stage.leader() == "n3")
        stage.heal()
        stage.write("n3", b"after")
        stage.kill("n2")
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.values("n2") == stage.values("n3") == [*SENT, b"after"]


def test_the_last_copy_whose_disk_fails_leads_no_more_until_its_broker_has_it_back() -> None:
    with Stage(3, watched=True) as stage:
        alone_in_sync(stage)
        fail(stage, "n2")
        stage.until(lambda: decided(stage).leader == -1)
        assert (*decided(stage).isr, *decided(stage).elr) == (2,), "it alone is known to have everything"
        epoch = decided(stage).leader_epoch
        stage.start("n3")
        stage.holds_for(5.0, lambda: (decided(stage).leader, decided(stage).leader_epoch) == (-1, epoch))
        stage.kill("n2")
        stage.start("n2")
        stage.until(lambda: stage.leader() == "n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.values("n2") == stage.values("n3") == SENT


def test_an_operator_may_elect_another_where_the_last_copy_failed() -> None:
    with Stage(3) as stage:
        alone_in_sync(stage)
        fail(stage, "n2")
        stage.until(lambda: decided(stage).leader == -1)
        stage.start("n3")
        stage.run(stage.client.elect(UNCLEAN))
        stage.until(lambda: stage.leader() == "n3")


def test_no_empty_log_takes_the_place_of_the_last_copy_where_its_disk_is_replaced() -> None:
    """Neither in its first life with the new disk nor in the next: what is empty must not be taken for what it had."""
    with Stage(3) as stage:
        alone_in_sync(stage)
        fail(stage, "n2")
        stage.until(lambda: decided(stage).leader == -1)
        stage.kill("n2")
        replace_disk(stage, "n2")
        for _ in range(2):
            stage.start("n2")
            stage.holds_for(5.0, lambda: decided(stage).leader == -1)
            assert not stage.has("n2")
            stage.kill("n2")
        stage.start("n2", "n3")
        stage.run(stage.client.elect(UNCLEAN))
        stage.until(lambda: stage.leader() == "n3")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.values("n2") == SENT


def test_an_operator_may_begin_a_partition_anew_whose_only_copy_is_damaged_and_put_away() -> None:
    """As docs/guide.md says: the node is stopped, the directory moved away, and an unclean election asked for."""
    fast = {"log_flush_offset_checkpoint_interval_ms": 1000, "log_initial_task_delay_ms": 500}
    with Stage(1, **fast) as stage:
        stage.create(replicas=(1,))
        for value in SENT:
            stage.write("n1", value)
        log = stage.log("n1")
        stage.node("n1").world.call(log.flush)
        stage.until(lambda: log.durable_end == len(SENT))
        stage.pass_time(2.1)
        stage.kill("n1")
        stage.storage("n1").file(PurePath("/data/orders-0") / f"{0:020d}.log").data[70] ^= 0x10
        stage.start("n1")
        stage.until(lambda: decided(stage).leader == -1)
        assert stage.run(stage.client.elect(UNCLEAN)) is Code.NONE
        stage.until(lambda: decided(stage).leader == -1)  # the damaged log is there still
        stage.kill("n1")
        data = stage.storage("n1").directory(PurePath("/data"))
        del data.entries["orders-0"]
        data.durable.pop("orders-0", None)
        stage.start("n1")
        stage.holds_for(5.0, lambda: not stage.has("n1"))
        assert stage.run(stage.client.elect(UNCLEAN)) is Code.NONE
        stage.until(lambda: stage.leader() == "n1")
        stage.write("n1", b"anew")
        assert stage.read() == [b"anew"]


def test_a_damaged_log_that_was_kept_goes_once_its_partition_is_another_brokers() -> None:
    with Stage(3, broker_session_timeout_ms=9_000) as stage:
        begin_anew_beside_the_dead(stage)
        node = stage.node("n2")
        publisher, image = node.role.publisher, node.broker.metadata.image
        assert publisher is not None and aside(stage, "n2")
        node.world.call(publisher._forget_strangers, image)
        stage.pass_time(DELAY_SECONDS)
        assert aside(stage, "n2"), "it is this broker's still"
        topic = image.topics.by_name[ORDERS.topic]
        moved = PartitionChangeRecord(topic_id=topic.id, partition_id=0, replicas=[1, 3])
        node.world.call(publisher._forget_strangers, then(image, [moved]))
        stage.pass_time(DELAY_SECONDS)
        assert aside(stage, "n2") == []


def test_a_replica_that_was_fetched_anew_and_failed_as_the_last_copy_leads_again_once_it_is_back() -> None:
    """It led before it heard that another led with it in the ISR, so that what it was is still kept. There is no
    leader that could send it what is committed: it has all of that."""
    with Stage(3, broker_session_timeout_ms=9_000) as stage:
        stage.create(replicas=(2, 3))
        send_all(stage)
        damage(stage, "n3")
        stage.until(lambda: aside(stage, "n3"))
        stage.until(lambda: decided(stage).directory(3) != DIRECTORY_LOST)
        stage.cut("n1", "n3", one_way=True)
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        stage.kill("n2")
        stage.until(lambda: decided(stage).leader == 3)
        stage.heal()
        stage.until(lambda: stage.leads("n3"))
        stage.write("n3", b"more")
        assert aside(stage, "n3")
        fail(stage, "n3")
        stage.until(lambda: decided(stage).leader == NO_NODE)
        stage.kill("n3")
        stage.start("n3")
        stage.until(lambda: stage.leads("n3"))
        assert stage.values("n3") == [*SENT, b"more"]


def test_a_start_that_ends_before_it_has_registered_leaves_a_clean_stop_clean() -> None:
    """2 stopped in order and is in the ELR; 3, which led after it, is gone. 2 is the only one that can lead."""
    with Stage(4, broker_session_timeout_ms=1500) as stage:
        stage.create(replicas=(2, 3), min_insync_replicas=2)
        stage.send(b"a")
        stage.stop("n2")
        stage.until(lambda: decided(stage).leader == 3)
        stage.kill("n3")
        stage.until(lambda: decided(stage).leader == NO_NODE)
        assert 2 in decided(stage).elr

        stage.start("n2", waits=False)
        stage.until(lambda: has_opened_its_logs(stage, "n2"))
        stage.cut("n1", "n2")
        stage.pass_time(0.3)
        assert stage.node("n2").broker.lifecycle.epoch < 0
        stage.stop("n2")
        stage.heal()
        stage.start("n2")
        stage.until(lambda: decided(stage).leader == 2)
        assert stage.values("n2") == [b"a"]


def has_opened_its_logs(stage: Stage, name: str) -> bool:
    node = stage.member(name).node
    return node is not None and node.role is not None and node.role._publishing is not None


LOST = [
    "a checkpoint and a log rot",
    "a log is removed",
    "a log is shorter",
    "the first segment is removed",
    "the first segment is removed with its indexes",
    "a segment in the middle is removed with its indexes",
]


@pytest.mark.parametrize("what", LOST)
def test_a_broker_that_lost_something_after_a_clean_stop_is_not_eligible_to_lead(what: str) -> None:
    """2 stopped in order and is in the ELR; 3, which led after it, is gone. What 2 acknowledged is no longer there."""
    with Stage(4, broker_session_timeout_ms=1500, expects_failures=True) as stage:
        stop_2_and_lose_3(stage, (b"a", b"b", b"c"))

        storage, log = stage.storage("n2"), PurePath(f"/data/{ORDERS}/{0:020d}.log")
        if what == "a log is removed":
            del storage.directory(PurePath("/data")).entries[str(ORDERS)]
        elif what == "a log is shorter":
            remove_segment(stage, "n2", 2)
        elif what == "the first segment is removed":
            del storage.directory(log.parent).entries[log.name]
        elif what == "the first segment is removed with its indexes":
            remove_segment(stage, "n2", 0)
        elif what == "a segment in the middle is removed with its indexes":
            remove_segment(stage, "n2", 1)
        else:
            log = log.with_name(f"{2:020d}.log")
            *_, (last, _, _) = records.walk(memoryview(bytes(storage.file(log).data)))
            storage.damage(log, last + 63, b"\xff\xff")
            storage.damage(PurePath("/data/recovery-point-offset-checkpoint"), 0, b"x")
        stage.start("n2", waits=False)
        stage.until(lambda: stage.serves("n2"))
        stage.pass_time(5)
        assert decided(stage).leader == NO_NODE
        assert decided(stage).elr == (3,)
        stage.start("n3")
        stage.until(lambda: decided(stage).leader == 3)
        assert stage.values("n3") == [b"a", b"b", b"c"]


@pytest.mark.parametrize(("base_offset", "stops"), [(0, "in order"), (1, "in order"), (1, "by a kill")])
def test_a_replica_that_lacks_a_segment_is_fetched_again_before_it_joins_the_isr(base_offset: int, stops: str) -> None:
    """No fetch asks for records below the log end, so the replica would be in sync without them, and could lead."""
    with Stage(5, expects_failures=True) as stage:
        stage.create(replicas=(2, 3), internal_segment_bytes=70)
        values = [b"a", b"b", b"c"]
        for value in values:
            stage.send(value)
        stage.pass_time(61)  # the recovery point is written down
        if stops == "in order":
            stage.stop("n3")
        else:
            stage.kill("n3")
        stage.until(lambda: decided(stage).isr == (2,))
        remove_segment(stage, "n3", base_offset)
        stage.start("n3")
        stage.until(lambda: decided(stage).isr == (2, 3))
        stage.stop("n2")
        stage.until(lambda: decided(stage).leader == 3)
        assert stage.values("n3") == values


def test_the_last_copy_that_lacks_a_segment_keeps_the_lead() -> None:
    with Stage(6, expects_failures=True) as stage:
        stage.create(replicas=(3,), internal_segment_bytes=70)
        for value in (b"a", b"b", b"c"):
            stage.send(value)
        stage.stop("n3")
        remove_segment(stage, "n3", 1)
        stage.start("n3")
        stage.until(lambda: decided(stage).leader == 3)
        stage.send(b"d")
        stage.pass_time(5)
        assert decided(stage).leader == 3
        assert stage.values("n3") == [b"a", b"c", b"d"]
