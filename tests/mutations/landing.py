"""Faults that reviews proved: tables and their position."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_LANDING = "src/highwater/pipeline/landing"
_UNIT = "tests/unit/pipeline/landing"

MUTATIONS: list[Mutation] = [
    Mutation(
        "F25",
        f"{_UNIT}/test_position.py::"
        "test_a_batch_number_that_comes_again_with_other_offsets_is_an_error_and_loses_nothing",
        f"{_LANDING}/rule.py",
        "return _by_offsets(known, batch, batch.reaches)",
        "return _by_number(known, batch)",
    ),
    Mutation(
        "F25",
        f"{_UNIT}/test_rule.py::test_a_row_is_in_the_table_once_and_the_position_says_which",
        f"{_LANDING}/rule.py",
        "if reach.start != last.end:",
        "if reach.start > last.end:",
    ),
    Mutation(
        "F25",
        f"{_UNIT}/test_rule.py::test_records_of_a_log_that_was_cut_and_written_anew_are_not_those_that_the_table_has",
        f"{_LANDING}/rule.py",
        "if is_known and reach.epoch > interval.epoch:",
        "if False:",
    ),
    Mutation(
        "F26",
        "tests/unit/pipeline/test_checkpoint.py::test_a_second_driver_learns_which_process_has_the_checkpoint",
        "src/highwater/pipeline/checkpoint.py",
        "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
    ),
    Mutation(
        "F27",
        f"{_UNIT}/test_power.py::test_a_loss_of_power_leaves_the_batch_or_nothing_of_it",
        f"{_LANDING}/delta_log.py",
        "sync(self.folder / name)",
        "pass",
    ),
    Mutation(
        "F27",
        f"{_UNIT}/test_power.py::test_a_loss_of_power_leaves_the_batch_or_nothing_of_it",
        f"{_LANDING}/kept_io.py",
        "os.fsync(self.fileno())",
        "pass",
    ),
    Mutation(
        "F27",
        f"{_UNIT}/test_power.py::test_an_entry_of_a_delta_log_that_power_left_half_written_is_put_aside",
        f"{_LANDING}/delta.py",
        "delta_log.mend(Path(self.path, _LOG))",
        "pass",
    ),
    Mutation(
        "F28",
        "tests/pipeline/test_loss.py::test_a_partition_that_one_look_up_misses_is_not_read_again_from_its_beginning",
        "src/highwater/pipeline/continuity.py",
        "missing[partition] = position",
        "pass",
    ),
    Mutation(
        "F28",
        f"{_UNIT}/test_delta_limits.py::"
        "test_a_table_with_a_check_constraint_is_refused_by_its_name_and_gets_no_row_that_breaks_it",
        f"{_LANDING}/delta.py",
        "check_writable(table)\nknown, marked_at = self._known(table, batch.landing_id, batch.query_id)",
        "known, marked_at = self._known(table, batch.landing_id, batch.query_id)",
    ),
    Mutation(
        "F28",
        "tests/pipeline/test_object_stores.py::test_an_answer_that_is_lost_doubles_nothing_and_misses_nothing",
        f"{_LANDING}/delta.py",
        "if sent and self._has(staged):",
        "if False:",
    ),
    Mutation(
        "F28",
        f"{_UNIT}/test_position.py::test_a_new_table_does_not_take_the_middle_of_a_query",
        f"{_LANDING}/rule.py",
        "if batch.has_past:",
        "if False:",
    ),
]
