"""A replica whose files could not be made or opened is reported, so that others lead, and made once it can be."""

from __future__ import annotations

import errno
import logging
from pathlib import PurePath

import pytest

from highwater.broker.missing import MissingReplicas
from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.model import TopicPartition
from highwater.sim.disk import SimDisk, SimFile
from tests.scenarios.mishaps import decided, delete_topic
from tests.scenarios.stage import ORDERS, Stage
from tests.scenarios.test_d_damage import file_of, zero_a_page

FILES = "/data/orders-0/*"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.EIO])
def test_a_replica_that_cannot_be_made_leaves_the_lead_and_is_made_later(code: int) -> None:
    with Stage(watched=True) as stage:
        fault = stage.storage("n2").fail("create", FILES, code, times=None)
        stage.run(stage.client.create(ORDERS, (2, 3), {}))
        stage.until(lambda: decided(stage).leader == 3 and list(decided(stage).isr) == [3])
        stage.send(b"one")
        stage.until(lambda: fault.struck > 4)
        assert not stage.has("n2")
        stage.storage("n2").mend()
        stage.until(lambda: stage.has("n2") and decided(stage).directory(2) != DIRECTORY_LOST)
        stage.until(lambda: sorted(decided(stage).isr) == [2, 3])
        stage.send(b"two")
        stage.kill("n3")
        stage.until(lambda: stage.leads("n2"))
        assert stage.read() == [b"one", b"two"]


def test_a_replica_whose_new_files_cannot_be_looked_at_is_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job has made the files. Then the event loop opens them, and the disk fails for a moment. The node goes on."""
    opened, struck = SimDisk.open, []

    def open_or_fail(disk: SimDisk, path: PurePath, create: bool = False) -> SimFile:
        if path.match("orders-0/*.log") and not create and not struck:
            struck.append(path)
            raise OSError(errno.EIO, "EIO", str(path))
        return opened(disk, path, create)

    monkeypatch.setattr(SimDisk, "open", open_or_fail)
    with Stage() as stage:
        stage.run(stage.client.create(ORDERS, (2,), {}))
        stage.until(lambda: stage.has("n2") and stage.leads("n2"))
        assert struck
        stage.send(b"one")
        assert stage.read() == [b"one"]


def test_the_only_replica_that_cannot_be_made_is_made_once_there_is_room() -> None:
    with Stage() as stage:
        stage.storage("n2").fail("create", FILES, errno.ENOSPC, times=4)
        stage.run(stage.client.create(ORDERS, (2,), {}))
        stage.until(lambda: stage.has("n2") and stage.leads("n2"))
        stage.send(b"one")
        assert stage.read() == [b"one"]


def test_a_topic_that_is_deleted_before_there_is_room_is_not_made_any_more() -> None:
    with Stage() as stage:
        fault = stage.storage("n2").fail("create", "/data/gone-0/*", errno.ENOSPC, times=None)
        stage.run(stage.client.create(TopicPartition("gone", 0), (2,), {}))
        stage.until(lambda: fault.struck > 1)
        stage.run(delete_topic(stage.client, "gone"))
        stage.until(lambda: "gone" not in stage.node("n2").broker.metadata.image.topics.by_name)
        struck = fault.struck
        stage.pass_time(30)
        assert fault.struck == struck


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM])
def test_a_log_that_cannot_be_opened_for_want_of_something_is_opened_later(code: int) -> None:
    with Stage() as stage:
        stage.create(ORDERS, replicas=(2,))
        stage.send(b"one")
        stage.kill("n2")
        fault = stage.storage("n2").fail("read", FILES, code, times=3)
        stage.start("n2")
        assert fault.struck
        stage.until(lambda: stage.has("n2") and stage.leads("n2"))
        assert stage.read() == [b"one"]
        stage.send(b"two")


def test_a_log_that_cannot_be_read_at_the_start_is_reported_and_stays_as_it_is() -> None:
    with Stage(expects_failures=True) as stage:
        stage.create(ORDERS, replicas=(2, 3))
        stage.send(b"one")
        stage.kill("n2")
        stage.until(lambda: stage.leads("n3"))
        stage.storage("n2").fail("read", FILES, errno.EIO, times=None)
        stage.start("n2")
        assert stage.said("n2", "orders-0 is not loaded", logging.ERROR)
        stage.until(lambda: decided(stage).directory(2) == DIRECTORY_LOST)
        stage.send(b"two")
        stage.kill("n2")
        stage.storage("n2").mend()
        stage.start("n2")
        stage.until(lambda: sorted(decided(stage).isr) == [2, 3])
        assert stage.values("n2") == [b"one", b"two"]


def exists(stage: Stage, name: str, pattern: str) -> bool:
    return any(path.match(pattern) for path, _ in stage.storage(name).tree())


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_deleted_log_whose_files_cannot_be_put_aside_goes_later_and_then_a_new_one_takes_its_place(code: int) -> None:
    with Stage() as stage:
        stage.create(ORDERS, replicas=(2,), file_delete_delay_ms=0)
        stage.send(b"old")
        fault = stage.storage("n2").fail("rename", "/data/orders-0", code, times=3)
        stage.run(delete_topic(stage.client, ORDERS.topic))
        stage.until(lambda: fault.struck == 1)
        stage.run(stage.client.create(ORDERS, (2,), {}))
        stage.until(lambda: stage.has("n2") and stage.leads("n2"))
        assert fault.struck == 3
        stage.send(b"new")
        assert stage.read() == [b"new"]
        stage.until(lambda: not exists(stage, "n2", "/data/*-delete/*"))
        assert stage.values("n2") == [b"new"]


def test_a_deleted_log_whose_files_cannot_be_put_aside_is_gone_though_its_name_is_not_wanted() -> None:
    with Stage() as stage:
        stage.create(ORDERS, replicas=(2,), file_delete_delay_ms=0)
        stage.send(b"old")
        stage.storage("n2").fail("rename", "/data/orders-0", errno.EIO, times=3)
        stage.run(delete_topic(stage.client, ORDERS.topic))
        stage.until(lambda: not exists(stage, "n2", "/data/orders-0*/*"))


def test_files_of_a_deleted_log_for_which_no_descriptor_was_left_go_later() -> None:
    with Stage() as stage:
        stage.create(ORDERS, replicas=(2,), file_delete_delay_ms=0)
        stage.send(b"old")
        fault = stage.storage("n2").fail("open", "/data/*-delete", errno.EMFILE, times=3)
        stage.run(delete_topic(stage.client, ORDERS.topic))
        stage.until(lambda: fault.struck == 3)
        stage.until(lambda: not exists(stage, "n2", "/data/orders-0*/*"))


def test_a_damaged_log_that_cannot_be_put_aside_at_once_is_fetched_anew_all_the_same() -> None:
    with Stage(watched=True) as stage:
        stage.create(ORDERS, replicas=(2, 3))
        for value in (b"a" * 10, b"b" * 10):
            stage.send(value)
        stage.until(lambda: stage.log("n3").high_watermark == 2)
        stage.stop("n3")
        zero_a_page(file_of(stage, "n3"))
        fault = stage.storage("n3").fail("rename", "/data/orders-0", errno.EIO, times=3)
        stage.start("n3")
        stage.until(lambda: sorted(decided(stage).isr) == [2, 3])
        assert fault.struck == 3
        assert stage.values("n3") == [b"a" * 10, b"b" * 10]


def test_the_only_copy_does_not_lead_if_it_cannot_be_read_at_the_start() -> None:
    """Nothing of it is served before its broker starts again, so that nobody is sent to it."""
    with Stage(expects_failures=True) as stage:
        stage.create(ORDERS, replicas=(2,))
        stage.send(b"one")
        stage.kill("n2")
        stage.storage("n2").fail("read", FILES, errno.EIO, times=None)
        stage.start("n2")
        stage.until(lambda: decided(stage).directory(2) == DIRECTORY_LOST and decided(stage).leader == -1)
        stage.kill("n2")
        stage.storage("n2").mend()
        stage.start("n2")
        stage.until(lambda: stage.leads("n2"))
        assert stage.values("n2") == [b"one"]


def broken_by_a_mistake(stage: Stage) -> None:
    """n2 has begun a life in which it met a mistake as it opened ORDERS: that is tried again after a minute."""
    stage.create(ORDERS, replicas=(2,))
    stage.send(b"one")
    stage.kill("n2")
    fault = stage.storage("n2").fail("read", FILES, error=ZeroDivisionError("a mistake"))
    stage.start("n2")
    assert fault.struck and not stage.has("n2")


def test_a_log_that_could_not_be_opened_does_not_delay_the_next_one_of_its_name() -> None:
    with Stage(expects_failures=True) as stage:
        stage.sim.forgives = True
        broken_by_a_mistake(stage)
        stage.run(delete_topic(stage.client, ORDERS.topic))
        stage.until(lambda: ORDERS.topic not in stage.node("n2").broker.metadata.image.topics.by_name)
        fault = stage.storage("n2").fail("create", FILES, errno.ENOSPC)
        stage.run(stage.client.create(ORDERS, (2,), {}))
        stage.until(lambda: fault.struck)
        stage.until(lambda: stage.has("n2") and stage.leads("n2"), 10)


def test_an_earlier_retry_of_one_replica_does_not_retry_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[float] = []
    true = MissingReplicas._on_timer

    def counted(self: MissingReplicas) -> None:
        looks.append(stage.now)
        true(self)

    monkeypatch.setattr(MissingReplicas, "_on_timer", counted)
    with Stage(expects_failures=True) as stage:
        stage.sim.forgives = True
        broken_by_a_mistake(stage)
        stage.storage("n2").fail("create", "/data/other-0/*", errno.ENOSPC)
        stage.run(stage.client.create(TopicPartition("other", 0), (2,), {}))
        stage.until(lambda: len(looks) == 1 and stage.has("n2", TopicPartition("other", 0)))
        stage.until(lambda: stage.has("n2"), 70)
        stage.pass_time(5.0)
        assert len(looks) == 2
