"""A partition as lanes, one for each replica: the log as a strip with its offsets, and why a replica is out of sync.

Offsets and times are texts, since a browser's numbers are exact up to 2**53 only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from highwater.console.node_status import Status

EPOCHS_SHOWN: Final = 32
CHANGES_SHOWN: Final = 12
NO_ANSWER: Final = "the node does not answer"

Lanes = dict[str, Any]


def lanes_of(topic: str, index: int, answers: Mapping[int, Status | None]) -> Lanes | None:
    """From what each node answered about the partition. None if no node has a replica of it."""
    known = {node: each for node, each in answers.items() if each is not None}
    if not known:
        return None
    newest = max(known.values(), key=lambda each: (each["leader_epoch"], each["partition_epoch"]))
    leading = [each for each in known.values() if each["role"] == "leader"]
    leader = max(leading, key=lambda each: int(each["leader_epoch"]), default=None)
    if leader is not None and leader["leader_epoch"] < newest["leader_epoch"]:
        leader = None  # it does not know yet that it was replaced
    view = newest if leader is None else leader
    # Before the new leader answers, the ISR is not known: no follower reports it.
    isr = [] if leader is None else leader["isr"]
    followers = {} if leader is None else {each["id"]: each for each in leader["followers"]}
    return {
        "topic": topic,
        "partition": index,
        "source": "highwater",
        "leader": -1 if leader is None else leader["node"],
        "leader_epoch": view["leader_epoch"],
        "isr": isr,
        "min_isr": None if leader is None else leader["min_isr"],
        "pending_isr": None if leader is None else leader["pending_isr"],
        "replicas": view["replicas"],
        "log_start": str(view["log_start"]),
        "high_watermark": str(view["high_watermark"]),
        "log_end": str(view["log_end"]),
        "epochs": [
            {"epoch": each["epoch"], "start": str(each["start"])} for each in view.get("epochs", ())[-EPOCHS_SHOWN:]
        ],
        "lanes": [_lane(node, known.get(node), leader, followers.get(node)) for node in view["replicas"]],
        "fetches": [] if leader is None else [_fetch(each) for each in leader.get("follower_fetches", ())],
        "changes": _changes(known),
    }


def _lane(node: int, answer: Status | None, leader: Status | None, follower: Mapping[str, Any] | None) -> Lanes:
    is_leader = leader is not None and leader["node"] == node
    in_isr = leader is not None and node in leader["isr"]
    end = None if answer is None else answer["log_end"]
    if end is None and follower is not None and follower["log_end"] >= 0:
        end = follower["log_end"]
    lag = None if leader is None or end is None else max(leader["log_end"] - end, 0)
    troubles = () if answer is None else (answer["offline"], answer["unwritten"], *answer["damage"])
    return {
        "node": node,
        "role": "leader" if is_leader else "follower",
        "answers": answer is not None,
        "in_isr": in_isr,
        "log_start": None if answer is None else str(answer["log_start"]),
        "high_watermark": None if answer is None else str(answer["high_watermark"]),
        "log_end": None if end is None else str(end),
        "durable_end": None if answer is None else str(answer["durable_end"]),
        "size": None if answer is None else str(answer["size"]),
        "lag": None if lag is None else str(lag),
        "lag_ms": None if follower is None else str(follower["lag_ms"]),
        "why": _why(answer, is_leader, leader, follower),
        "trouble": [str(each) for each in troubles if each],
    }


def _why(
    answer: Status | None, is_leader: bool, leader: Status | None, follower: Mapping[str, Any] | None
) -> str | None:
    if is_leader:
        return None
    if follower is not None and follower["why"]:
        return str(follower["why"])
    if answer is None:
        return NO_ANSWER
    return "the partition has no leader that answers" if leader is None else None


def _fetch(each: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "follower": each["follower"],
        "offset": str(each["offset"]),
        "high_watermark": str(each["high_watermark"]),
        "bytes": str(each["bytes"]),
        "ago": each["seconds_ago"],
    }


def _changes(known: Mapping[int, Status]) -> list[dict[str, Any]]:
    """Of all replicas, the newest first."""
    found = [
        {"node": node, "ago": each["seconds_ago"], "what": each["what"]}
        for node, answer in known.items()
        for each in answer.get("changes", ())
    ]
    return sorted(found, key=lambda each: float(each["ago"]))[:CHANGES_SHOWN]


def grid_of(topic: str, statuses: Mapping[int, Status | None]) -> list[Lanes]:
    """All partitions of a topic, each as small lanes, from the statuses that list its partitions."""
    rows: dict[int, dict[int, Status | None]] = {}
    for node, status in statuses.items():
        for row in (status or {}).get("partitions", ()):
            if row["topic"] == topic:
                rows.setdefault(row["partition"], {})[node] = {"node": node, **row}
    found = (lanes_of(topic, index, rows[index]) for index in sorted(rows))
    return [_small(each) for each in found if each is not None]


def _small(lanes: Lanes) -> Lanes:
    return {name: value for name, value in lanes.items() if name not in ("fetches", "changes", "epochs", "topic")}
