"""Brokers that stopped in order, and whose disk lost something before the next start."""

from __future__ import annotations

import errno
from pathlib import PurePath

import pytest

from highwater.model import NO_NODE
from tests.scenarios.damaged_replicas import (
    is_in_sync_and_leads_with_everything,
    remove_segment,
    stop_2,
    stop_2_and_lose_3,
)
from tests.scenarios.mishaps import decided
from tests.scenarios.stage import ORDERS, Stage

SENT = [b"a", b"b", b"c"]
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"


def does_not_lead_and_3_has_everything(stage: Stage) -> None:
    stage.pass_time(8)
    assert decided(stage).leader == NO_NODE
    assert decided(stage).elr == (3,)
    stage.start("n3")
    stage.until(lambda: decided(stage).leader == 3)
    assert stage.values("n3") == SENT


def test_a_broker_that_opens_a_shorter_log_only_after_its_registration_is_not_eligible_to_lead_it() -> None:
    """Descriptors are short while 2 starts, so that the log is opened two seconds later. It lacks its last segment."""
    with Stage(4, broker_session_timeout_ms=1500, expects_failures=True) as stage:
        stop_2_and_lose_3(stage, SENT)
        remove_segment(stage, "n2", 2)
        fault = stage.storage("n2").fail("open", f"/data/{ORDERS}/*.log", errno.EMFILE, times=None)
        stage.start("n2", waits=False)
        stage.until(lambda: stage.serves("n2"))
        assert fault.struck
        stage.storage("n2").mend()
        stage.until(lambda: stage.has("n2"))
        does_not_lead_and_3_has_everything(stage)


@pytest.mark.parametrize("checkpoint", [RECOVERY_POINTS, LOG_STARTS])
def test_a_broker_with_a_clean_mark_and_without_a_checkpoint_that_every_clean_stop_writes_is_not_eligible(
    checkpoint: str,
) -> None:
    """The checkpoint is gone, and with it what would show that a segment is gone, too: the last, or the first."""
    with Stage(4, broker_session_timeout_ms=1500, expects_failures=True) as stage:
        stop_2_and_lose_3(stage, SENT)
        entries = stage.storage("n2").directory(PurePath("/data")).entries
        del entries[checkpoint]
        remove_segment(stage, "n2", 2 if checkpoint == RECOVERY_POINTS else 0)
        stage.start("n2", waits=False)
        stage.until(lambda: stage.serves("n2"))
        does_not_lead_and_3_has_everything(stage)


def test_a_broker_whose_log_is_refused_after_a_clean_stop_does_not_stand_in_the_way_of_the_last_leader() -> None:
    """A segment in the middle of 2's log is cut short, so that the log is refused. 3 led last and has everything."""
    with Stage(4, broker_session_timeout_ms=1500, expects_failures=True) as stage:
        stop_2_and_lose_3(stage, SENT)
        stage.storage("n2").file(PurePath(f"/data/{ORDERS}/{1:020d}.log")).truncate(60)
        stage.start("n2", waits=False)
        stage.until(lambda: stage.serves("n2"))
        stage.pass_time(8)
        assert not stage.has("n2")
        assert decided(stage).leader == NO_NODE
        stage.start("n3")
        stage.until(lambda: decided(stage).leader == 3)
        assert stage.values("n3") == SENT


def test_a_replica_without_its_first_segment_is_fetched_anew_before_it_is_in_sync() -> None:
    """Else it may lead, and what it lacks counts as deleted: the others delete their copies of it, too."""
    with Stage(3, expects_failures=True) as stage:
        stop_2(stage, SENT)
        remove_segment(stage, "n2", 0)
        stage.start("n2")
        is_in_sync_and_leads_with_everything(stage, SENT)
