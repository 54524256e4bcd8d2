"""Plans of moves: what a page asks for, before anything is moved, and the command that does the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any, Final

from highwater.client import Client
from highwater.client.balance_plan import CannotDrain, plan
from highwater.client.balance_sight import Sight, look
from highwater.client.factor_plan import TooFewBrokers, plan_factor
from highwater.console.given import BadQuestion
from highwater.model import NodeId, TopicPartition

MOST_ROWS: Final = 5000
MOST_THROTTLE: Final = 1 << 40
BALANCES: Final = ("balance", "drain")
"""They take a few partitions at a time. Others begin all their moves at once."""

Targets = dict[TopicPartition, tuple[NodeId, ...]]


def planned(client: Client, order: Mapping[str, Any]) -> dict[str, Any]:
    """The partitions that would change, with the bytes that would be copied. Raises BadQuestion."""
    sight = look(client)
    try:
        targets = _targets(sight, order)
    except (CannotDrain, TooFewBrokers) as wrong:
        raise BadQuestion(str(wrong)) from wrong
    if len(targets) > MOST_ROWS:
        raise BadQuestion(f"{len(targets)} partitions would change; the page moves {MOST_ROWS} at most")
    held = sight.partitions
    copied = sum(held[tp].size * len(set(now) - set(held[tp].replicas)) for tp, now in targets.items())
    return {
        "rows": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "before": list(held[tp].replicas),
                "after": list(now),
                "bytes": str(held[tp].size * len(set(now) - set(held[tp].replicas))),
            }
            for tp, now in sorted(targets.items())
        ],
        "bytes": str(copied),
        "moving": len(sight.moving),
    }


def _targets(sight: Sight, order: Mapping[str, Any]) -> Targets:
    match order.get("kind"):
        case "balance":
            return plan(sight.settled, sight.places).targets
        case "drain":
            brokers = _brokers(sight, order.get("brokers"))
            return plan(sight.settled, sight.places, brokers).targets
        case "factor":
            topic, factor = order.get("topic"), order.get("factor")
            chosen = [tp for tp in sight.settled if tp.topic == topic]
            if not chosen:
                raise BadQuestion(f"there is no topic {topic}, or all of it is moving")
            if not isinstance(factor, int) or isinstance(factor, bool):
                raise BadQuestion("the replication factor is a number")
            return plan_factor(sight.partitions, chosen, sight.places, factor)
        case "move":
            partition = order.get("partition")
            tp = TopicPartition(str(order.get("topic")), partition if isinstance(partition, int) else -1)
            if tp not in sight.partitions:
                raise BadQuestion(f"there is no partition {tp.topic}-{partition}")
            target = tuple(_brokers(sight, order.get("replicas")))
            return {} if target == sight.partitions[tp].replicas and tp not in sight.moving else {tp: target}
    raise BadQuestion("a plan is balance, drain, factor or move")


def _brokers(sight: Sight, given: object) -> list[NodeId]:
    if not isinstance(given, list) or not given or not all(isinstance(each, int) for each in given):
        raise BadQuestion("name brokers by their numbers")
    if len(set(given)) < len(given):
        raise BadQuestion("a broker can have a partition once only")
    known = {place.id for place in sight.places}
    unknown = [each for each in given if each not in known]
    if unknown:
        raise BadQuestion(
            f"there is no broker {unknown[0]}, or it is down; there are {', '.join(map(str, sorted(known)))}"
        )
    return [NodeId(each) for each in given]


def targets_of(rows: Sequence[Mapping[str, Any]] | None, replicas: str = "after") -> dict[TopicPartition, list[int]]:
    """From the rows of a plan, as the page sends them back. Raises BadQuestion."""
    if not rows:
        raise BadQuestion("there is nothing to move")
    if len(rows) > MOST_ROWS:
        raise BadQuestion(f"the page moves {MOST_ROWS} partitions at most")
    return {TopicPartition(row["topic"], row["partition"]): row[replicas] for row in rows}


def throttle_of(order: Mapping[str, Any]) -> int | None:
    """Bytes per second, as a text. Raises BadQuestion."""
    text = order.get("throttle")
    if text is None or text == "":
        return None
    if (
        not isinstance(text, str)
        or not text.isascii()
        or not text.isdecimal()
        or not 0 < int(text[:20]) <= MOST_THROTTLE
    ):
        raise BadQuestion("a throttle is a number of bytes per second")
    return int(text)


# Commands


def start_command(bootstrap: str, order: Mapping[str, Any], targets: Mapping[TopicPartition, Sequence[int]]) -> str:
    if order.get("kind") == "balance":
        return f"highwater balance --bootstrap-server {bootstrap} --execute"
    if order.get("kind") == "drain":
        drained = " ".join(f"--drain {int(each)}" for each in order.get("brokers") or ())
        return f"highwater balance --bootstrap-server {bootstrap} {drained} --execute"
    throttle = throttle_of(order)
    limit = "" if throttle is None else f" --throttle {throttle}"
    return _with_plan(bootstrap, targets, f"--execute --additional{limit}")


def cancel_command(bootstrap: str, targets: Mapping[TopicPartition, Sequence[int]]) -> str:
    return _with_plan(bootstrap, targets, "--cancel")


def elect_command(bootstrap: str) -> str:
    return f"highwater leader-election --bootstrap-server {bootstrap} --election-type preferred --all-topic-partitions"


def _with_plan(bootstrap: str, targets: Mapping[TopicPartition, Sequence[int]], action: str) -> str:
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
        for tp, replicas in sorted(targets.items())
    ]
    text = json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"))
    return (
        f"echo {quote(text)} > plan.json\n"
        f"highwater reassign --bootstrap-server {bootstrap} --reassignment-json-file plan.json {action}"
    )
