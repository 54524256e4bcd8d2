"""Group D, storage."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, Waiting

RECOVERY = "tests/scenarios/test_d_recovery.py"
FAULTS = "tests/scenarios/test_d_faults.py"
COMPACTION = "tests/scenarios/test_d_compaction.py"
TRANSACTIONS = "tests/scenarios/test_d_transactions.py"
DELETION = "tests/scenarios/test_d_deletion.py"
_DAMAGE = "tests/scenarios/test_d_damage.py"

MUTATIONS: list[Mutation] = [
    Mutation(
        "D1",
        f"{RECOVERY}::test_d1_every_cut_of_the_last_batch_costs_that_batch_and_no_other",
        "src/highwater/log/loader.py",
        "segment.file.truncate(position)",
        "pass",
    ),
    Mutation(
        "D2",
        f"{RECOVERY}::test_d2_a_recovery_point_beyond_the_end_is_brought_back_to_it",
        "src/highwater/log/loader.py",
        "durable_end=self.log_end,",
        "durable_end=max(self.log_end, self.request.recovery_point),",
    ),
    Mutation(
        "D2",
        f"{RECOVERY}::test_d2_a_log_that_ends_before_its_start_begins_anew_there",
        "src/highwater/log/loader.py",
        "self.log_end = log_start",
        "pass",
    ),
    Mutation(
        "D2",
        f"{RECOVERY}::test_d2_a_mark_of_a_clean_stop_that_cannot_be_removed_keeps_the_directory_closed",
        "src/highwater/log/found.py",
        "disk.unlink(mark)",
        "pass",
    ),
    Mutation(
        "D4",
        f"{RECOVERY}::test_d4_a_damaged_or_missing_file_beside_the_log_changes_no_answer",
        "src/highwater/log/loader.py",
        "if not is_indexed or not indexes_hold(segment, self.request.index_interval):",
        "if segment.bytes_since_index < 0:",
    ),
    Mutation(
        "D4",
        f"{RECOVERY}::test_d4_the_index_of_aborted_transactions_is_rebuilt",
        "src/highwater/log/loader.py",
        "self.unindexed.add(base)",
        "pass",
    ),
    Mutation(
        "D5",
        f"{RECOVERY}::test_d5_a_recovery_that_fails_claims_no_clean_stop",
        "src/highwater/log/store.py",
        "clean = await stop.settle(logs) and not self.unloaded and not self.retired.pending",
        "clean = await stop.settle(logs)",
    ),
    Mutation(
        "D6",
        f"{FAULTS}::test_d6_after_an_append_that_failed_halfway_nothing_is_appended_before_the_log_is_opened_again",
        "src/highwater/log/log.py",
        "is_poisoned = isinstance(failed, Poisoned)",
        "is_poisoned = False",
    ),
    Mutation(
        "D7",
        f"{FAULTS}::test_d7_a_sync_that_failed_once_is_final_though_the_next_would_succeed",
        "src/highwater/log/durability.py",
        "if result is not None:",
        "if result is not None:\n    self.flush()\n    return\nif result is not None:",
    ),
    Mutation(
        "D8",
        f"{FAULTS}::test_d8_a_full_disk_can_be_read_and_written_again_once_there_is_room",
        "src/highwater/log/log.py",
        "self.unwritten = failed",
        "self.storage_failed(failed)",
    ),
    Mutation(
        "D9",
        f"{FAULTS}::test_d9_no_reader_passes_a_transaction_whose_abort_index_cannot_be_written",
        "src/highwater/log/log.py",
        "self.active.aborted.append(aborted)",
        "try:\n    self.active.aborted.append(aborted)\nexcept OSError:\n    return",
    ),
    Mutation(
        "D10",
        f"{COMPACTION}::test_d10_a_crash_at_any_step_of_a_compaction_leaves_the_old_log_or_the_new",
        "src/highwater/log/compaction/interrupted.py",
        "_remove_replaced(disk, directory, name)",
        "pass",
    ),
    Mutation(
        "D11",
        f"{COMPACTION}::test_d11_nothing_at_or_beyond_the_high_watermark_or_in_the_active_segment_is_compacted",
        "src/highwater/log/compaction/plan.py",
        "dirty_end = min(stable_end, segments[-1].base_offset)",
        "dirty_end = segments[-1].base_offset",
    ),
    Mutation(
        "D11",
        f"{COMPACTION}::test_d11_a_log_that_was_cut_below_what_is_clean_is_compacted_from_there_again",
        "src/highwater/log/log.py",
        "self.clean_end = None if self.clean_end is None else min(self.clean_end, log_end)",
        "pass",
    ),
    Mutation(
        "D11",
        f"{COMPACTION}::test_d11_the_log_end_stays_though_the_last_batch_is_compacted_away",
        "src/highwater/log/compaction/rewrite.py",
        "left = thin(batch.header, batch.data, is_last)",
        "left = thin(batch.header, batch.data, False)",
    ),
    Mutation(
        "D12",
        f"{TRANSACTIONS}::test_d12_read_committed_consumers_see_the_same_values_as_a_model_without_aborted_records",
        "src/highwater/log/compaction/thinning.py",
        "if self._transactions.data_met(header) or not header.record_count:",
        "if not header.record_count:",
    ),
    Mutation(
        "D12",
        f"{TRANSACTIONS}::test_d12_a_marker_stays_while_anything_of_its_transaction_does_and_then_until_its_horizon",
        "src/highwater/log/compaction/thinning.py",
        "if kind is None or (decided and horizon is not None and horizon <= self._now_ms):",
        "if kind is None or decided:",
    ),
    Mutation(
        "D12",
        f"{TRANSACTIONS}::"
        "test_d12_an_aborted_record_displaces_no_committed_one_though_its_marker_lies_beyond_what_is_cleaned",
        "src/highwater/log/compaction/cleaner.py",
        "aborted=log.aborted_transactions(0, end),",
        "aborted=[each for each in log.aborted_transactions(0, end) if each.last_offset < dirt.dirty_end],",
    ),
    Mutation(
        "D12",
        f"{TRANSACTIONS}::test_d12_the_last_batch_of_a_producer_is_still_known_when_its_records_are_gone",
        "src/highwater/log/compaction/thinning.py",
        "must_stay = must_stay or self._is_last_of_its_producer(header)",
        "pass",
    ),
    Mutation(
        "D13",
        f"{FAULTS}::test_d13_a_deletion_that_races_with_a_sync_takes_nothing_offline",
        "src/highwater/log/log.py",
        "self._closed = True\nself.durability.stop()",
        "pass",
    ),
    Mutation(
        "D14",
        f"{DELETION}::test_d14_a_segment_that_comes_back_after_a_power_cut_does_not_bring_its_records_back",
        "src/highwater/log/store.py",
        "named = log.segments and log.log_start <= log.segments[0].base_offset and log.durability.directory_in_step",
        "named = log.segments and log.log_start <= log.segments[0].base_offset",
    ),
    Mutation(
        "D14",
        f"{DELETION}::test_d14_deleted_records_stay_deleted_whichever_replica_leads_after_both_died",
        "src/highwater/log/store.py",
        "self.log_starts.write(written)",
        "written()",
    ),
    Mutation(
        "D15",
        f"{DELETION}::test_d15_a_wall_clock_that_is_a_year_off_deletes_nothing_rolls_nothing_and_fences_no_broker",
        "src/highwater/log/retention.py",
        "return min(wall_ms, int(self._bound) + self.LEAP_MS)",
        "return wall_ms",
    ),
    Mutation(
        "D15",
        f"{DELETION}::test_d15_records_of_2099_stay_and_begin_no_segment_each",
        "src/highwater/log/retention.py",
        "by_time = config.delete and 0 <= config.retention_ms < now_ms - segment.newest_ms",
        "by_time = config.delete and 0 <= config.retention_ms < abs(now_ms - segment.newest_ms)",
    ),
    Mutation(
        "D3",
        f"{_DAMAGE}::test_d3_a_leader_never_serves_damaged_records_and_another_leads_while_it_fetches_them_again",
        "src/highwater/log/reads.py",
        "if self._freshness.holds(place.segment, place.position, self._monotonic()):",
        "if True:",
    ),
    Mutation(
        "D3",
        f"{_DAMAGE}::test_d3_a_damaged_replica_is_no_eligible_leader_though_it_left_the_isr_last",
        "src/highwater/controller/directories.py",
        "record = electorate.change(place, isr, unclean_shutdown=NO_NODE if is_last else broker.id)",
        "record = electorate.change(place, isr)",
    ),
    Mutation(
        "D3",
        f"{_DAMAGE}::test_d3_damage_that_a_follower_finds_takes_it_out_of_the_isr_before_it_lets_go_of_what_it_has",
        "src/highwater/controller/directories.py",
        "if directory == DIRECTORY_TROUBLED and _is_last(place[2], broker):",
        "if False:",
    ),
    Mutation(
        "D16",
        f"{_DAMAGE}::test_d16_a_write_that_went_astray_is_found_by_its_offsets_though_its_checksum_holds",
        "src/highwater/log/integrity.py",
        "if base_offset < self._next or base_offset + delta >= self._high:",
        "if False:",
    ),
]
WAITING: list[Waiting] = []
