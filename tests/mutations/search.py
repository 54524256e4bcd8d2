"""The rules of replication, broken one at a time: each is found by an exhaustive search in the scope that it names."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_SCOPE = "tests/sim/test_search.py::test_no_order_of_events_breaks_a_promise"
_LEADER = "src/highwater/replication/leader.py"
_FOLLOWER = "src/highwater/replication/follower.py"
_CONTROLLER = "src/highwater/controller"

MUTATIONS: list[Mutation] = [
    Mutation(
        "F161",  # a lost log keeps its leader epoch: what takes its place could not be told from it
        f"{_SCOPE}[pair-damage]",
        f"{_CONTROLLER}/directories.py",
        "record.leader = partition.leader",
        "pass",
    ),
    Mutation(
        "F162",  # the high watermark counts the committed ISR, not the maximal one
        f"{_SCOPE}[pair-joining]",
        _LEADER,
        "return proposal.isr if proposal is not None and proposal.expands else self.isr",
        "return self.isr",
    ),
    Mutation(
        "F163",  # a shrink counts before it is committed
        f"{_SCOPE}[pair]",
        _LEADER,
        "return proposal.isr if proposal is not None and proposal.expands else self.isr",
        "return proposal.isr if proposal is not None else self.isr",
    ),
    Mutation(
        "F164",  # joining needs only the high watermark, not the start of this epoch
        f"{_SCOPE}[pair-power]",
        _LEADER,
        "and progress.end >= self.epoch_start",
        "and True",
    ),
    Mutation(
        "F165",  # the controller takes a fenced broker into the ISR
        f"{_SCOPE}[pair-joining]",
        f"{_CONTROLLER}/alter_partition.py",
        "if broker is None or not broker.active:",
        "if broker is None:",
    ),
    Mutation(
        "F166",  # it elects outside the ISR
        f"{_SCOPE}[pair-joining]",
        f"{_CONTROLLER}/elections.py",
        "return (replica in isr or (not isr and replica in elr)) and acceptable(replica)",
        "return acceptable(replica)",
    ),
    Mutation(
        "F167",  # a follower truncates to its high watermark, not by epoch
        f"{_SCOPE}[pair-parted]",
        _FOLLOWER,
        "cut = cut_for_divergence(history, log.end, epoch, leader_end)",
        "cut = high_watermark",
    ),
    Mutation(
        "F168",  # flush mode: the leader counts its written end
        f"{_SCOPE}[pair-flush]",
        _LEADER,
        "lowest = self.durable_end if self.terms.flushes else self.end",
        "lowest = self.end",
    ),
    Mutation(
        "F169",  # flush mode: the fetch leaves before the sync
        f"{_SCOPE}[pair-flush]",
        "src/highwater/replication/conversation.py",
        "self._syncing[key] = self.followers[key]",
        "pass",
    ),
    Mutation(
        "F170",  # the high watermark moves while the ISR is below min.insync.replicas
        f"{_SCOPE}[pair-min-two]",
        _LEADER,
        "if lowest <= self.high_watermark or self.is_offline or not self.enough_in_sync:",
        "if lowest <= self.high_watermark or self.is_offline:",
    ),
    Mutation(
        "F171",  # a member of the eligible leader replicas that stopped uncleanly stays eligible
        f"{_SCOPE}[pair-power]",
        f"{_CONTROLLER}/elections.py",
        "return [r for r in candidates if r in replicas and r not in isr and r != unclean_shutdown]",
        "return [r for r in candidates if r in replicas and r not in isr]",
    ),
    Mutation(
        "F172",  # a follower cannot begin amid a batch
        f"{_SCOPE}[pair-delete]",
        "src/highwater/replication/reconciliation.py",
        "return base if log_start == log_end and base < log_end <= last else None",
        "return None",
    ),
]
