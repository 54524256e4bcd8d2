"""A topic that is deleted and created again under its name: what was said of the old log does not hold for the new."""

from __future__ import annotations

import errno
from pathlib import PurePath

import pytest

from highwater.errors import Code
from highwater.model import TopicPartition
from tests.scenarios.mishaps import delete_topic
from tests.scenarios.stage import ORDERS, Stage
from tests.scenarios.test_f_boundaries import MISTAKE, forgiving

NEW = [b"new0", b"new1", b"new2"]
CHECKPOINTS = "*-checkpoint.tmp"


def use_and_delete(stage: Stage) -> None:
    """What the checkpoints say of the topic is on the disk when it goes."""
    stage.create(replicas=(2, 3))
    stage.send(*(b"old%d" % at for at in range(10)))
    assert stage.run(stage.client.delete_records("n2", 8)) is Code.NONE
    stage.run(delete_topic(stage.client, ORDERS.topic))
    stage.until(lambda: not stage.has("n2") and not stage.has("n3"))


def start_again_with(stage: Stage, sent: list[bytes]) -> None:
    stage.start("n2", "n3")
    stage.until(stage.leader)
    assert stage.read() == sent
    assert [(stage.log(name).log_start, stage.log(name).log_end) for name in ("n2", "n3")] == [(0, 3), (0, 3)]


@pytest.mark.parametrize("power", [False, True])
def test_the_start_of_a_deleted_log_does_not_empty_the_next_one_of_its_name(power: bool) -> None:
    with Stage(3, log_flush_interval_messages=1) as stage:
        use_and_delete(stage)
        stage.create(replicas=(2, 3))
        stage.write("n2", *NEW)
        stage.until(lambda: stage.log("n3").log_end == 3)
        (stage.cut_power if power else stage.kill)("n2", "n3")
        start_again_with(stage, NEW)


def test_the_start_of_a_log_that_was_deleted_in_an_earlier_life_does_not_hold_either() -> None:
    with Stage(3, log_flush_interval_messages=1) as stage:
        use_and_delete(stage)
        stage.kill("n2", "n3")
        stage.start("n2", "n3")
        stage.create(replicas=(2, 3))
        stage.write("n2", *NEW)
        stage.until(lambda: stage.log("n3").log_end == 3)
        stage.kill("n2", "n3")
        start_again_with(stage, NEW)


def test_the_recovery_point_of_a_deleted_log_does_not_make_damage_of_what_a_power_cut_takes() -> None:
    for seed in range(4):
        settings = {"log_flush_offset_checkpoint_interval_ms": 1000, "log_initial_task_delay_ms": 500}
        with Stage(1, seed=seed, **settings) as stage:
            stage.create(replicas=(1,))
            stage.write("n1", *(b"old%d" % at for at in range(100)))
            log = stage.log("n1")
            stage.node("n1").world.call(log.flush)
            stage.until(lambda log=log: log.durable_end == 100)  # type: ignore[misc]
            stage.pass_time(2.1)
            stage.run(delete_topic(stage.client, ORDERS.topic))
            stage.until(lambda: not stage.has("n1"))
            stage.create(replicas=(1,))
            for at in range(30):
                stage.write("n1", b"new%d" % at)
            stage.cut_power("n1")
            stage.start("n1")
            broker = stage.node("n1").broker
            assert broker is not None and not broker.store.unloaded


def test_no_log_is_made_while_checkpoints_speak_of_another_one_of_its_name() -> None:
    with Stage(3, log_flush_interval_messages=1) as stage:
        use_and_delete(stage)
        stage.storage("n2").fail("append", CHECKPOINTS, errno.ENOSPC, times=None)
        stage.run(stage.client.create(ORDERS, (2, 3), {}))
        stage.until(lambda: stage.has("n3"))
        stage.holds_for(5.0, lambda: not stage.has("n2"))
        stage.storage("n2").mend()
        stage.until(lambda: stage.has("n2"))
        assert b"orders" not in stage.storage("n2").file(PurePath("/data/log-start-offset-checkpoint")).data


def test_a_second_look_during_the_deletion_of_a_large_topic_does_not_restore_it() -> None:
    """A broker gives way while it drops the partitions. The image before that is not applied after the new one."""
    many, late = TopicPartition("many", 59), TopicPartition("many", 50)
    with Stage(3) as stage:
        stage.create(many, replicas=(2, 3))
        stage.stop("n3")
        stage.start("n3")
        stage.until(lambda: stage.has("n3", many))
        node = stage.node("n3")
        assert node.broker is not None and node.role is not None
        hosted, partition = node.broker.hosted, node.broker.hosted.get(late)
        assert partition is not None
        stage.begin(delete_topic(stage.client, "many"))
        stage.until(lambda: len(hosted) == 40)
        node.world.call(node.role.publisher._look_again, partition)
        stage.until(lambda: "many" not in node.broker.metadata.image.topics.by_name)
        stage.holds_for(5.0, lambda: "many" not in node.broker.metadata.image.topics.by_name)
        assert len(hosted) == 0


def test_a_topic_whose_directory_was_removed_can_be_deleted_and_made_again() -> None:
    with Stage(3, expects_failures=True) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"old")
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        directory = stage.storage("n3").directory(PurePath("/data"))
        for names in (directory.entries, directory.durable):
            names.pop(str(ORDERS), None)
        stage.run(delete_topic(stage.client, ORDERS.topic))
        stage.until(lambda: not stage.has("n2") and not stage.has("n3"))
        stage.create(replicas=(3, 2))
        stage.send(*NEW)
        stage.until(lambda: stage.has("n3") and stage.log("n3").log_end == len(NEW))


def test_a_mistake_in_a_checkpoint_delays_the_next_log_of_that_name_and_ends_no_node() -> None:
    """The checkpoints are written before a name is used again; the program itself fails there, once."""
    with forgiving() as stage:
        use_and_delete(stage)
        mistake = stage.storage("n2").fail("append", CHECKPOINTS, error=MISTAKE)
        stage.create(replicas=(2, 3))
        assert mistake.struck
        stage.send(*NEW)
