"""min.insync.replicas is changed while an ISR shrinks: what the controller decides by the new bound, no leader may
count by the old one. A replica that leaves an ISR below the bound is in the ELR, and may be elected cleanly."""

from __future__ import annotations

from functools import partial

import pytest

from highwater.errors import Code
from highwater.metadata.configs import ResourceType
from highwater.model import NO_NODE
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from tests.scenarios.mishaps import decided
from tests.scenarios.stage import ORDERS, Pending, Stage


def set_bound(stage: Stage, bound: str, at: str) -> None:
    config = AlterableConfig(name="min.insync.replicas", value=bound)
    resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=ORDERS.topic, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    stage.run(stage.visitor("operator").ask(at, request, IncrementalAlterConfigsResponse), by="operator")


def three_in_sync(stage: Stage) -> None:
    stage.create(replicas=(2, 3, 4), min_insync_replicas=2)
    for at in range(3):
        stage.send(b"v%d" % at)
    stage.until(lambda: all(stage.log(name).high_watermark == 3 for name in ("n3", "n4")))


def kept_by_who_is_elected(stage: Stage, sent: Pending[int]) -> None:
    """n4 is in the ELR. Either the record was not acknowledged, or n4 has it."""
    stage.until(lambda: stage.log("n2").config.min_insync_replicas == 3)
    stage.until(lambda: stage.partition("n2").require_leader().isr == (2, 3))
    assert decided(stage).elr == (4,)
    stage.pass_time(1.0)
    assert not sent.done
    assert stage.log("n2").high_watermark == 3
    stage.kill("n2", "n3")
    stage.heal()
    stage.until(lambda: stage.leader() == "n4")


def test_a_shrink_that_the_leader_asked_for_does_not_count_before_the_bound_that_it_was_decided_by() -> None:
    """The answer to the leader's request comes while its metadata is still on the way."""
    slow = {"broker_session_timeout_ms": 6000, "broker_heartbeat_interval_ms": 1000, "replica_lag_time_max_ms": 1000}
    with Stage(4, **slow) as stage:
        three_in_sync(stage)
        stage.cut("n2", "n4")
        stage.cut("n2", "n1")
        sent = stage.begin(stage.visitor("writer").send(b"v3", seconds=60), by="writer")
        set_bound(stage, "3", at="n3")
        stage.pass_time(2.5)
        stage.heal("n2", "n1")
        kept_by_who_is_elected(stage, sent)


def test_a_shrink_in_the_same_metadata_as_a_raised_bound_counts_by_the_new_one() -> None:
    slow = {"broker_session_timeout_ms": 3000, "broker_heartbeat_interval_ms": 300, "replica_lag_time_max_ms": 60_000}
    with Stage(4, **slow) as stage:
        three_in_sync(stage)
        stage.isolate("n4")
        sent = stage.begin(stage.visitor("writer").send(b"v3", seconds=60), by="writer")
        stage.pass_time(2.0)
        stage.cut("n2", "n1")
        set_bound(stage, "3", at="n3")
        stage.until(lambda: 4 not in decided(stage).isr)
        stage.heal("n2", "n1")
        kept_by_who_is_elected(stage, sent)


def test_another_bound_while_no_replica_leads_does_not_make_the_partition_leaderless_for_good() -> None:
    """Just then an operator tries it. The ELR means nothing under another bound, but it alone names who may lead."""
    with Stage(4, broker_session_timeout_ms=1500) as stage:
        three_in_sync(stage)
        for name in ("n4", "n2", "n3"):
            stage.cut(name, "n1")
            stage.until(lambda: int(name[1]) not in decided(stage).isr)  # noqa: B023 called at once
        stage.until(lambda: decided(stage).leader == NO_NODE)
        assert (decided(stage).isr, decided(stage).elr) == ((), (2, 3))
        set_bound(stage, "1", at="n1")
        stage.heal()
        stage.until(lambda: decided(stage).leader in (2, 3))
        stage.until(lambda: set(decided(stage).isr) == {2, 3, 4})
        assert stage.values("n4") == [b"v0", b"v1", b"v2"]
        assert stage.node("n1").controller.unclean_elections == 0


@pytest.mark.parametrize("clean", [True, False])
def test_a_lower_bound_without_a_leader_lets_an_eligible_replica_lead_and_others_join(clean: bool) -> None:
    """The last member of the ELR stays dead. What is written then is acknowledged by the leader alone, so that one is
    not eligible any more."""
    with Stage(4, broker_session_timeout_ms=1500) as stage:
        three_in_sync(stage)
        for name in ("n4", "n3", "n2"):
            (stage.stop if clean else stage.isolate)(name)
            stage.until(lambda: int(name[1]) not in decided(stage).isr)  # noqa: B023 called at once
        stage.until(lambda: decided(stage).leader == NO_NODE)
        set_bound(stage, "1", at="n1")
        assert (decided(stage).isr, decided(stage).elr) == ((), (2, 3))
        (stage.start if clean else partial(stage.heal, "n1"))("n2")
        stage.until(lambda: decided(stage).leader == 2)
        assert (decided(stage).isr, decided(stage).elr) == ((2,), ())
        epoch = decided(stage).partition_epoch
        if clean:
            stage.start("n4")
        else:
            stage.heal("n1", "n4")
            stage.heal("n2", "n4")
        stage.until(lambda: set(decided(stage).isr) == {2, 4})
        assert decided(stage).partition_epoch <= epoch + 3, "one change, and not one after another"
        stage.send(b"v3")


def test_a_broker_that_stopped_cleanly_leads_again_after_the_bound_was_changed() -> None:
    with Stage(4, broker_session_timeout_ms=1500) as stage:
        three_in_sync(stage)
        stage.stop("n4")
        stage.kill("n3")
        stage.until(lambda: tuple(decided(stage).isr) == (2,))
        stage.stop("n2")
        stage.until(lambda: decided(stage).leader == NO_NODE)
        set_bound(stage, "1", at="n1")
        for name in ("n3", "n4", "n2"):
            stage.start(name)
        stage.until(lambda: decided(stage).leader == 2)
        stage.until(lambda: set(decided(stage).isr) == {2, 3, 4})


def test_a_leader_that_was_killed_last_leads_again_after_another_bound_was_set_meanwhile() -> None:
    """All stopped uncleanly, so that nobody is eligible any more once they come back; but who led last is known."""
    with Stage(4, broker_session_timeout_ms=1500) as stage:
        three_in_sync(stage)
        for name in ("n4", "n3", "n2"):
            stage.kill(name)
            stage.until(lambda: int(name[1]) not in decided(stage).isr)  # noqa: B023 called at once
        set_bound(stage, "1", at="n1")
        stage.start("n4", "n3", "n2")
        stage.until(lambda: decided(stage).leader == 2)
        stage.until(lambda: set(decided(stage).isr) == {2, 3, 4})


def test_a_leader_whose_term_is_over_commits_nothing_by_a_bound_that_was_lowered_since() -> None:
    """It hears of both in the same metadata. What it has with a follower of then, the next leader does not have."""
    slow = {"broker_session_timeout_ms": 3000, "broker_heartbeat_interval_ms": 300, "replica_lag_time_max_ms": 1000}
    with Stage(4, watched=True, **slow) as stage:
        three_in_sync(stage)
        set_bound(stage, "3", at="n1")
        stage.until(lambda: stage.log("n2").config.min_insync_replicas == 3)
        stage.cut("n2", "n4")
        sent = stage.begin(stage.visitor("writer").produce("n2", b"v3", ms=20_000), by="writer")
        stage.until(lambda: stage.partition("n2").require_leader().isr == (2, 3))
        assert (decided(stage).elr, stage.log("n3").log_end, stage.log("n2").high_watermark) == ((4,), 4, 3)
        stage.isolate("n2")
        stage.kill("n3")
        stage.until(lambda: decided(stage).leader == 4)
        set_bound(stage, "2", at="n1")
        stage.heal()
        stage.until(lambda: sent.done)
        assert sent.result.code is Code.NOT_LEADER_OR_FOLLOWER
        stage.start("n3")
        stage.until(lambda: set(decided(stage).isr) == {2, 3, 4})
