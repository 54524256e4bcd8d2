"""Faults of logs and their checkpoints on a disk that is full, fails or loses its power."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

MUTATIONS: list[Mutation] = [
    Mutation(
        "F141",
        "tests/unit/log/test_recovery.py::test_after_a_clean_stop_no_checkpoint_names_a_log_that_was_deleted",
        "src/highwater/log/store.py",
        "return self.recovery_points, self.log_starts, self.high_watermarks, self.clean_ends",
        "return self.recovery_points, self.log_starts, self.high_watermarks",
    ),
    Mutation(
        "F142",
        "tests/unit/log/test_checkpoint.py::test_a_patient_writer_gets_every_error_but_a_full_disk",
        "src/highwater/log/checkpoint.py",
        "if is_passing(why) and patient():",
        "if patient():",
    ),
    Mutation(
        "F142",
        "tests/unit/log/test_checkpoint.py::test_a_patient_writer_gets_every_error_but_a_full_disk",
        "src/highwater/log/checkpoint.py",
        "if is_passing(why) and patient():",
        "if False:",
    ),
    Mutation(
        "F142",
        "tests/scenarios/test_follower_disks.py::"
        "test_a_cut_that_is_obsolete_does_not_keep_a_full_disk_from_the_next_role",
        "src/highwater/log/store.py",
        "announce = partial(self._announce, log, still_meant)",
        "announce = partial(self._announce, log, lambda: True)",
    ),
    Mutation(
        "F142",
        "tests/scenarios/test_follower_disks.py::test_a_log_whose_new_beginning_is_obsolete_stays_as_it_is",
        "src/highwater/log/truncation.py",
        "if not (log.is_usable and still_meant()):",
        "if not log.is_usable:",
    ),
    Mutation(
        "F143",
        "tests/scenarios/test_delete_records.py::test_the_next_leader_does_not_learn_a_log_start_before_it_is_durable",
        "src/highwater/partition/fetcher.py",
        "if partition.log.durability.log_start < partition.log.log_start:",
        "if False:",
    ),
    Mutation(
        "F143",
        "tests/scenarios/test_delete_records.py::test_the_next_leader_does_not_learn_a_log_start_before_it_is_durable",
        "src/highwater/partition/followed.py",
        "log_start_offset=log.durability.log_start,",
        "log_start_offset=log.log_start,",
    ),
    Mutation(
        "F144",
        "tests/scenarios/test_f_metadata.py::"
        "test_a_full_disk_is_logged_once_a_minute_however_often_the_metadata_is_fetched_again",
        "src/highwater/world/boundary.py",
        "if now - self._lines.get(line, -QUIET_SECONDS) < QUIET_SECONDS:",
        "if False:",
    ),
    Mutation(
        "F145",
        "tests/scenarios/test_f_missing.py::"
        "test_a_log_that_could_not_be_opened_does_not_delay_the_next_one_of_its_name",
        "src/highwater/broker/missing.py",
        "self._open_at.pop(tp, None)",
        "pass",
    ),
    Mutation(
        "F145",
        "tests/scenarios/test_f_missing.py::test_an_earlier_retry_of_one_replica_does_not_retry_the_others",
        "src/highwater/broker/missing.py",
        "self._timer.cancel()",
        "pass",
    ),
    Mutation(
        "F146",
        "tests/scenarios/test_last_copies.py::"
        "test_a_damaged_log_that_is_put_aside_after_its_topic_was_deleted_is_not_kept",
        "src/highwater/log/retired.py",
        "self.remove_later(aside, delay)",
        "pass",
    ),
    Mutation(
        "F147",
        "tests/scenarios/test_incarnations.py::"
        "test_a_coordinator_writes_nothing_before_its_broker_has_applied_its_own_registration",
        "src/highwater/broker/publisher.py",
        "return known is not None and known.incarnation == self._broker.lifecycle.incarnation",
        "return known is not None",
    ),
    Mutation(
        "F148",
        "tests/unit/groups/test_loading.py::test_a_transaction_that_is_still_open_when_all_is_loaded_counts_as_aborted",
        "src/highwater/groups/offsets.py",
        "self.end_transaction(producer, commit=False)",
        "self.end_transaction(producer, commit=True)",
    ),
    Mutation(
        "F149",
        "tests/unit/broker/test_controller_channel.py::test_patience_does_not_prolong_the_time_for_an_answer",
        "src/highwater/broker/controller_channel.py",
        "tried = seconds if patience is None else min(patience, seconds)",
        "tried = seconds if patience is None else patience",
    ),
    Mutation(
        "F150",
        "tests/unit/log/test_gaps.py::test_a_log_that_was_cut_behind_a_gap_is_whole_after_a_kill",
        "src/highwater/log/truncation.py",
        "log_end = plan.end",
        "pass",
    ),
    Mutation(
        "F150",
        "tests/unit/log/test_gaps.py::test_a_log_that_was_cut_to_its_start_amid_a_batch_is_whole_after_a_kill",
        "src/highwater/log/truncation.py",
        "if cut.log_end < log.log_start:  # nothing that counts is left",
        "if False:",
    ),
    Mutation(
        "F151",
        "tests/unit/log/test_gaps.py::test_a_segment_below_the_log_start_that_a_power_cut_brings_back_costs_nothing",
        "src/highwater/log/loader.py",
        "bases = self._drop_deleted(self._sweep_leftovers())",
        "bases = self._sweep_leftovers()",
    ),
    Mutation(
        "F152",
        "tests/unit/log/compaction/test_cleaning.py::test_damage_that_is_met_behind_segments_that_were_put_in_place_is_reported_and_not_tried_again",
        "src/highwater/log/compaction/cleaner.py",
        "cleaning.layout += 1  # this swap has changed it",
        "pass",
    ),
    Mutation(
        "F153",
        "tests/unit/log/test_truncation.py::test_aborted_transactions_of_a_log_that_began_anew_are_known_to_the_next_life",
        "src/highwater/log/segment.py",
        "self.aborted.path = self._path(names.TXN_INDEX)",
        "pass",
    ),
    Mutation(
        "F154",
        "tests/scenarios/test_last_copies.py::test_a_replica_that_was_fetched_anew_and_failed_as_the_last_copy_leads_again_once_it_is_back",
        "src/highwater/broker/publisher.py",
        "return is_kept and is_lost(part, local) and not is_counted_on(part, local)",
        "return is_kept and is_lost(part, local)",
    ),
    Mutation(
        "F155",
        "tests/scenarios/test_same_names.py::test_a_second_look_during_the_deletion_of_a_large_topic_does_not_restore_it",
        "src/highwater/broker/publisher.py",
        "self._take_settings(image)  # first, because `_look_again` uses the image that is being applied",
        "pass",
    ),
    Mutation(
        "F156",
        "tests/unit/pipeline/test_query.py::test_a_driver_that_was_given_the_lock_of_another_checkpoint_is_refused_one_that_is_in_use",
        "src/highwater/pipeline/query.py",
        "with nullcontext() if lock is not None and checkpoint.is_held_by(lock) else checkpoint.locked():",
        "with nullcontext() if lock is not None else checkpoint.locked():",
    ),
    Mutation(
        "F157",
        "tests/scenarios/test_same_names.py::test_a_topic_whose_directory_was_removed_can_be_deleted_and_made_again",
        "src/highwater/log/retired.py",
        "except FileNotFoundError:",
        "except NotADirectoryError:",
    ),
    Mutation(
        "F157",
        "tests/unit/world/test_real_disk.py::test_a_directory_made_in_the_place_of_a_removed_one_is_another",
        "src/highwater/world/real_disk.py",
        "if not os.path.lexists(old):  # another process removed it: a later file of this name is a new one",
        "if False:",
    ),
    Mutation(
        "F158",
        "tests/unit/log/test_cut_crashes.py::test_a_power_cut_amid_a_cut_leaves_no_hole_and_no_log_that_is_refused",
        "src/highwater/log/store.py",
        "self._cuts[log] = end",
        "pass",
    ),
    Mutation(
        "F158",
        "tests/unit/log/test_cut_crashes.py::test_a_power_cut_amid_a_cut_leaves_no_hole_and_no_log_that_is_refused",
        "src/highwater/log/store.py",
        "names.CLEANER_POINTS, lambda log: self._uncut(log, log.clean_end), lambda found: found.clean_ends",
        "names.CLEANER_POINTS, lambda log: log.clean_end, lambda found: found.clean_ends",
    ),
    Mutation(
        "F159",
        "tests/unit/log/test_cut_crashes.py::test_a_power_cut_amid_a_retention_costs_nothing_that_is_kept",
        "src/highwater/log/expiry.py",
        "await synced(self._world, [], log.directory)",
        "pass",
    ),
    Mutation(
        "F190",
        "tests/scenarios/test_delete_records.py::"
        "test_a_replica_that_comes_back_with_a_tail_to_cut_hears_of_deleted_records",
        "src/highwater/partition/fetch_session.py",
        "entry.sent_high_watermark = entry.sent_log_start = -1",
        "pass",
    ),
    Mutation(
        "F191",
        "tests/scenarios/test_delete_records.py::"
        "test_a_leader_that_follows_another_sends_no_log_start_that_is_not_durable",
        "src/highwater/partition/followed.py",
        "log_start_offset=log.durability.log_start,",
        "log_start_offset=log.log_start,",
    ),
    Mutation(
        "F191",
        "tests/scenarios/test_delete_records.py::test_a_follower_whose_retention_is_ahead_of_its_leader_reports_it",
        "src/highwater/broker/upkeep.py",
        "self._broker.fetchers.restate(partition)",
        "pass",
    ),
    Mutation(
        "F192",
        "tests/scenarios/test_settings_and_syncs.py::"
        "test_a_record_that_was_written_before_each_was_to_be_synced_is_synced_and_committed",
        "src/highwater/partition/partition.py",
        "if self.log.flush_each_append:",
        "if False:",
    ),
    Mutation(
        "F193",
        "tests/unit/log/test_closing.py::test_a_segment_that_a_full_disk_has_no_name_for_stays_until_there_is_room",
        "src/highwater/log/segment.py",
        "self._disk.rename(target, path)",
        "pass",
    ),
    Mutation(
        "F194",
        "tests/scenarios/test_whole_answers.py::"
        "test_a_partition_that_is_committed_early_waits_for_one_that_is_checked_off_the_loop",
        "src/highwater/broker/k00_produce.py",
        "if self._begun and not self._left:",
        "if not self._left:",
    ),
    Mutation(
        "F195",
        "tests/scenarios/test_same_names.py::"
        "test_a_mistake_in_a_checkpoint_delays_the_next_log_of_that_name_and_ends_no_node",
        "src/highwater/log/store.py",
        'with self._world.failures.boundary("job", "the creation of logs", refuse):',
        "if True:",
    ),
    Mutation(
        "F220",
        "tests/unit/log/compaction/test_setbacks.py::"
        "test_a_compacted_segment_takes_its_place_once_there_are_descriptors_again[3]",
        "src/highwater/log/compaction/swap.py",
        "await finished(world, _promote, directory, facts.base_offset)\nawait synced(world, [], directory)",
        "await finished(world, _promote, directory, facts.base_offset)\n"
        "await synced(world, [], directory, lambda failed: False)",
    ),
    Mutation(
        "F301",  # a stop without descriptors takes logs offline
        "tests/unit/log/test_closing.py::test_a_stop_waits_a_moment_for_descriptors_and_disk_space",
        "src/highwater/log/clean_stop.py",
        "return is_passing(failed) and self.is_patient()",
        "return False",
    ),
    Mutation(
        "F301",
        "tests/unit/log/test_closing.py::test_a_stop_without_disk_space_ends_soon_and_is_not_marked",
        "src/highwater/log/clean_stop.py",
        "if is_passing(failed):",
        "if False:",
    ),
    Mutation(
        "F301",  # an error of a sync is final
        "tests/unit/log/test_closing.py::test_a_full_disk_that_a_sync_reports_at_a_stop_takes_the_log_offline",
        "src/highwater/log/clean_stop.py",
        "if not is_exhausted(failed):  # an error of a sync is final, a full disk among them",
        "if False:",
    ),
    Mutation(
        "F302",  # a replica with a hole joins the ISR
        "tests/scenarios/test_last_copies.py::"
        "test_a_replica_that_lacks_a_segment_is_fetched_again_before_it_joins_the_isr",
        "src/highwater/log/store.py",
        "log.incomplete = incomplete",
        "pass",
    ),
    Mutation(
        "F302",  # a replica without its first segment joins the ISR
        "tests/scenarios/test_last_copies.py::"
        "test_a_replica_that_lacks_a_segment_is_fetched_again_before_it_joins_the_isr",
        "src/highwater/log/loaded.py",
        "if why is None and begin is not None and first > begin:",
        "if False:",
    ),
    Mutation(
        "F316",  # a rotten leader epoch of the metadata log wins elections
        "tests/unit/raft_node/test_recovery_point.py::"
        "test_a_batch_of_an_epoch_that_the_quorum_never_had_ends_the_start",
        "src/highwater/raft_node/metadata_loader.py",
        "if election is not None and epoch > election.epoch:",
        "if False:",
    ),
    Mutation(
        "F316",  # a rotten leader epoch lets a snapshot replace the log, with committed records
        "tests/unit/raft_node/test_recovery_point.py::"
        "test_a_log_whose_last_epoch_has_rotted_is_not_taken_for_one_that_its_snapshot_is_ahead_of",
        "src/highwater/raft_node/metadata_loader.py",
        "if epoch < before:",
        "if False:",
    ),
    Mutation(
        "F500",  # a compacted log that lost a whole segment joins the ISR after a crash
        "tests/unit/log/test_gaps_of_compacted_logs.py::test_a_lost_segment_of_a_compacted_log_is_known_by_its_index",
        "src/highwater/log/loader.py",
        "if self.log_end in self.begun and self.lost is None:",
        "if False:",
    ),
    Mutation(
        "F501",  # an empty segment that a cleaner left counts as lost
        "tests/unit/log/test_gaps_of_compacted_logs.py::test_a_segment_of_which_a_cleaner_left_nothing_is_no_loss",
        "src/highwater/log/loader.py",
        "self.begun = {int(stem) for stem in begun if stem not in logs}",
        "self.begun = {int(stem) for stem in begun}",
    ),
    Mutation(
        "F940",
        "tests/scenarios/test_leader_disks.py::"
        "test_a_leader_whose_disk_takes_no_more_writes_gives_the_lead_away[append-read-only]",
        "src/highwater/log/log.py",
        "if isinstance(failed, OSError) and not is_poisoned and (is_passing(failed) or self.is_only_copy()):",
        "if isinstance(failed, OSError) and not is_poisoned:",
    ),
    Mutation(
        "F941",
        "tests/unit/partition/test_writing.py::"
        "test_a_batch_behind_one_that_found_too_few_replicas_is_refused_for_the_same_reason[a known producer]",
        "src/highwater/replication/refusals.py",
        "return self._cause(batch, now) or failed",
        "return failed",
    ),
    Mutation(
        "F941",
        "tests/unit/partition/test_writing.py::"
        "test_a_batch_behind_one_that_found_too_few_replicas_is_refused_for_the_same_reason[a new one]",
        "src/highwater/partition/partition.py",
        "self._refusals.check(Batch.of(batch), self._in_sync.now())",
        "pass",
    ),
]
