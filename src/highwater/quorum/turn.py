"""What a replica does by itself after every input: it acts on timeouts, ends elections and sends requests."""

from __future__ import annotations

from highwater.quorum.candidate import Candidate
from highwater.quorum.core import Core
from highwater.quorum.epochs import announce, take_leave
from highwater.quorum.fetching import fetch_next
from highwater.quorum.follower import Follower
from highwater.quorum.leader import Leader
from highwater.quorum.prospective import Prospective
from highwater.quorum.resigned import Resigned
from highwater.quorum.unattached import Unattached
from highwater.quorum.voting import ask_votes

_STEPS_MAX = 8
"""More than the longest chain of transitions after one input: Unattached, Prospective, Candidate, Leader, Resigned."""


def take_turn(core: Core, now: float) -> None:
    core.links.expire(now)
    for _ in range(_STEPS_MAX):
        before = core.role
        _step(core, now)
        if core.role is before:
            break
    else:
        raise AssertionError(f"the steps of {core.role} do not end")
    _send(core, now)


def next_deadline(core: Core) -> float | None:
    """When `take_turn` has something to do without any input."""
    times = [core.role.deadline()] if _acts_on_deadline(core) else []
    link_change = core.links.next_change()
    if link_change is not None:
        times.append(link_change)
    return min(times, default=None)


def _acts_on_deadline(core: Core) -> bool:
    """Whether the role's deadline applies. Observers and replicas that are stopping start no election."""
    if isinstance(core.role, Leader):
        return True
    if isinstance(core.role, Resigned):
        return not core.stopping
    return core.is_voter and not core.stopping


def _step(core: Core, now: float) -> None:
    role = core.role
    timed_out = _acts_on_deadline(core) and now >= role.deadline()
    match role:
        case Prospective():
            if role.may_stand(now):
                core.become_candidate(now)
            elif role.tally.is_rejected or timed_out:
                _give_up(core, role, now)
        case Candidate():
            if role.tally.is_granted:
                core.become_leader(role.tally, now)
            elif timed_out:
                core.become_prospective(now)
        case Leader():
            resigns_at = role.resigns_at
            is_due = resigns_at is not None and now >= resigns_at
            if is_due:
                core.effects.resigns_because = role.why_resigning(now)
            if core.stopping or is_due:
                core.become_resigned(role, now)
        case Unattached() | Follower():
            if timed_out:
                core.become_prospective(now)
        case Resigned():
            if timed_out:
                # It must not vote in the epoch that it led, and cannot follow there. In the next epoch it can do both.
                core.become_unattached(role.epoch + 1, now)


def _give_up(core: Core, prospective: Prospective, now: float) -> None:
    """No majority would vote for this replica, so it follows its leader again, if it knows one (KIP-996)."""
    if prospective.leader_id is not None and prospective.leader_listeners:
        core.become_follower(prospective.epoch, prospective.leader_id, prospective.leader_listeners, now)
    else:
        core.become_unattached(prospective.epoch, now, prospective.leader_id)


def _send(core: Core, now: float) -> None:
    match core.role:
        case Prospective() | Candidate() as nominee:
            ask_votes(core, nominee, now)
        case Leader() as leader:
            announce(core, leader, now)
        case Resigned() as resigned:
            take_leave(core, resigned, now)
        case Follower() | Unattached() as replica:
            fetch_next(core, replica, now)
