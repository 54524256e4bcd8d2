"""Group C, the controller quorum."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, Waiting

DURABILITY = "tests/scenarios/test_c_durability.py"
SNAPSHOTS = "tests/scenarios/test_c_snapshots.py"
FAULTS = "tests/scenarios/test_c_faults.py"
PARTITIONS = "tests/scenarios/test_c_partitions.py"
ELECTIONS = "tests/scenarios/test_c_elections.py"

MUTATIONS: list[Mutation] = [
    Mutation(
        "C1",
        f"{ELECTIONS}::test_c1_a_vote_is_synced_before_it_is_answered_so_a_power_cut_does_not_bring_a_second_one",
        "src/highwater/raft_node/raft_node.py",
        'await replaced(self.world, path, ready.election.to_json().encode(), where="quorum")',
        'self.world.spawn("vote", replaced(self.world, path, ready.election.to_json().encode()), lambda _: None)',
    ),
    Mutation(
        "C2",
        f"{ELECTIONS}::test_c2_a_leader_that_restarts_in_its_epoch_does_not_lead_it_again",
        "src/highwater/quorum/core.py",
        "return Resigned(stored.epoch, self.local.id, self.identity.node.listeners, timeout, others)",
        "return Candidate(stored.epoch, timeout, Tally(self.voters, self.local.id), self.local)",
    ),
    Mutation(
        "C3",
        f"{DURABILITY}::test_c3_offsets_count_once_they_are_synced_so_the_power_cut_of_all_voters_takes_nothing_back",
        "src/highwater/log/durability.py",
        "self._world.disk.flush(files, lambda error: self._synced(end, cuts, error, False))",
        "self._world.clock.call_soon(self._synced, end, cuts, None, False)",
    ),
    Mutation(
        "C4",
        f"{DURABILITY}::test_c4_a_node_whose_leader_asks_for_a_cut_below_its_high_watermark_stops_and_keeps_records",
        "src/highwater/quorum/core.py",
        "self.check_not_committed(offset)",
        "pass",
    ),
    Mutation(
        "C6",
        f"{ELECTIONS}::test_c6_a_leader_that_is_cut_from_the_majority_but_not_from_clients_resigns_within_its_timeout",
        "src/highwater/quorum/leader.py",
        "if len(self.voters) == 1 and self.is_voter:",
        "if True:",
    ),
    Mutation(
        "C7",
        f"{ELECTIONS}::test_c7_a_voter_that_was_isolated_is_denied_its_pre_vote_and_raises_no_epoch",
        "src/highwater/quorum/follower.py",
        "return pre_vote and log_is_current and not self.has_fetched",
        "return pre_vote and log_is_current",
    ),
    Mutation(
        "C8",
        f"{SNAPSHOTS}::test_c8_the_log_goes_only_below_a_whole_snapshot_and_a_snapshots_id_is_the_offset_behind_it",
        "src/highwater/raft_node/raft_node.py",
        "position = LogPosition(last.epoch, last.last_offset + 1)",
        "position = LogPosition(last.epoch, last.last_offset)",
    ),
    Mutation(
        "C9",
        f"{SNAPSHOTS}::test_c9_a_broken_snapshot_is_never_used_and_all_states_at_one_offset_are_equal",
        "src/highwater/raft_node/snapshots.py",
        "for batch in scan(file, 0, 0):",
        "for batch in scan(file, 0, 0, check=False):",
    ),
    Mutation(
        "C11",
        f"{FAULTS}::test_c11_a_batch_that_cannot_be_applied_stops_the_node_that_commits_it_and_is_never_seen",
        "src/highwater/raft_node/inputs.py",
        "except Exception as failed:  # noqa: BLE001 a broken invariant, or a record that cannot be applied",
        "except AssertionError as failed:",
    ),
    Mutation(
        "C12",
        f"{PARTITIONS}::test_c12_a_majority_of_five_survives_cuts_and_deaths_and_all_agree_in_the_end",
        "src/highwater/quorum/leader.py",
        "replicated = ends[len(ends) // 2]",
        "replicated = ends[len(ends) // 2 - 1]",
    ),
]
WAITING: list[Waiting] = [
    Waiting("C5", "a voter that lost its disk joins under a new directory id by AddRaftVoter, which comes later"),
    Waiting("C10", "voters cannot be added or removed yet, so the active controller cannot be removed either"),
]
