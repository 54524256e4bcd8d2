"""The rules of replication, broken one at a time: each is found by an exhaustive search in the scope that it names."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_SCOPE = "tests/sim/test_search.py::test_no_order_of_events_breaks_a_promise"
_LEADER = "src/highwater/replication/leader.py"
_FOLLOWER = "src/highwater/replication/follower.py"
_CONTROLLER = "src/highwater/controller"

MUTATIONS: list[Mutation] = [
    Mutation(
        "F161",  # a lost log keeps its leader epoch: what takes its place looks the same
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
        "return self._diverged(cut_for_divergence(history, log.end, epoch, leader_end), row, log)",
        "return self._diverged(high_watermark, row, log)",
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
        "if lowest <= self.high_watermark or self.is_frozen or not self.enough_in_sync:",
        "if lowest <= self.high_watermark or self.is_frozen:",
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
    Mutation(
        "F202",  # a change that was refused is granted to a copy of the request that comes late
        f"{_SCOPE}[pair-repeated]",
        f"{_CONTROLLER}/alter_partition.py",
        "self._put(topic_id, partition, PartitionChangeRecord(topic_id=topic_id, partition_id=asked.partition_index))",
        "pass",
    ),
    Mutation(
        "F202",
        "tests/unit/controller/test_alter_partition.py::test_a_refused_proposal_is_not_granted_to_a_late_copy",
        f"{_CONTROLLER}/alter_partition.py",
        "self._put(topic_id, partition, PartitionChangeRecord(topic_id=topic_id, partition_id=asked.partition_index))",
        "pass",
    ),
    Mutation(
        "F203",  # the controller takes a stale partition epoch
        f"{_SCOPE}[pair-repeated]",
        f"{_CONTROLLER}/alter_partition.py",
        "if asked.partition_epoch < partition.partition_epoch:",
        "if False:",
    ),
    Mutation(
        "F204",  # what a follower said before it left the ISR brings it back
        f"{_SCOPE}[pair]",
        _LEADER,
        "and not progress.has_left",
        "and True",
    ),
    Mutation(
        "F205",  # a fetch of another leader epoch counts
        f"{_SCOPE}[pair-damage]",
        "src/highwater/replication/serving.py",
        "if believed >= 0 and believed != epoch:",
        "if False:",
    ),
    Mutation(
        "F206",  # an answer to a fetch from another place changes the log
        f"{_SCOPE}[pair-delete]",
        _FOLLOWER,
        "if self.is_moved or self.asked_last > fetch:",
        "if False:",
    ),
    Mutation(
        "F207",  # progress outlives the term in which it was reported
        f"{_SCOPE}[pair-joining]",
        _LEADER,
        "self.waiting, before.waiting = before.waiting, deque()",
        "self.waiting, self.followers = before.waiting, before.followers\nself._recount()",
    ),
    Mutation(
        "F208",  # a fetch of an earlier life of a follower counts
        f"{_SCOPE}[pair]",
        _LEADER,
        "if broker_epoch < known:",
        "if False:",
    ),
    Mutation(
        "F209",  # a follower's log start is never written down
        f"{_SCOPE}[pair-delete]",
        _FOLLOWER,
        "keep_log_start=rises,",
        "keep_log_start=False,",
    ),
    Mutation(
        "F210",  # a follower takes a batch of a later epoch than its own
        f"{_SCOPE}[three-cold]",
        _FOLLOWER,
        "if batch.leader_epoch > self.epoch:",
        "if False:",
    ),
    Mutation(
        "F211",  # a broker fetches before it is registered, and an unknown epoch counts as any: each covers the others
        f"{_SCOPE}[pair-power]",
        "src/highwater/sim/search/fetches.py",
        "if node.talk is not None and node.is_alive and self._registered(state, node):",
        "if node.talk is not None and node.is_alive:",
        also=(
            Mutation(
                "",
                "",
                _LEADER,
                "return epoch is not None and epoch == self.brokers.get(replica)",
                "return epoch in (-1, self.brokers.get(replica))",
            ),
            Mutation(
                "",
                "",
                f"{_CONTROLLER}/alter_partition.py",
                "if member.epoch != broker.epoch and (joins or member.epoch != ANY_EPOCH):",
                "if member.epoch not in (broker.epoch, ANY_EPOCH):",
            ),
        ),
    ),
    Mutation(
        "F253",  # a member of the ELR that is down still has records that are called deleted
        f"{_SCOPE}[pair-eligible]",
        _LEADER,
        "if self.brokers.get(replica) is not None or replica in self.elr:",
        "if self.brokers.get(replica) is not None:",
    ),
]
