"""The partitions that `highwater status` shows: those of one topic, or all except those of internal topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from highwater.broker.internal_topics import is_internal

Status = dict[str, Any]
Part = dict[str, Any]


class Address(NamedTuple):
    node: str
    http: str
    log_dir: str | None = None
    """Its data directory, if that is on this machine."""


Answer = tuple[Address, Status | None]


def brokers(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """The registered brokers, by the newest metadata."""
    known = [status for _, status in answers if status is not None and "brokers" in status]
    newest = max(known, key=lambda status: int(status["metadata_offset"]), default=None)
    return [] if newest is None else list(newest["brokers"])


def are_fenced_unawares(answers: Sequence[Answer]) -> set[str]:
    """Nodes that take themselves for active: they are cut off from the controller, which has fenced them."""
    fenced = {str(each["id"]) for each in brokers(answers) if each["fenced"]}
    return {
        address.node
        for address, status in answers
        if status is not None and status.get("standing") == "active" and str(status.get("node")) in fenced
    }


def partitions(answers: Sequence[Answer]) -> Iterator[tuple[Address, Part]]:
    """Every replica in the answers of the nodes; a controller has none."""
    for address, status in answers:
        for part in () if status is None else status.get("partitions", ()):
            yield address, part


def leaderless(answers: Sequence[Answer], topic: str | None, internal: bool = False) -> list[Part]:
    """Partitions without a leader, from the node with the newest metadata; of one topic, or of all that are not
    internal, or of all."""
    known = [status for _, status in answers if status is not None and "leaderless" in status]
    newest = max(known, key=lambda status: int(status["metadata_offset"]), default=None)
    found: list[Part] = [] if newest is None else newest["leaderless"]
    shown = [
        part
        for part in found
        if (internal or not is_internal(part["topic"]) if topic is None else part["topic"] == topic)
    ]
    return sorted(shown, key=lambda part: (part["topic"], part["partition"]))


def of_topic(answers: Sequence[Answer], topic: str) -> list[Answer]:
    """Without the decisions of controllers, which concern all topics."""
    return _reduced(answers, lambda part: part["topic"] == topic, lambda what: False)


def without_internal(answers: Sequence[Answer], unless: Callable[[Part], bool] = lambda part: False) -> list[Answer]:
    return _reduced(
        answers,
        lambda part: not is_internal(part["topic"]) or unless(part),
        lambda what: not is_internal(what.split(" ")[0].rpartition("-")[0]),
    )


def _reduced(answers: Sequence[Answer], shows: Callable[[Part], bool], keeps: Callable[[str], bool]) -> list[Answer]:
    reduced: list[Answer] = []
    for address, status in answers:
        if status is not None:
            status = dict(status)
            if "partitions" in status:
                status["partitions"] = [part for part in status["partitions"] if shows(part)]
            if "decisions" in status:
                status["decisions"] = [each for each in status["decisions"] if keeps(each["what"])]
        reduced.append((address, status))
    return reduced


def internal_lines(answers: Sequence[Answer]) -> list[str]:
    """One line for each internal topic that has trouble, and one for all others: one of them has 50 partitions, which
    would hide all else."""
    found: dict[str, dict[int, Part | None]] = {}
    for _, part in partitions(answers):
        if is_internal(part["topic"]):
            leaders = found.setdefault(part["topic"], {})
            leaders.setdefault(part["partition"], None)
            if part["role"] == "leader":
                leaders[part["partition"]] = part
    troubles = {topic: _troubles(list(leaders.values())) for topic, leaders in sorted(found.items())}
    lines = [
        f"{topic}: {len(found[topic])} partitions, [red]{trouble}[/red] (--topic {topic} shows them)"
        for topic, trouble in troubles.items()
        if trouble
    ]
    well = [topic for topic, trouble in troubles.items() if not trouble]
    return lines + ([f"[dim]not shown: {', '.join(well)} (--internal shows all topics)[/dim]"] if well else [])


def _troubles(leaders: list[Part | None]) -> str:
    leaderless = sum(part is None for part in leaders)
    short = sum(part is not None and len(part["isr"]) < len(part["replicas"]) for part in leaders)
    troubles = [f"{leaderless} without a leader that answers"] if leaderless else []
    troubles += [f"{short} with replicas out of sync"] if short else []
    return ", ".join(troubles)


def unknown(answers: Sequence[Answer], topic: str) -> str | None:
    """Why nothing can be shown of a topic; None if a node has a partition of it."""
    known = sorted({part["topic"] for _, part in partitions(answers)})
    if topic in known or leaderless(answers, topic):
        return None
    near = get_close_matches(topic, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "`highwater topics --list` names those that there are"
    silent = ", ".join(address.node for address, status in answers if status is None)
    return f"no node that answers has a topic {topic}{f' (no answer from {silent})' if silent else ''}: {hint}"
