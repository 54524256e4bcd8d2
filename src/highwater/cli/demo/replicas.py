"""The replicas of the orders, from what each broker answers, as numbers that do not contradict each other. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Row = Mapping[str, Any]
"""A partition in a broker's /status."""


@dataclass(frozen=True, slots=True)
class Replica:
    epoch: int
    high_watermark: int
    log_end: int


@dataclass(frozen=True, slots=True)
class Look:
    """What one broker has answered: its rows by partition."""

    answers: bool = False
    """False: the rows are from an earlier answer."""
    rows: Mapping[int, Row] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionState:
    leader: int
    """-1: no broker that answers leads."""
    epoch: int
    in_sync: tuple[int, ...]
    high_watermark: int
    replicas: Mapping[int, Replica] = field(default_factory=dict)
    """By broker. Of one that does not answer: as it was seen last."""


def partition_state(
    looks: Mapping[int, Look], partition: int, before: PartitionState | None, floor: int
) -> PartitionState:
    """`floor` is an offset below which all is committed, since it was acknowledged or read.

    Brokers answer one after the other, and a log grows in between. So the leader has at least what any follower of its
    epoch has, and at least the highest high watermark is committed.
    """
    rows = {broker: look.rows[partition] for broker, look in looks.items() if partition in look.rows}
    replicas = {broker: _replica(row) for broker, row in sorted(rows.items())}
    live = {broker: row for broker, row in rows.items() if looks[broker].answers}
    epoch = max([each["leader_epoch"] for each in live.values()] + ([before.epoch] if before else [0]))
    leader = next(
        (broker for broker, row in live.items() if row["role"] == "leader" and row["leader_epoch"] == epoch), -1
    )
    committed = max([floor, *(each.high_watermark for each in replicas.values())])
    in_sync = tuple(sorted(rows[leader]["isr"])) if leader in rows else before.in_sync if before else ()
    if leader in replicas:
        same = [each.log_end for each in replicas.values() if each.epoch == epoch]
        replicas[leader] = replace(replicas[leader], high_watermark=committed, log_end=max([committed, *same]))
    return PartitionState(leader, epoch, in_sync, committed, replicas)


def _replica(row: Row) -> Replica:
    return Replica(row["leader_epoch"], row["high_watermark"], row["log_end"])
