"""ORDERS with two replicas, on n2 and n3: what scenarios about them share."""

from __future__ import annotations

from highwater.errors import Code
from highwater.model import NO_NODE
from tests.scenarios.stage import Stage
from tests.scenarios.visitor import PREFERRED, UNCLEAN


def lead(stage: Stage, name: str) -> int:
    """Once nobody leads, start this replica alone and have it lead, whatever it lacks; its epoch."""
    stage.until(lambda: stage.image().leader == NO_NODE)
    stage.start(name)
    assert stage.run(stage.client.elect(UNCLEAN)) in (Code.NONE, Code.ELECTION_NOT_NEEDED)
    stage.until(lambda: stage.leader() == name)
    return stage.partition(name).epoch


def write_alone(stage: Stage, name: str, *values: bytes) -> int:
    epoch = lead(stage, name)
    for value in values:
        stage.write(name, value)
    stage.kill(name)
    return epoch


def in_step(stage: Stage) -> bool:
    return stage.image().isr in ((2, 3), (3, 2)) and stage.log("n2").log_end == stage.log("n3").log_end


def lead_again(stage: Stage, name: str) -> int:
    """The first of the replicas, which runs and is in sync, gets its leadership back; its epoch."""
    assert stage.run(stage.client.elect(PREFERRED)) is Code.NONE
    stage.until(lambda: stage.leader() == name)
    return stage.partition(name).epoch
