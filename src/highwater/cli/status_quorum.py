"""The quorum and the disks of a cluster, from what its nodes answer. Pure, but for a look at the disks."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from highwater.cli.status_topics import Answer, Status
from highwater.cluster.room import shortage


class QuorumState(NamedTuple):
    voters: list[int]
    silent: list[int]
    """Voters that were asked and did not answer."""
    lost: list[int]
    """Voters that answer from another directory than the one with which the quorum knows them."""
    has_leader: bool

    @property
    def needed(self) -> int:
        return len(self.voters) // 2 + 1

    @property
    def is_lost(self) -> bool:
        return bool(self.voters) and len(self.voters) - len(self.silent) - len(self.lost) < self.needed


def quorum_state(answers: Sequence[Answer]) -> QuorumState:
    known = [status["quorum"] for _, status in answers if status is not None]
    voters = voters_of(answers)
    silent = [voter for voter in voters if (str(voter), None) in ((at.node, status) for at, status in answers)]
    has_leader = not known or any(quorum["leader"] is not None for quorum in known)
    return QuorumState(voters, silent, lost_voters(answers), has_leader)


def quorum_trouble(answers: Sequence[Answer]) -> str | None:
    """Why there is no quorum, and what does not work without one."""
    quorum = quorum_state(answers)
    if quorum.is_lost:
        why = [f"no answer comes from {ids(quorum.silent)}"] if quorum.silent else []
        votes = "its vote" if len(quorum.lost) == 1 else "their votes"
        why += [f"{ids(quorum.lost)} lost {votes}"] if quorum.lost else []
        remedy = ": start them again" if quorum.silent else ""
        return (
            f"The quorum is lost: of the voters {ids(quorum.voters)} {', and '.join(why)}, and {quorum.needed} are "
            f"needed. Until then no topic is created, no leader elected and no ISR changed{remedy}."
        )
    return None if quorum.has_leader else "The quorum has no leader: its voters have not agreed on one."


def lost_voters(answers: Sequence[Answer]) -> list[int]:
    """Nodes that answer with a voter's id, but from another directory than the one with which the quorum knows it."""
    known = {status["node"] for _, status in answers if status is not None and is_observer(status)}
    return [voter for voter in voters_of(answers) if voter in known]


def voters_of(answers: Sequence[Answer]) -> list[int]:
    """The voters, from the node with the newest knowledge."""
    known = [status["quorum"] for _, status in answers if status is not None]
    newest = max(known, key=lambda quorum: int(quorum["epoch"]), default=None)
    return [] if newest is None else list(newest["voters"])


def is_observer(status: Status) -> bool:
    return not status["quorum"].get("is_voter", True)  # a node of an older version does not report it


def full_disks(answers: Sequence[Answer]) -> list[str]:
    """One line for each full disk of this machine, with the nodes that it stops."""
    found: dict[int, tuple[str, list[str]]] = {}
    for address, _ in answers:
        directory = None if address.log_dir is None else Path(address.log_dir)
        with contextlib.suppress(OSError):
            short = None if directory is None else shortage(directory)
            if directory is not None and short is not None:
                found.setdefault(directory.stat().st_dev, (short, []))[1].append(address.node)
    return [
        f"The disk of {'node' if len(nodes) == 1 else 'nodes'} {','.join(nodes)} is full ({short}): nothing is written "
        "there until there is room."
        for short, nodes in found.values()
    ]


def ids(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))
