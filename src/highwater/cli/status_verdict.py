"""How a cluster stands, in one line. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from highwater.broker.internal_topics import is_internal
from highwater.cli.status_quorum import quorum_state
from highwater.cli.status_topics import Answer, Part, brokers, leaderless, partitions


class StatusVerdict(NamedTuple):
    text: str
    is_well: bool


def verdict_of(answers: Sequence[Answer], full_disks: int = 0) -> StatusVerdict:
    """Brokers, partitions, disks and the quorum, with what is wrong."""
    full = [f"{_count(full_disks, 'disk')} full"] if full_disks else []
    troubles = [*_of_partitions(answers), *_of_logs(answers), *full, *_of_quorum(answers)]
    up, all_brokers = _brokers(answers)
    parts = [f"{up} of {all_brokers} brokers"] if all_brokers else [f"{_count(len(answers), 'controller')}"]
    shown = [name for name in _known(answers) if not is_internal(name[0])]
    if not troubles:
        parts.append(f"{_count(len(shown), 'partition')}, all in sync" if shown else "no topics yet")
    return StatusVerdict(", ".join([*parts, *troubles]), not troubles and up == all_brokers)


def led(answers: Sequence[Answer]) -> list[Part]:
    """Each partition as its leader sees it. Where two take themselves for the leader, the later epoch counts."""
    found: dict[tuple[str, int], Part] = {}
    for _, part in partitions(answers):
        name = (part["topic"], part["partition"])
        if part["role"] == "leader" and (name not in found or found[name]["leader_epoch"] < part["leader_epoch"]):
            found[name] = part
    return list(found.values())


def unled(answers: Sequence[Answer]) -> list[Part]:
    """Partitions whose leader was asked and does not answer, as another replica sees them."""
    silent = {address.node for address, status in answers if status is None}
    has_leader = {(part["topic"], part["partition"]) for part in (*led(answers), *_leaderless(answers))}
    found: dict[tuple[str, int], Part] = {}
    for _, part in partitions(answers):
        name = (part["topic"], part["partition"])
        if name not in has_leader and str(part["leader"]) in silent:
            found.setdefault(name, part)
    return list(found.values())


def _known(answers: Sequence[Answer]) -> set[tuple[str, int]]:
    return {(part["topic"], part["partition"]) for _, part in partitions(answers)}


def _leaderless(answers: Sequence[Answer]) -> list[Part]:
    return leaderless(answers, None, internal=True)


def _brokers(answers: Sequence[Answer]) -> tuple[int, int]:
    """Those that serve, and all: by the newest metadata, and by who answers."""
    known = brokers(answers)
    silent = {address.node for address, status in answers if status is None}
    return sum(not each["fenced"] and str(each["id"]) not in silent for each in known), len(known)


def _of_partitions(answers: Sequence[Answer]) -> list[str]:
    leading = led(answers)
    found = [
        (_names([*_leaderless(answers), *unled(answers)]), "without a leader"),
        (_names([part for part in leading if len(part["isr"]) < part["min_isr"]]), "below min.insync.replicas"),
        (_names([part for part in leading if len(part["isr"]) < len(part["replicas"])]), "under-replicated"),
    ]
    return [_counted(topics, what) for topics, what in found if topics]


def _counted(topics: list[str], what: str) -> str:
    own = sum(not is_internal(topic) for topic in topics)
    internal = len(topics) - own
    if not own:
        return f"{_count(internal, 'partition')} of internal topics {what}"
    text = f"{_count(own, 'partition')} {what}"
    return f"{text} (and {internal} of internal topics)" if internal else text


def _names(parts: list[Part]) -> list[str]:
    return [part["topic"] for part in parts]


def _of_logs(answers: Sequence[Answer]) -> list[str]:
    parts = [part for _, part in partitions(answers)]
    offline = sum(part["offline"] is not None for part in parts)
    unwritten = sum(part["offline"] is None and part["unwritten"] is not None for part in parts)
    damaged = sum(bool(part["damage"]) for part in parts)
    counted = ((offline, "offline"), (unwritten, "not writable"), (damaged, "damaged"))
    return [f"{_count(many, 'log')} {what}" for many, what in counted if many]


def _of_quorum(answers: Sequence[Answer]) -> list[str]:
    quorum = quorum_state(answers)
    many = len(quorum.voters)
    down = f"{len(quorum.silent)} of {many} voters {_are(len(quorum.silent))} down" if quorum.silent else ""
    lost = f"{len(quorum.lost)} of {many} voters lost {_their(len(quorum.lost))}" if quorum.lost else ""
    why = " and ".join(each for each in (down, lost) if each)
    if quorum.is_lost:
        return [f"quorum lost: {why}"]
    if not quorum.has_leader:
        return ["the quorum has no leader", *([why] if why else [])]
    return [why] if why else []


def _count(many: int, what: str) -> str:
    return f"{many} {what}" if many == 1 else f"{many} {what}s"


def _are(many: int) -> str:
    return "is" if many == 1 else "are"


def _their(many: int) -> str:
    return "its vote" if many == 1 else "their votes"
