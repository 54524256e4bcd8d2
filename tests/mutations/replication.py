"""Faults that reviews proved: what a leader believes of its followers, and what a follower does with its log."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_LOST = "tests/scenarios/test_lost_logs.py"
_LAST = "tests/scenarios/test_last_copies.py"
_INCARNATIONS = "tests/scenarios/test_incarnations.py"
_DISKS = "tests/scenarios/test_follower_disks.py"
_AGAIN = "tests/scenarios/test_second_thoughts.py"
_READS = "tests/unit/log/test_reads.py"

_LOG = "tests/unit/log"

_NAMES = "tests/scenarios/test_same_names.py"

MUTATIONS: list[Mutation] = [
    Mutation(
        "F41",
        f"{_LAST}::test_a_log_that_began_anew_is_not_elected_before_it_has_what_is_committed",
        "src/highwater/broker/publisher.py",
        "if self._is_refilled(partition, part) and not self._refilled.has_what_is_committed(partition):",
        "if False:",
    ),
    Mutation(
        "F41",
        f"{_LAST}::test_a_damaged_log_is_kept_though_one_with_less_is_in_sync",
        "src/highwater/log/retired.py",
        "if end is not None and names.stray_high_watermark(directory.name) > end:",
        "if False:",
    ),
    Mutation(
        "F41",
        f"{_LOG}/test_recovery.py::test_a_gap_between_segments_that_were_not_synced_ends_the_log",
        "src/highwater/log/loader.py",
        "if unsynced and following > self.request.clean_end:",
        "if False:",
    ),
    Mutation(
        "F41",
        f"{_LOG}/test_recovery.py::test_a_synced_segment_that_is_shorter_than_its_indexes_say_is_refused",
        "src/highwater/log/loader.py",
        "if segment.base_offset in self.contradicted:",
        "if False:",
    ),
    Mutation(
        "F652",
        f"{_LOG}/test_gaps_of_compacted_logs.py::test_a_gap_of_another_cleaner_is_no_damage_though_the_index_is_sparse",
        "src/highwater/log/loader.py",
        "if is_indexed and not entries_hold(segment):",
        "if is_indexed:",
    ),
    Mutation(
        "F653",
        f"{_LOG}/test_gaps_of_compacted_logs.py::test_a_lost_segment_of_a_compacted_log_is_known_by_its_index",
        "src/highwater/log/store.py",
        "is_legal = incomplete is not None and incomplete.is_gap and self._was_compacted(partition, config)",
        "is_legal = loaded.mark is None and self._was_compacted(partition, config)",
    ),
    Mutation(
        "F42",
        "tests/scenarios/test_a_truncation.py::"
        "test_a_follower_whose_log_begins_beyond_the_end_of_its_leader_begins_anew[to the end]",
        "src/highwater/log/store.py",
        "for file in (self.log_starts, self.recovery_points, self.clean_ends):",
        "for file in (self.recovery_points, self.clean_ends):",
    ),
    Mutation(
        "F40",
        f"{_NAMES}::test_the_start_of_a_deleted_log_does_not_empty_the_next_one_of_its_name",
        "src/highwater/log/store.py",
        "self._outdated.add(partition)",
        "pass",
    ),
    Mutation(
        "F40",
        f"{_NAMES}::test_the_start_of_a_log_that_was_deleted_in_an_earlier_life_does_not_hold_either",
        "src/highwater/log/store.py",
        "self._outdated = self.found.forget_absent()",
        "pass",
    ),
    Mutation(
        "F39",
        f"{_LOG}/test_epoch_cache.py::test_a_batch_of_an_epoch_that_is_known_moves_only_what_came_after_it",
        "src/highwater/log/epoch_cache.py",
        "while self._epochs and self._epochs[-1] > epoch:",
        "while False:",
    ),
    Mutation(
        "F39",
        f"{_LOG}/test_recovery.py::test_epochs_that_the_log_knows_better_are_made_anew_from_it",
        "src/highwater/log/loader.py",
        "elif header.next_offset > log_start and self.epochs.epoch_at(max(header.base_offset, log_start)) != epoch:",
        "elif False:",
    ),
    Mutation(
        "F39",
        f"{_LOG}/test_recovery.py::test_a_batch_whose_offset_is_not_its_own_is_cut_and_not_the_batch_behind_it",
        "src/highwater/log/loader.py",
        "if leapt is not None and bad.goes_back:",
        "if False:",
    ),
    Mutation(
        "F39",
        f"{_LOG}/test_truncation.py::test_a_log_that_would_end_with_a_gap_is_damaged",
        "src/highwater/log/truncation.py",
        "if log_end > log_start and not compacted:",
        "if False:",
    ),
    Mutation(
        "F39",
        "tests/scenarios/test_d_damage.py::test_d3_a_leader_epoch_that_never_was_is_damage_and_the_log_is_fetched_anew",
        "src/highwater/replication/reconciliation.py",
        "if last_epoch > leader_epoch:",
        "if False:",
    ),
    Mutation(
        "F1",
        f"{_LAST}::test_a_damaged_log_is_kept_while_the_replicas_with_everything_are_dead",
        "src/highwater/broker/publisher.py",
        "broker.store.put_aside(tp, partition.topic_id)",
        "broker.store.delete(tp)",
    ),
    Mutation(
        "F1",
        f"{_LAST}::test_the_last_copy_that_is_damaged_keeps_the_lead_though_unclean_elections_are_allowed",
        "src/highwater/broker/directories.py",
        "self._unreported[topic_id, index] = DIRECTORY_LOST if lasting else DIRECTORY_TROUBLED",
        "self._unreported[topic_id, index] = DIRECTORY_LOST",
    ),
    Mutation(
        "F1",
        f"{_LAST}::test_the_last_copy_whose_disk_fails_leads_no_more_until_its_broker_has_it_back",
        "src/highwater/broker/directories.py",
        "if directory in self._fine or (self.is_elsewhere(part) and directory != DIRECTORY_LOST):",
        "if directory in self._fine or self.is_elsewhere(part):",
    ),
    Mutation(
        "F1",
        f"{_LAST}::test_no_empty_log_takes_the_place_of_the_last_copy_where_its_disk_is_replaced",
        "src/highwater/broker/publisher.py",
        "if tp in self._broker.store.unloaded or not self._directories.is_elsewhere(part):",
        "if True:",
    ),
    Mutation(
        "F1",
        f"{_LOST}::test_a_fetch_of_the_lost_log_that_arrives_after_all_does_not_speak_for_the_empty_one",
        "src/highwater/controller/directories.py",
        "record.leader = partition.leader",
        "pass",
    ),
    Mutation(
        "F1",
        "tests/unit/partition/test_in_sync.py::"
        "test_leader_reproposes_a_dropped_follower_that_caught_up_when_it_fetches_again",
        "src/highwater/replication/leader.py",
        "self.followers[replica].has_left = True",
        "pass",
    ),
    Mutation(
        "F1",
        f"{_LOST}::test_a_follower_that_has_all_comes_back_into_the_isr_without_a_new_record",
        "src/highwater/partition/fetch_session.py",
        "session.restate()",
        "pass",
    ),
    Mutation(
        "F1",
        "tests/unit/controller/test_alter_partition.py::test_a_replica_in_a_lost_or_offline_directory_does_not_join_the_isr",
        "src/highwater/controller/alter_partition.py",
        "if joins and not broker.has_online(partition.directory(member.broker)):",
        "if False:",
    ),
    Mutation(
        "F2",
        f"{_INCARNATIONS}::test_a_broker_fetches_nothing_before_it_has_applied_its_own_registration",
        "src/highwater/broker/applied_metadata.py",
        "return known.epoch if known is not None and known.incarnation == incarnation else -1",
        "return 0 if known is None else known.epoch",
    ),
    Mutation(
        "F2",
        f"{_INCARNATIONS}::test_a_broker_leads_nothing_before_it_has_applied_its_own_registration",
        "src/highwater/broker/publisher.py",
        "if leads and self._is_registered(image):",
        "if leads:",
    ),
    Mutation(
        "F2",
        f"{_INCARNATIONS}::test_a_follower_that_does_not_send_its_broker_epoch_is_refused",
        "src/highwater/broker/k01_fetch.py",
        "if request.replica_id >= 0 and (ctx.version < _FOLLOWERS_FROM or request.replica_epoch < 0):",
        "if request.replica_id >= 0 and ctx.version < _FOLLOWERS_FROM:",
    ),
    Mutation(
        "F2",
        "tests/unit/controller/test_alter_partition.py::"
        "test_a_fenced_leaving_unknown_or_other_incarnation_does_not_join_the_isr",
        "src/highwater/controller/alter_partition.py",
        "if member.epoch != broker.epoch and (joins or member.epoch != ANY_EPOCH):",
        "if member.epoch not in (ANY_EPOCH, broker.epoch):",
    ),
    Mutation(
        "F3",
        f"{_DISKS}::test_records_before_a_failed_batch_are_acknowledged_only_after_their_sync",
        "src/highwater/partition/fetcher.py",
        "elif followed.is_unsynced and self._talk.sync(_key(followed.partition)) is not None:",
        "elif followed.is_unsynced and not followed.machine.pause"
        " and self._talk.sync(_key(followed.partition)) is not None:",
    ),
    Mutation(
        "F3",
        f"{_DISKS}::test_records_that_could_not_be_synced_are_never_acknowledged",
        "src/highwater/partition/fetcher.py",
        "if followed.partition.log.offline is not None:",
        "if False:",
    ),
    Mutation(
        "F4",
        f"{_READS}::test_a_read_of_files_that_changed_meanwhile_reports_no_damage",
        "src/highwater/log/reads.py",
        "if layout != self.layout:",
        "if False:",
    ),
    Mutation(
        "F4",
        f"{_READS}::test_a_log_is_cut_where_it_is_to_be_though_retention_takes_segments_meanwhile",
        "src/highwater/log/truncation.py",
        "if layout == log.reads.layout and log.swapping is None and log.is_usable:",
        "if True:",
        (
            Mutation(
                "F4",  # the same, after a pause
                f"{_READS}::test_a_log_is_cut_where_it_is_to_be_though_retention_takes_segments_meanwhile",
                "src/highwater/log/truncation.py",
                "if layout == log.reads.layout and log.swapping is None:",
                "if True:",
            ),
        ),
    ),
    Mutation(
        "F4",
        "tests/unit/log/test_durability.py::test_a_file_that_was_removed_before_its_sync_does_not_fail_the_log[True]",
        "src/highwater/log/durability.py",
        "if isinstance(result, FileNotFoundError) and str(result.filename).endswith(names.DELETED):",
        "if False:",
    ),
    Mutation(
        "F6",
        f"{_DISKS}::test_a_follower_catches_up_with_a_log_that_begins_amid_a_batch",
        "src/highwater/replication/reconciliation.py",
        "return base if log_start == log_end and base < log_end <= last else None",
        "return None",
    ),
    Mutation(
        "F6",
        f"{_DISKS}::test_a_follower_catches_up_with_a_log_that_begins_amid_a_batch",
        "src/highwater/log/store.py",
        "for file in (self.log_starts, self.recovery_points, self.clean_ends):",
        "for file in (self.recovery_points, self.clean_ends):",
    ),
    Mutation(
        "F10",
        f"{_DISKS}::test_a_damaged_batch_found_while_a_log_is_cut_loses_that_replica_and_not_the_node",
        "src/highwater/log/truncation.py",
        "except BadBatch as bad:\nlog.found_damaged(bad)",
        "except BadBatch as bad:\n    raise bad",
    ),
    Mutation(
        "F10",
        f"{_AGAIN}::test_many_truncations_that_wait_delay_other_partitions_by_one_pause_together",
        "src/highwater/broker/publisher.py",
        "await asyncio.wait([cutting], timeout=max(left, 0.0))",
        "await asyncio.wait([cutting])",
    ),
    Mutation(
        "F13",
        "tests/scenarios/test_b_in_sync.py::"
        "test_a_change_that_is_answered_with_an_unknown_error_is_asked_for_again_after_a_pause",
        "src/highwater/broker/isr_changes.py",
        "self._world.clock.call_later(RETRY_SECONDS, self._send)",
        "self._world.clock.call_soon(self._send)",
    ),
    Mutation(
        "F2",
        f"{_AGAIN}::test_a_proposal_names_the_incarnation_that_it_was_made_for",
        "src/highwater/broker/isr_changes.py",
        "for member, epoch in zip(proposal.isr, proposal.epochs, strict=True)",
        "for member in proposal.isr\n"
        "for epoch in (leader.followers[member].broker_epoch if member in leader.followers else None,)",
    ),
    Mutation(
        "F10",
        f"{_AGAIN}::test_a_truncation_that_its_role_has_left_behind_cuts_nothing_that_was_fetched_since",
        "src/highwater/partition/followed.py",
        "self.machine = Follower(partition.epoch, longest_pause, is_being_cut=partition.is_being_cut)",
        "self.machine = Follower(partition.epoch, longest_pause)",
    ),
    Mutation(
        "F4",
        f"{_AGAIN}::test_retention_does_not_make_a_damaged_log_whole",
        "src/highwater/log/reads.py",
        "self.damage.pop(segment.base_offset, None)",
        "self.damage.clear()",
    ),
    Mutation(
        "F10",
        f"{_AGAIN}::test_many_truncations_that_wait_delay_other_partitions_by_one_pause_together",
        "src/highwater/broker/publisher.py",
        "left = self._settle_until - self._broker.world.clock.monotonic()",
        "left = SETTLE_SECONDS",
    ),
    Mutation(
        "F196",
        "tests/unit/replication/test_isr.py::test_a_change_that_was_made_counts_when_the_metadata_has_it",
        "src/highwater/replication/leader.py",
        "if is_coming or meaning not in (Meaning.MADE, Meaning.REFUSED):",
        "if meaning not in (Meaning.MADE, Meaning.REFUSED):",
    ),
    Mutation(
        "F196",
        "tests/scenarios/test_raised_bound.py::"
        "test_a_shrink_in_the_same_metadata_as_a_raised_bound_counts_by_the_new_one",
        "src/highwater/broker/publisher.py",
        "self._reconfigure(image, changes)  # before the roles: an ISR is valid only with the settings of its decision",
        "self._broker.world.clock.call_later(60.0, self._reconfigure, image, changes)",
    ),
    Mutation(
        "F197",
        "tests/scenarios/test_delete_records.py::"
        "test_a_replica_that_was_down_meanwhile_joins_only_once_it_has_deleted_them_too",
        "src/highwater/replication/leader.py",
        "and progress.has_deleted",
        "and True",
    ),
    Mutation(
        "F198",
        "tests/scenarios/test_raised_bound.py::"
        "test_another_bound_while_no_replica_leads_does_not_make_the_partition_leaderless_for_good",
        "src/highwater/controller/configs.py",
        "eligible_leader_replicas=list(partition.elr),",
        "eligible_leader_replicas=[],",
    ),
    Mutation(
        "F255",  # the last known leader is forgotten with the ELR
        "tests/scenarios/test_raised_bound.py::"
        "test_a_leader_that_was_killed_last_leads_again_after_another_bound_was_set_meanwhile",
        "src/highwater/controller/configs.py",
        "last_known_elr=list(partition.last_known_elr),",
        "last_known_elr=[],",
    ),
    Mutation(
        "F256",  # an eligible leader stays eligible beside one that commits alone
        "tests/scenarios/test_raised_bound.py::"
        "test_a_lower_bound_without_a_leader_lets_an_eligible_replica_lead_and_others_join[True]",
        "src/highwater/controller/elections.py",
        "if len(isr) >= rules.bound(len(replicas)):",
        "if False:",
    ),
    Mutation(
        "F257",  # an ISR with a member that may not be in one is asked for again and again
        "tests/unit/replication/test_isr.py::test_an_isr_with_a_member_that_may_not_be_in_one_is_not_asked_for",
        "src/highwater/replication/leader.py",
        "if any(each != self.local and self.brokers.get(each) is None for each in self.isr):",
        "if False:",
    ),
    Mutation(
        "F260",  # a leader whose term is over commits by a bound that was lowered since
        "tests/scenarios/test_raised_bound.py::"
        "test_a_leader_whose_term_is_over_commits_nothing_by_a_bound_that_was_lowered_since",
        "src/highwater/partition/partition.py",
        "if leader is not None and not leads:",
        "if False:",
    ),
    Mutation(
        "F275",  # one setting that does not suit a broker keeps all others from it
        "tests/scenarios/test_f_settings.py::"
        "test_a_setting_that_does_not_suit_a_broker_keeps_no_bound_from_it_that_others_count_on[False]",
        "src/highwater/config/node.py",
        "chosen, why = self._adopting_some(broker, default), (str(problem),)",
        "chosen, why = self, (str(problem),)",
    ),
    Mutation(
        "F279",  # a setting that does not suit is looked for among thousands of names that are none
        "tests/unit/config/test_node.py::test_one_setting_that_does_not_suit_costs_little_however_many_names_there_are",
        "src/highwater/config/node.py",
        "shared, shared_unknown = _split(_usable(default, ignored))",
        "shared, shared_unknown = _usable(default, ignored), dict[str, str]()",
    ),
    Mutation(
        "F279",
        "tests/unit/config/test_node.py::test_settings_that_do_not_suit_are_left_out_one_by_one",
        "src/highwater/config/node.py",
        "chosen, more = chosen._with_those_that_suit(named[half:])",
        "more = named[half:]",
    ),
    Mutation(
        "F982",
        "tests/scenarios/test_a_truncation.py::"
        "test_a_follower_whose_log_begins_beyond_the_end_of_its_leader_begins_anew[beyond its end]",
        "src/highwater/replication/follower.py",
        "if cut >= log.start:",
        "if (cut := max(cut, log.start)) >= 0:",
    ),
    Mutation(
        "F983",
        "tests/unit/partition/test_fetcher.py::test_a_mistake_at_one_partition_does_not_stop_the_others[when_durable]",
        "src/highwater/partition/fetcher.py",
        "self._talk.synced(_key(followed.partition), followed.machine)  # the next fetch does not name it",
        "pass",
    ),
    Mutation(
        "F984",
        "tests/unit/broker/test_refilled.py::"
        "test_a_replica_waits_until_it_has_all_that_its_leader_had_though_the_high_watermark_is_lower",
        "src/highwater/broker/refilled.py",
        "return end is not None and partition.has_leader_high_watermark and end <= partition.log.log_end",
        "return end is not None and partition.has_leader_high_watermark",
    ),
    Mutation(
        "F984",
        "tests/unit/broker/test_refilled.py::test_the_end_of_an_earlier_leader_does_not_count[after the answer]",
        "src/highwater/broker/refilled.py",
        "return end if epoch == partition.epoch else None",
        "return end",
    ),
    Mutation(
        "F985",
        "tests/unit/broker/test_replica_image.py::"
        "test_a_replica_whose_directory_is_not_online_may_not_be_in_the_isr[gone]",
        "src/highwater/broker/replica_image.py",
        "may_be_in_sync = known is not None and known.active and known.has_online(part.directory(replica))",
        "may_be_in_sync = known is not None and known.active and not is_lost(part, replica)",
    ),
    Mutation(
        "F986",
        "tests/unit/log/test_closing.py::test_each_attempt_to_begin_anew_waits_for_a_segment_swap",
        "src/highwater/log/truncation.py",
        "await _settled(log)\nif not (log.is_usable and still_meant()):",
        "if not (log.is_usable and still_meant()):",
    ),
]
