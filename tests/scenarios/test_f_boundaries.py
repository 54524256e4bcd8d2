"""A mistake in the program, wherever it strikes, ends what it struck and nothing more.

The disk of the simulation makes the mistake: it raises what no disk raises, in the midst of whatever touches the file.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from highwater.active_controller import k62_broker_registration
from highwater.broker import own_settings, waiting_fetch
from highwater.broker.missing import MISTAKE_SECONDS
from highwater.controller.decision import Decision
from highwater.errors import Code
from highwater.groups.shard import GroupShard
from highwater.log.compaction.account import Account
from highwater.model import TopicPartition
from highwater.net.client import CallFailed
from highwater.partition import fetcher
from highwater.partition.partition import Partition
from highwater.raft_node import k01_fetch as quorum_fetch
from highwater.wire import records
from highwater.wire.messages.broker_registration_response import BrokerRegistrationResponse
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse
from highwater.world.boundary import Kind
from tests.scenarios.mishaps import decided, delete_topic
from tests.scenarios.stage import ORDERS, Stage

OTHER = TopicPartition("other", 0)
MISTAKE = ZeroDivisionError("a mistake")


@contextmanager
def forgiving(**settings: object) -> Iterator[Stage]:
    with Stage(expects_failures=True, **settings) as stage:
        stage.sim.forgives = True
        yield stage
        assert not stage.sim.failures
        assert not stage.cluster.failures
        assert all(stage.member(name).hosted.gave_up is None for name in stage.cluster.names)


def failed(stage: Stage, node: str, kind: Kind) -> int:
    return stage.node(node).world.failures.counts[kind]


async def write_keyed(stage: Stage, tp: TopicPartition) -> None:
    batch = records.build([(stage.client.world.clock.wall_ms(), b"key", bytes(400_000), ())])
    topic_id = stage.truth.topics.by_name[tp.topic].id
    data = PartitionProduceData(index=tp.partition, records=bytes(batch))
    topic = TopicProduceData(name=tp.topic, topic_id=topic_id, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic])
    answer = await stage.client.ask("n2", request, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == Code.NONE


def test_retention_that_fails_at_one_partition_goes_on_at_the_others_and_at_the_next_time_there_too() -> None:
    changes = {"log_retention_check_interval_ms": 1000, "log_initial_task_delay_ms": 1000}
    with forgiving(**changes) as stage:
        for tp in (ORDERS, OTHER):
            stage.create(tp, replicas=(2, 3), retention_ms=1000, segment_bytes=1048576)
            stage.send(bytes(800_000), tp=tp)
            stage.send(bytes(800_000), tp=tp)
        stage.storage("n2").fail("rename", "/data/orders-0/*.log", error=MISTAKE)
        stage.until(lambda: stage.log("n2", OTHER).log_start >= 1)
        assert failed(stage, "n2", "partition") == 1
        for _ in range(2):
            stage.send(bytes(800_000))
        stage.until(lambda: stage.log("n2").log_start >= 3)


def test_upkeep_that_fails_at_one_partition_goes_on_at_the_others() -> None:
    changes = {"producer_id_expiration_check_interval_ms": 1000, "producer_id_expiration_ms": 1000}
    with forgiving(**changes) as stage:
        for tp in (ORDERS, OTHER):
            stage.create(tp, replicas=(2,))
        logs = [partition.log for partition in stage.node("n2").broker.hosted]
        looked_at: list[TopicPartition] = []

        def mistaken(now: int, after: int) -> None:
            raise MISTAKE

        logs[0].producers.expire = mistaken  # type: ignore[method-assign]
        logs[1].producers.expire = lambda now, after: looked_at.append(logs[1].partition)  # type: ignore[method-assign]
        stage.until(lambda: len(looked_at) >= 2)
        assert failed(stage, "n2", "partition") >= 2
        assert failed(stage, "n2", "periodic") == 0


def test_a_controller_whose_clockwork_fails_once_still_fences_silent_brokers() -> None:
    with forgiving(voters=1, broker_session_timeout_ms=2000) as stage:
        stage.create(ORDERS, replicas=(2, 3))
        controller = stage.node("n1").controller
        assert controller is not None
        clockwork = controller._clockwork
        clockwork._rebalance_at, rebalance = 0.0, clockwork._elect_some
        mistakes = iter([MISTAKE])

        def mistaken(*args: object) -> None:
            for mistake in mistakes:
                raise mistake
            rebalance(*args)  # type: ignore[arg-type]

        clockwork._elect_some = mistaken  # type: ignore[method-assign]
        stage.until(lambda: failed(stage, "n1", "periodic"))
        stage.pause("n2")
        stage.until(lambda: decided(stage).leader == 3)


def test_a_checkpoint_that_meets_a_mistake_is_written_later() -> None:
    with forgiving(log_flush_offset_checkpoint_interval_ms=500, log_initial_task_delay_ms=500) as stage:
        stage.create(ORDERS, replicas=(2,), flush_messages=1)
        fault = stage.storage("n2").fail("create", "/data/recovery-point-offset-checkpoint*", times=2, error=MISTAKE)
        stage.send(b"one")
        stage.until(lambda: fault.struck == 2)
        stage.until(lambda: failed(stage, "n2", "job") == 2)

        def written() -> bool:
            data = stage.storage("n2").durable_bytes(stage.node("n2").broker.store.recovery_points.path)
            return data is not None and b"orders 0 1" in data

        stage.until(written)


@pytest.mark.parametrize("operation", ["append", "sync"])
def test_a_log_that_meets_a_mistake_is_followed_by_another_and_its_neighbours_stay(operation: str) -> None:
    with forgiving() as stage:
        for tp in (ORDERS, OTHER):
            stage.create(tp, replicas=(2, 3), flush_messages=1, min_insync_replicas=1)
        stage.send(b"one")
        leads = stage.partition("n2", OTHER).epoch
        pattern = "/data/orders-0/*.log"
        stage.storage("n2").fail(operation, pattern, times=None, error=MISTAKE)  # type: ignore[arg-type]
        stage.send(b"two")
        stage.send(b"three", tp=OTHER)
        assert stage.partition("n2", OTHER).epoch == leads
        stage.until(lambda: stage.leader() == "n3" or operation == "append")


def test_a_log_that_meets_a_mistake_while_it_is_loaded_is_left_out_and_the_others_serve() -> None:
    with forgiving() as stage:
        for tp in (ORDERS, OTHER):
            stage.create(tp, replicas=(2,))
            stage.send(b"one", tp=tp)
        stage.kill("n2")
        stage.storage("n2").fail("read", "/data/orders-0/*", times=None, error=MISTAKE)
        stage.start("n2")
        stage.send(b"two", tp=OTHER)
        assert list(stage.node("n2").broker.store.unloaded) == [ORDERS]
        assert failed(stage, "n2", "partition")
        stage.kill("n2")
        stage.storage("n2").mend()
        stage.start("n2")
        stage.send(b"two")
        assert stage.values("n2") == [b"one", b"two"]


def test_a_log_that_met_a_mistake_while_it_was_loaded_is_opened_again_later_and_not_often() -> None:
    """What is read to meet the mistake again may be gigabytes. A neighbour that waits for room is tried more often."""
    with forgiving() as stage:
        for tp in (ORDERS, OTHER):
            stage.create(tp, replicas=(2,))
            stage.send(b"one", tp=tp)
        stage.kill("n2")
        fault = stage.storage("n2").fail("read", "/data/orders-0/*.log", times=2, error=MISTAKE)
        short = stage.storage("n2").fail("read", "/data/other-0/*.log", errno.EMFILE, times=10)
        stage.start("n2")
        begun = stage.now
        stage.until(lambda: short.struck == 10)
        assert fault.struck == 1
        stage.until(lambda: stage.has("n2") and stage.leads("n2"), 200)
        assert fault.struck == 2
        assert stage.now - begun > 2 * MISTAKE_SECONDS - 1
        stage.send(b"two")
        assert stage.values("n2") == [b"one", b"two"]
        assert stage.values("n2", OTHER) == [b"one"]


def test_a_log_that_meets_a_mistake_when_it_is_opened_again_is_left_out_and_the_others_serve() -> None:
    with forgiving() as stage:
        for tp in (ORDERS, OTHER):
            stage.create(tp, replicas=(2,))
            stage.send(b"one", tp=tp)
        stage.kill("n2")
        stage.storage("n2").fail("read", "/data/orders-0/*", errno.EMFILE, times=1)
        stage.start("n2")
        assert ORDERS in stage.node("n2").broker.store.unloaded
        stage.storage("n2").fail("read", "/data/orders-0/*", times=None, error=MISTAKE)
        stage.until(lambda: failed(stage, "n2", "partition"))
        stage.send(b"two", tp=OTHER)


def test_a_replica_that_meets_a_mistake_while_it_is_made_is_made_later_and_the_others_at_once() -> None:
    with forgiving() as stage:
        stage.storage("n2").fail("create", "/data/orders-0/*", times=None, error=MISTAKE)
        neighbour = TopicPartition(ORDERS.topic, 1)
        stage.create(neighbour, replicas=(2,))
        stage.send(b"one", tp=neighbour)
        assert failed(stage, "n2", "partition") == 1
        stage.storage("n2").mend()
        stage.send(b"one")


@pytest.mark.parametrize("woken", [False, True])
def test_a_fetch_that_meets_a_mistake_after_it_has_waited_ends_with_its_connection(
    woken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an exception in a handler: a client that gets no answer could not notice it."""
    true, mistakes = waiting_fetch.read, [MISTAKE]

    def mistaken(*args: Any) -> Any:
        if mistakes and args[2].replica < 0:
            raise mistakes.pop()
        return true(*args)

    async def is_cut_off(stage: Stage) -> bool:
        try:
            await stage.client.fetch("n2", 1, wait_ms=500)
        except CallFailed:
            return True
        return False

    with forgiving() as stage:
        stage.create(ORDERS, replicas=(2,))
        stage.send(b"one")
        asked = stage.begin(is_cut_off(stage))
        stage.pass_time(0.1)
        assert not asked.done
        monkeypatch.setattr(waiting_fetch, "read", mistaken)
        if woken:
            stage.run(stage.visitor("other").produce("n2", b"two"), by="other")
        stage.until(lambda: asked.done, 5)
        assert asked.result
        assert failed(stage, "n2", "connection") == 1
        stage.send(b"three")


def test_a_fetch_of_the_quorum_that_meets_a_mistake_ends_with_its_connection_and_the_node_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true, mistakes = quorum_fetch._Fetch._respond, [MISTAKE]

    def mistaken(*args: Any) -> Any:
        if mistakes:
            raise mistakes.pop()
        return true(*args)

    with forgiving() as stage:
        monkeypatch.setattr(quorum_fetch._Fetch, "_respond", mistaken)
        stage.create(ORDERS, replicas=(2, 3))
        stage.send(b"one")
        assert failed(stage, "n1", "connection") == 1


def test_a_cleaning_that_meets_a_mistake_leaves_its_log_and_goes_on_with_the_others() -> None:
    with forgiving(log_cleaner_backoff_ms=500) as stage:
        stage.storage("n2").fail("create", "/data/orders-0/*.cleaned", times=None, error=MISTAKE)
        for tp in (ORDERS, OTHER):
            stage.create(
                tp, replicas=(2,), cleanup_policy="compact,delete", segment_bytes=1048576, min_cleanable_dirty_ratio=0
            )
            for _ in range(4):
                stage.run(write_keyed(stage, tp))
        account = stage.node("n2").broker.cleaner.account
        stage.until(lambda: stage.log("n2", OTHER).clean_end)
        assert failed(stage, "n2", "task") == 1
        assert "a mistake" in account.setbacks[ORDERS].reason
        stage.run(write_keyed(stage, ORDERS))


def test_a_cleaner_that_meets_a_mistake_while_it_looks_around_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    look, mistakes = Account.forget_gone, [MISTAKE]

    def mistaken(self: Account, logs: Any) -> None:
        if mistakes:
            raise mistakes.pop()
        look(self, logs)

    with forgiving(log_cleaner_backoff_ms=500) as stage:
        stage.create(
            ORDERS, replicas=(2,), cleanup_policy="compact", segment_bytes=1048576, min_cleanable_dirty_ratio=0
        )
        monkeypatch.setattr(Account, "forget_gone", mistaken)
        for _ in range(4):
            stage.run(write_keyed(stage, ORDERS))
        stage.until(lambda: not mistakes)
        stage.until(lambda: stage.log("n2").clean_end)
        assert sum(failed(stage, name, "periodic") for name in stage.cluster.names) == 1


@pytest.mark.parametrize("code", [Code.REQUEST_TIMED_OUT, Code.UNKNOWN_SERVER_ERROR])
def test_a_broker_that_the_controller_could_not_take_in_for_once_asks_again(
    monkeypatch: pytest.MonkeyPatch, code: Code
) -> None:
    decide, refusals = k62_broker_registration.register_broker, [code] * 3

    def refused(*args: Any) -> Any:
        if refusals:
            return Decision(BrokerRegistrationResponse(error_code=refusals.pop()))
        return decide(*args)

    monkeypatch.setattr(k62_broker_registration, "register_broker", refused)
    with forgiving() as stage:
        assert not refusals
        stage.create(ORDERS, replicas=(2, 3))


def test_a_follower_that_meets_a_mistake_at_one_partition_goes_on_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a leader's answer is taken in, each partition has its part by itself."""
    taken, mistakes = Partition.append_fetched, [MISTAKE] * 3

    def mistaken(self: Partition, data: memoryview) -> None:
        if self.tp == ORDERS and mistakes:
            raise mistakes.pop()
        taken(self, data)

    with forgiving() as stage:
        for tp in (ORDERS, OTHER):
            stage.create(tp, replicas=(2, 3))
        monkeypatch.setattr(Partition, "append_fetched", mistaken)
        stage.send(b"one", tp=OTHER)
        stage.send(b"two")
        assert failed(stage, "n3", "partition") == 3
        assert sorted(decided(stage).isr) == [2, 3]
        assert (stage.values("n3"), stage.values("n3", OTHER)) == ([b"two"], [b"one"])


def test_a_failing_callback_for_a_commit_does_not_affect_the_others() -> None:
    with forgiving() as stage:
        stage.create(ORDERS, replicas=(2, 3))
        codes: list[Code] = []

        def mistaken(code: Code) -> None:
            raise MISTAKE

        leader = stage.partition("n2")
        for waits in (codes.append, mistaken, codes.append):
            leader.when_committed(1, waits)
        stage.send(b"one")
        assert codes == [Code.NONE, Code.NONE]
        assert failed(stage, "n2", "connection") == 1
        assert sorted(decided(stage).isr) == [2, 3]


def test_a_mistake_while_a_fetch_is_made_delays_no_other_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fetch counts as on its way by then. Another one follows on another connection."""
    true, struck, armed = fetcher._unwanted, [0], [False]

    def unwanted(keys: list[Any]) -> Any:
        if armed[0] and not struck[0]:
            struck[0] += 1
            raise MISTAKE
        return true(keys)

    monkeypatch.setattr(fetcher, "_unwanted", unwanted)
    with forgiving() as stage:
        for tp in (ORDERS, OTHER):
            stage.create(tp, replicas=(2, 3))
            stage.send(b"a", tp=tp)
        armed[0] = True
        for tp in (ORDERS, OTHER):
            stage.send(b"b", tp=tp)
        stage.until(lambda: all(stage.log("n3", tp).high_watermark == 2 for tp in (ORDERS, OTHER)))
        assert struck[0] == 1
        assert failed(stage, "n3", "periodic") == 1


def test_a_forwarded_request_that_meets_a_mistake_after_it_has_waited_ends_with_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its response waits until newer metadata is applied. It is then sent within the work that applies metadata."""

    def mistaken(*_: Any) -> Any:
        raise MISTAKE

    async def is_cut_off(stage: Stage) -> bool:
        value = AlterableConfig(name="retention.ms", config_operation=0, value="100000")
        of_topic = AlterConfigsResource(resource_type=2, resource_name=ORDERS.topic, configs=[value])
        of_another = AlterConfigsResource(resource_type=4, resource_name="3", configs=[])
        request = IncrementalAlterConfigsRequest(resources=[of_another, of_topic])
        try:
            await stage.client.ask("n2", request, IncrementalAlterConfigsResponse)
        except CallFailed:
            return True
        return False

    with forgiving() as stage:
        stage.create(ORDERS, replicas=(2, 3))
        monkeypatch.setattr(own_settings, "_joined", mistaken)
        broker = stage.node("n2").broker
        assert broker is not None
        stage.node("n2").world.call(broker.metadata.newer_is_known)
        asked = stage.begin(is_cut_off(stage))
        stage.until(lambda: asked.done, 5)
        assert asked.result
        assert failed(stage, "n2", "connection") == 1
        stage.create(OTHER, replicas=(2, 3))
        stage.send(b"one", tp=OTHER)


def test_groups_that_meet_a_mistake_when_a_topic_is_deleted_do_not_keep_metadata_from_being_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def mistaken(*_: Any) -> Any:
        raise MISTAKE

    with forgiving() as stage:
        stage.create(ORDERS, replicas=(2, 3))
        monkeypatch.setattr(GroupShard, "topics_deleted", mistaken)
        stage.create(TopicPartition("__consumer_offsets", 0), replicas=(2,))
        stage.until(lambda: stage.leads("n2", TopicPartition("__consumer_offsets", 0)))
        stage.pass_time(2.0)
        stage.run(delete_topic(stage.client, ORDERS.topic))
        stage.until(lambda: not stage.has("n2") and not stage.has("n3"))
        stage.create(OTHER, replicas=(2, 3))
        stage.send(b"one", tp=OTHER)
        assert failed(stage, "n2", "callback") == 1
