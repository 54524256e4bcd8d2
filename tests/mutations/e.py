"""Group E: producers, transactions, groups, fetch sessions."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, Waiting

_PRODUCERS = "tests/scenarios/test_e_producers.py"
_SESSIONS = "tests/scenarios/test_e_sessions.py"
_GROUPS = "tests/scenarios/test_e_groups.py"

MUTATIONS: list[Mutation] = [
    Mutation(
        "E1",
        f"{_PRODUCERS}::"
        "test_e1_batches_that_are_repeated_after_a_leader_change_keep_their_offsets_and_a_gap_is_refused",
        "src/highwater/log/producer_state.py",
        "WINDOW = 5",
        "WINDOW = 1",
    ),
    Mutation(
        "E2",
        f"{_PRODUCERS}::test_e2_producer_state_follows_the_log_after_a_cut_and_a_crash",
        "src/highwater/log/truncation.py",
        "if offset > log_end:",
        "if offset > log_end + 6:",
    ),
    Mutation(
        "E2",
        f"{_PRODUCERS}::test_e2_five_batches_in_segments_of_their_own_are_known_after_the_end_of_every_node[cut_power]",
        "src/highwater/log/producer_snapshot.py",
        "for seen in earlier:",
        "for seen in ():",
    ),
    Mutation(
        "E3",
        f"{_PRODUCERS}::test_e3_a_producer_whose_records_are_deleted_goes_on_and_no_follower_stalls",
        "src/highwater/log/loader.py",
        "start = self._restore_snapshot(producers)",
        "start = self.segments[0].base_offset",
    ),
    Mutation(
        "E4",
        f"{_PRODUCERS}::test_e4_sequences_go_round_from_the_largest_number_to_zero",
        "src/highwater/wire/records/header.py",
        "return (self.base_sequence + self.last_offset_delta) % _SEQUENCES",
        "return self.base_sequence + self.last_offset_delta",
    ),
    Mutation(
        "E10",
        f"{_SESSIONS}::test_e10_no_partition_starves_in_a_session_whose_answers_are_always_full",
        "src/highwater/broker/waiting_fetch.py",
        "if not row.size and row.error is Code.NONE and room > 0 and not row.has_no_room and not row.is_passing:",
        "if not row.size and row.error is Code.NONE:",
    ),
    Mutation(
        "E10",
        f"{_SESSIONS}::test_e10_a_session_is_held_to_leader_epochs_and_to_its_own",
        "src/highwater/partition/fetching.py",
        "partition.check_epoch(entry.epoch)",
        "partition.check_epoch(-1)",
    ),
    Mutation(
        "E12",
        f"{_GROUPS}::test_e12_a_commit_outlives_its_coordinator_and_one_that_is_not_replicated_is_not_acknowledged",
        "src/highwater/coordinator/tenure.py",
        "if self._partition.log.high_watermark > appended.last_offset:",
        "if self._partition.log.log_end > appended.last_offset:",
    ),
    Mutation(
        "E12",
        f"{_GROUPS}::test_e12_a_zombie_of_an_old_generation_is_refused_by_every_coordinator",
        "src/highwater/groups/commits.py",
        "return PHASES[group.state].commit if generation == group.generation else Code.ILLEGAL_GENERATION",
        "return PHASES[group.state].commit",
    ),
    Mutation(
        "E12",
        f"{_GROUPS}::test_e12_of_two_processes_with_one_instance_id_the_former_is_fenced",
        "src/highwater/groups/group.py",
        "self.instances[old.instance_id] = new_id",
        "pass",
    ),
]
WAITING: list[Waiting] = [
    *(Waiting(f"E{number}", "transactions are not built yet") for number in range(5, 10)),
    Waiting("E11", "the consumer protocol of KIP-848 is not built yet"),
    Waiting("E13", "InitProducerId with a transactional id comes with transactions"),
]
