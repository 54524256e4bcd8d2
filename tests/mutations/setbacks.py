"""Faults that reviews suspected and tests proved: what fails once is tried again, and fails nobody else."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_QUORUM = "tests/scenarios/test_f_quorum.py"

MUTATIONS: list[Mutation] = [
    Mutation(
        "F106",
        f"{_QUORUM}::test_the_only_voter_begins_its_epoch_once_there_is_room",
        "src/highwater/raft_node/raft_node.py",
        "if not is_passing(failed.__cause__):",
        "if True:",
    ),
    Mutation(
        "F106",
        f"{_QUORUM}::test_a_voter_that_is_elected_and_has_no_room_for_its_epoch_lets_another_lead",
        "src/highwater/quorum/machine.py",
        "self._core.log_busy = self._core.log.written_end != self._core.log.durable_end",
        "pass",
    ),
    Mutation(
        "F106",
        f"{_QUORUM}::test_the_first_controller_of_a_cluster_waits_for_room_for_its_first_records",
        "src/highwater/raft_node/active.py",
        "self.raft.resign(epoch)  # whoever is elected next writes them, once there is room",
        "pass",
    ),
    Mutation(
        "F105",
        "tests/scenarios/test_d_faults.py::test_d9_a_segment_is_closed_only_with_its_index_of_aborted_transactions",
        "src/highwater/log/segment.py",
        "self.aborted.write()",
        "pass",
    ),
    Mutation(
        "F105",
        "tests/scenarios/test_d_faults.py::test_d9_a_cut_forgets_entries_that_no_file_has",
        "src/highwater/log/index.py",
        "self.file.truncate(min(entries * self.ENTRY.size, self.file.size))",
        "self.file.truncate(entries * self.ENTRY.size)",
    ),
    Mutation(
        "F105",
        "tests/scenarios/test_d_faults.py::test_d9_an_index_of_aborted_transactions_for_which_room_was_short_is_written_later",
        "src/highwater/log/log.py",
        "if is_passing(failed) and not isinstance(failed, Poisoned):",
        "if False:",
    ),
    Mutation(
        "F103",
        "tests/scenarios/test_f_missing.py::test_a_deleted_log_whose_files_cannot_be_put_aside_is_gone_though_nobody_wants_its_name",
        "src/highwater/log/retired.py",
        "self._in_the_way[partition] = again",
        "again.cancel()",
    ),
    Mutation(
        "F103",
        "tests/scenarios/test_f_missing.py::test_a_damaged_log_that_cannot_be_put_aside_at_once_is_fetched_anew_all_the_same",
        "src/highwater/log/retired.py",
        "self._in_the_way[partition] = again",
        "again.cancel()",
    ),
    Mutation(
        "F103",
        "tests/scenarios/test_f_missing.py::test_files_of_a_deleted_log_for_which_no_descriptor_was_left_go_later",
        "src/highwater/log/retired.py",
        "if isinstance(result, Exhausted):",
        "if False:",
    ),
    Mutation(
        "F103",
        "tests/scenarios/test_d_faults.py::test_d13_a_directory_with_the_name_of_a_deleted_log_is_not_taken_for_whole_at_the_next_start",
        "src/highwater/log/store.py",
        "clean = not self.unloaded and not self.retired.pending and all(log.offline is None for log in logs)",
        "clean = not self.unloaded and all(log.offline is None for log in logs)",
    ),
    Mutation(
        "F107",
        "tests/scenarios/test_f_boundaries.py::test_a_log_that_met_a_mistake_while_it_was_loaded_is_opened_again_later_and_not_often",
        "src/highwater/broker/missing.py",
        "return None if isinstance(why, OSError | ValueError | EOFError) else MISTAKE_SECONDS",
        "return None",
    ),
    Mutation(
        "F107",
        "tests/scenarios/test_f_boundaries.py::test_a_log_that_met_a_mistake_while_it_was_loaded_is_opened_again_later_and_not_often",
        "src/highwater/broker/missing.py",
        "if tp in self._broker.store.unloaded and times.get(tp, now + 1) <= now:",
        "if tp in self._broker.store.unloaded:",
    ),
    Mutation(
        "F108",
        "tests/unit/controller/test_brokers.py::test_a_controller_below_zero_is_refused",
        "src/highwater/controller/registration.py",
        "if node < 0:",
        "if False:",
    ),
    Mutation(
        "F109",
        "tests/unit/broker/test_isr_changes.py::test_a_leader_of_many_partitions_asks_for_some_at_a_time",
        "src/highwater/broker/isr_changes.py",
        "asked = dict(islice(meant, AT_ONCE))",
        "asked = dict(meant)",
    ),
    Mutation(
        "F109",
        "tests/unit/broker/test_isr_changes.py::test_a_leader_of_many_partitions_asks_for_some_at_a_time",
        "src/highwater/broker/isr_changes.py",
        "self._waiting = dict(meant)",
        "self._waiting = {}",
    ),
    Mutation(
        "F109",
        "tests/unit/broker/test_directories.py::test_many_are_told_in_pieces",
        "src/highwater/broker/directories.py",
        "told = dict(islice(self._untold.items(), AT_ONCE))",
        "told = dict(self._untold)",
    ),
    Mutation(
        "F122",
        "tests/unit/broker/test_controller_channel.py::test_a_request_that_cannot_be_made_costs_no_other_its_answer",
        "src/highwater/broker/controller_channel.py",
        'with self._world.failures.boundary("callback", name, lambda _: call.done(None)):',
        "if True:",
    ),
    Mutation(
        "F111",
        "tests/unit/log/test_faults.py::test_what_a_deleted_log_was_still_writing_is_not_found_in_the_next_log_of_its_name",
        "src/highwater/log/store.py",
        "await self._ended(partition)",
        "pass",
    ),
    Mutation(
        "F111",
        "tests/unit/log/test_checkpoint.py::test_a_file_that_is_closed_is_written_no_more",
        "src/highwater/log/checkpoint.py",
        "if self._closed:\nreturn\nif done is not None:",
        "if done is not None:",
    ),
    Mutation(
        "F112",
        "tests/unit/log/test_checkpoint.py::test_a_file_that_cannot_be_replaced_keeps_no_descriptor",
        "src/highwater/log/checkpoint.py",
        "with closing(disk.open(aside, create=True)) as file:",
        "if file := disk.open(aside, create=True):",
    ),
]
