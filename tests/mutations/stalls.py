"""Faults that reviews proved: disks that hang, a quorum that commits nothing, clocks that leap."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_HANGING = "tests/scenarios/test_hanging_disks.py::"
_LEADER = "src/highwater/quorum/leader.py"
_RAFT = "src/highwater/raft_node/raft_node.py"
_GIVES_WAY = _HANGING + "test_a_leader_of_the_quorum_whose_disk_hangs_gives_way_to_another_voter_and_follows_it_later"

MUTATIONS = [
    Mutation(
        "F960",  # a leader of the quorum whose disk hangs leads for ever, and nothing is committed
        _GIVES_WAY,
        _LEADER,
        "return min(self._check_quorum_at, self._syncing_since + self._timing.sync_timeout)",
        "return self._check_quorum_at",
    ),
    Mutation(
        "F960",
        _GIVES_WAY,
        _RAFT,
        "self._inputs.feed(self.quorum.wrote)",
        "pass",
    ),
    Mutation(
        "F960",
        _HANGING + "test_a_leader_whose_disk_hangs_before_it_has_begun_its_epoch_gives_way",
        _RAFT,
        "self._inputs.add(self.quorum.wrote)",
        "pass",
    ),
    Mutation(
        "F960",  # and one with a slow disk loses the lead again and again
        "tests/unit/quorum/test_epochs.py::test_a_leader_with_a_slow_disk_stays_while_each_sync_ends_in_time",
        _LEADER,
        "if durable_end > self._local_end:\nself._syncing_since = now",
        "pass",
    ),
]
