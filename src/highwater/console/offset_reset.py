"""New offsets of a group: first as a preview, then committed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from shlex import quote
from typing import Any

from highwater.client import Client
from highwater.client.groups import Groups
from highwater.client.offsets import EARLIEST, LATEST
from highwater.console.browsing import offsets_at
from highwater.console.given import BadQuestion, number
from highwater.model import TopicPartition

FORMS = ("earliest", "latest", "time", "offset", "shift")


def planned(client: Client, group: str, order: Mapping[str, Any]) -> dict[TopicPartition, tuple[int | None, int]]:
    """The committed offset of each partition, and the new one. Raises BadQuestion."""
    if not group:
        raise BadQuestion("name a group")
    topic, form = str(order.get("topic", "")), order.get("form")
    if not topic or form not in FORMS:
        raise BadQuestion("name a topic, and earliest, latest, time, offset or shift")
    at = _number(order.get("at", "0"), form == "shift")
    client.forget(topic)
    known = client.retrying(lambda: client.topic(topic)).partitions
    chosen = order.get("partition")
    if chosen is not None and chosen not in known:
        raise BadQuestion(f"{topic} has no partition {chosen}")
    places = [TopicPartition(topic, index) for index in sorted(known) if chosen in (None, index)]
    committed = {place: each.offset for place, each in Groups(client).committed(group).items()}
    firsts = offsets_at(client, dict.fromkeys(places, EARLIEST))
    ends = offsets_at(client, dict.fromkeys(places, LATEST))
    timed = offsets_at(client, dict.fromkeys(places, at)) if form == "time" else {}
    plan = {}
    for place in places:
        before = committed.get(place)
        if form == "shift" and before is None:
            raise BadQuestion(f"{place} has no committed offset to shift")
        wanted = {
            "earliest": firsts[place],
            "latest": ends[place],
            "offset": at,
            "shift": (before or 0) + at,
            "time": timed.get(place, -1) if timed.get(place, -1) >= 0 else ends[place],
        }[form]
        plan[place] = (before, max(min(wanted, ends[place]), firsts[place]))
    return plan


def preview(plan: Mapping[TopicPartition, tuple[int | None, int]]) -> list[dict[str, Any]]:
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "before": None if before is None else str(before),
            "after": str(after),
        }
        for place, (before, after) in plan.items()
    ]


def command_of(bootstrap: str, group: str, order: Mapping[str, Any]) -> str:
    """The command that does the same."""
    topic = str(order.get("topic", ""))
    if order.get("partition") is not None:
        topic += f":{order['partition']}"
    form, at = order.get("form"), str(order.get("at", "0"))
    options = {
        "earliest": "--to-earliest",
        "latest": "--to-latest",
        "offset": f"--to-offset {at}",
        "shift": f"--shift-by {at}",
        "time": f"--to-datetime {_datetime(at)}",
    }
    whose = f"--group {quote(group)} --topic {quote(topic)}"
    return f"highwater groups --bootstrap-server {bootstrap} --reset-offsets {whose} {options[str(form)]} --execute"


def _number(value: object, may_be_negative: bool) -> int:
    text = str(value).strip() or "0"
    if may_be_negative and text.startswith("-"):
        return -number(text.removeprefix("-"), "the number")
    return number(text, "the number")


def _datetime(milliseconds: str) -> str:
    try:
        when = datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return milliseconds
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}"
