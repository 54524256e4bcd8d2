"""Partitions move among five brokers under load, while a broker and the controller are killed: nothing that was
acknowledged is lost, and the target is reached; a move that is cancelled halfway leaves what there was."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.audit import verdict_text
from highwater.client import Admin
from highwater.client.reassignments import alter_reassignments
from highwater.model import TopicPartition
from tests.cluster.feed import Writers, verdict_on
from tests.cluster.stage import Stage, staged, wait_until

TOPIC = "moving"
PARTITIONS = 10
BROKERS = 5
SETTINGS = {"auto.leader.rebalance.enable": "false", "default.replication.factor": "3"}


def replicas(stage: Stage) -> dict[int, tuple[int, ...]]:
    return {index: led.replicas for index, led in stage.led(TOPIC).items()}


def shifted(before: dict[int, tuple[int, ...]], by: int) -> dict[TopicPartition, list[int]]:
    """Every replica moves to the broker that comes `by` places later."""
    return {
        TopicPartition(TOPIC, index): [(broker - 1 + by) % BROKERS + 1 for broker in places]
        for index, places in before.items()
    }


def has_reached(stage: Stage, target: dict[TopicPartition, list[int]]) -> bool:
    led = stage.led(TOPIC)
    return len(led) == PARTITIONS and all(
        list(led[tp.partition].replicas) == wanted and set(led[tp.partition].isr) == set(wanted)
        for tp, wanted in target.items()
    )


@pytest.mark.slow
def test_nothing_is_lost_while_partitions_move_and_a_broker_and_the_controller_are_killed(tmp_path: Path) -> None:
    with staged(tmp_path / "cluster", brokers=BROKERS, settings=SETTINGS) as stage:
        stage.create_topic(TOPIC, PARTITIONS, 3, {"min.insync.replicas": "2"})
        before = replicas(stage)
        with Writers(2, stage.bootstrap, TOPIC, PARTITIONS) as writers:
            target = shifted(before, 1)
            with stage.client() as client:
                assert alter_reassignments(client, target) == {}
            stage.kill(5)  # it is a broker alone
            controller = stage.active_controller()
            stage.kill(controller)
            stage.start(5, controller)
            wait_until(lambda: has_reached(stage, target), "every partition is where it should be")
            with stage.client() as client:
                assert Admin(client).list_reassignments() == {}
                # Halfway: broker 5 cannot take what it should, and all is taken back.
                stage.kill(5)
                wait_until(lambda: 5 not in stage.unfenced(), "broker 5 is fenced")
                again = shifted(replicas(stage), 1)
                assert alter_reassignments(client, again) == {}
                moving = Admin(client).list_reassignments()
                waiting = {tp for tp, row in moving.items() if 5 in row.adding_replicas}
                assert waiting, "broker 5 was to get some of them"
                done_meanwhile = alter_reassignments(client, dict.fromkeys(moving)).keys()
                assert not waiting & done_meanwhile, "those cannot have been completed"
                stage.start(5)
                wait_until(lambda: not Admin(client).list_reassignments(), "nothing moves any more")
            kept = {tp: places for tp, places in target.items() if tp in moving and tp not in done_meanwhile}

            def is_restored() -> bool:
                now = stage.led(TOPIC)
                return (
                    all(
                        set(now[tp.partition].replicas) == set(places) and now[tp.partition].is_whole
                        for tp, places in kept.items()
                        if tp.partition in now
                    )
                    and len(now) == PARTITIONS
                )

            wait_until(is_restored, "what was cancelled is as it was, and whole")
            wait_until(lambda: stage.is_whole(TOPIC, PARTITIONS), "all is whole")
        verdict = verdict_on(stage.bootstrap, TOPIC, PARTITIONS, writers.feeds)
    assert verdict.acked > 0 and not verdict.lost, verdict_text(verdict)
    assert verdict.ok, verdict_text(verdict)
