"""Carries out a balance, a few partitions at a time, and reports how far it is."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from highwater.client.admin import Admin
from highwater.client.balance_plan import Held
from highwater.client.client import Client
from highwater.client.elections import Election, elect_leaders
from highwater.client.failures import ClientFailure
from highwater.client.log_dirs import describe_log_dirs
from highwater.client.reassignments import alter_reassignments
from highwater.client.throttles import clear_throttles, planned_moves, set_throttle
from highwater.errors import Code, KafkaError
from highwater.model import NodeId, TopicPartition

POLL_SECONDS = 0.5
Targets = Mapping[TopicPartition, Sequence[NodeId]]


class Progress(NamedTuple):
    copied: int
    """Bytes of the plan that are copied, those of moves under way included."""
    finished: list[TopicPartition]
    """The moves that were completed since the last report."""
    waiting: int
    """The moves that have not ended."""


class MoveFailed(Exception):
    """The controller refused a move."""


def carry_out(
    client: Client,
    partitions: Mapping[TopicPartition, Held],
    targets: Targets,
    at_a_time: int,
    report: Callable[[Progress], None],
    sleep: Callable[[float], None] = time.sleep,
    rate: int | None = None,
) -> None:
    """Moves the partitions to their targets, and then gives all partitions their preferred leaders. If it is
    interrupted, the moves under way go on, and a new plan takes up the rest. Raises MoveFailed.

    `rate` is the throttle: the bytes per second that the moves may take at each broker. Throttles are removed at the
    end, unless other moves are under way. So the next run removes the throttle of one that was interrupted."""
    admin = Admin(client)
    if rate is not None:
        replicas = {tp: partitions[tp].replicas for tp in targets}
        set_throttle(admin, planned_moves(targets, replicas, admin.list_reassignments()), rate)
    pending = deque(sorted(targets, key=lambda tp: (partitions[tp].size, tp)))
    added = {tp: [each for each in targets[tp] if each not in partitions[tp].replicas] for tp in targets}
    begun: set[TopicPartition] = set()
    done = 0
    while pending or begun:
        while pending and len(begun) < at_a_time:
            tp = pending.popleft()
            _begin(client, tp, targets[tp])
            begun.add(tp)
        moving = admin.list_reassignments(begun)
        finished = sorted(begun - set(moving))
        begun -= set(finished)
        done += sum(partitions[tp].size * len(added[tp]) for tp in finished)
        report(Progress(done + _copied(client, {tp: added[tp] for tp in begun}), finished, len(begun) + len(pending)))
        if begun:
            sleep(POLL_SECONDS)
    if not admin.list_reassignments():
        clear_throttles(admin)
    elect_leaders(client, Election.PREFERRED, None)


def _begin(client: Client, tp: TopicPartition, target: Sequence[NodeId]) -> None:
    error = alter_reassignments(client, {tp: target}).get(tp)
    if error is not None and error.code is not Code.UNKNOWN_TOPIC_OR_PARTITION:  # it may have been deleted meanwhile
        raise MoveFailed(f"{tp}: {error.message}")


def _copied(client: Client, added: Mapping[TopicPartition, Sequence[NodeId]]) -> int:
    """The bytes that added replicas have so far."""
    brokers = sorted({broker for each in added.values() for broker in each})
    copied = 0
    try:
        for broker, directories in describe_log_dirs(client, brokers).items():
            for directory in directories:
                sizes = directory.sizes
                copied += sum(sizes.get(tp, 0) for tp, each in added.items() if broker in each)
    except (KafkaError, ClientFailure):
        return 0  # a broker that is down holds its moves up, and has nothing to say
    return copied
