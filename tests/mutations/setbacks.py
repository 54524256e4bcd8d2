"""Faults that reviews suspected and tests proved: what fails once is tried again, and fails nobody else."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_QUORUM = "tests/scenarios/test_f_quorum.py"

MUTATIONS: list[Mutation] = [
    Mutation(
        "F201",  # a cleaning copies a batch whose offset is not of its segment
        "tests/unit/log/compaction/test_setbacks.py::"
        "test_an_offset_that_is_not_of_its_segment_is_damage_that_a_cleaning_reports[1048576]",
        "src/highwater/log/scan.py",
        "if below is not None and header.last_offset >= below:",
        "if False:",
    ),
    Mutation(
        "F212",  # the end of a follower lies amid the batch that its leader's log begins with
        "tests/scenarios/test_follower_disks.py::"
        "test_a_follower_catches_up_whose_own_tail_ends_where_the_leaders_log_begins_amid_a_batch",
        "src/highwater/replication/follower.py",
        "if count and log.start < log.end <= row.log_start and row.batches[0].base_offset < log.end:",
        "if False:",
    ),
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
        "src/highwater/active_controller/active_controller.py",
        "self.raft.resign(epoch)  # the next controller writes them, when there is room",
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
        "tests/scenarios/test_f_missing.py::test_a_deleted_log_whose_files_cannot_be_put_aside_is_gone_though_its_name_is_not_wanted",
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
        "clean = await stop.settle(logs) and not self.unloaded and not self.retired.pending",
        "clean = await stop.settle(logs) and not self.unloaded",
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
        "tests/unit/broker/test_directories.py::test_many_replica_directories_are_reported_in_several_requests",
        "src/highwater/broker/directories.py",
        "reported = dict(islice(self._unreported.items(), AT_ONCE))",
        "reported = dict(self._unreported)",
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
        "tests/unit/log/test_faults.py::test_a_late_write_of_a_deleted_log_does_not_reach_the_next_log_of_its_name",
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
        "with _in_use(disk.open(aside, create=True)) as file:",
        "if file := disk.open(aside, create=True):",
    ),
    Mutation(
        "F101",
        "tests/scenarios/test_f_boundaries.py::test_a_broker_that_the_controller_could_not_take_in_for_once_asks_again",
        "src/highwater/broker/lifecycle.py",
        "if code in _FINAL:",
        "if code is not Code.DUPLICATE_BROKER_REGISTRATION:",
    ),
    Mutation(
        "F104",
        "tests/scenarios/test_f_boundaries.py::test_a_cleaner_that_meets_a_mistake_while_it_looks_around_looks_again",
        "src/highwater/log/compaction/cleaner.py",
        'with self._world.failures.boundary("periodic", "the cleaner"):',
        "if True:",
    ),
    Mutation(
        "F110",
        "tests/scenarios/test_delete_records.py::test_the_low_watermark_is_not_checked_after_the_client_is_gone",
        "src/highwater/broker/k21_delete_records.py",
        "if self._ctx.connection.ending:",
        "if False:",
    ),
    Mutation(
        "F113",
        "tests/unit/quorum/test_fetching.py::test_a_node_that_got_no_high_watermark_yet_knows_that_its_snapshot_is_committed",
        "src/highwater/quorum/core.py",
        "if snapshot is not None and offset < snapshot.offset:",
        "if False:",
    ),
    Mutation(
        "F121",
        "tests/unit/net/test_connection.py::test_a_half_closed_peer_gets_the_answers_that_have_not_had_their_turn",
        "src/highwater/net/connection.py",
        "return (not self._outbox.empty or self._tired) and self._listening.tls is None",
        "return not self._outbox.empty and self._listening.tls is None",
    ),
    Mutation(
        "F121",
        "tests/unit/net/test_connection.py::test_a_half_closed_peer_gets_the_answers_that_have_not_had_their_turn",
        "src/highwater/net/connection.py",
        "if self._ending and self._parked is None and not self._tired:",
        "if self._ending and self._parked is None:",
    ),
    Mutation(
        "F121",
        "tests/unit/net/test_connection.py::test_a_half_closed_peer_gets_the_answers_that_have_not_had_their_turn",
        "src/highwater/net/connection.py",
        "if self._ending and self._outbox.empty and not self._tired and self._parked is None:",
        "if self._ending and self._outbox.empty and self._parked is None:",
    ),
    Mutation(
        "F121",
        "tests/unit/net/test_connection.py::test_a_caller_gets_an_error_when_the_connection_is_gone",
        "src/highwater/net/connection.py",
        "self.line.hang_up()",
        "pass",
    ),
    Mutation(
        "F123",
        "tests/unit/broker/test_doubts.py::test_a_broker_that_was_heard_of_again_is_doubted_anew",
        "src/highwater/broker/doubts.py",
        "self._hinted.pop(broker, None)",
        "pass",
    ),
    Mutation(
        "F124",
        "tests/unit/partition/test_fetch_session.py::test_a_session_that_is_gone_is_no_longer_tied_to_its_connection",
        "src/highwater/partition/fetch_session.py",
        "session.ties.pop(session.id, None)",
        "pass",
    ),
    Mutation(
        "F125",
        "tests/unit/log/test_faults.py::test_a_log_that_began_anew_does_so_after_a_power_cut_too",
        "src/highwater/log/truncation.py",
        "await finished(world, remove_files, [*gone, *snapshots], where=places.files)\n"
        "await synced(world, [log.active.file], log.directory, where=places.syncs)",
        "await finished(world, remove_files, [*gone, *snapshots], where=places.files)",
    ),
    Mutation(
        "F126",
        "tests/unit/log/test_faults.py::test_a_cut_that_is_obsolete_is_not_made",
        "src/highwater/log/truncation.py",
        "if cut is None or not still_meant():",
        "if cut is None:",
    ),
    Mutation(
        "F127",
        "tests/unit/log/test_faults.py::test_a_deletion_whose_directory_could_not_be_opened_is_synced_later",
        "src/highwater/log/durability.py",
        "if isinstance(result, Exhausted) and not self._stopped:\n"
        "self.directory_changed = self.directory_changed or with_directory",
        "if isinstance(result, Exhausted) and not self._stopped:",
    ),
    Mutation(
        "F128",
        "tests/unit/broker/test_auto_creation.py::test_the_number_of_topics_that_are_created_automatically_at_a_time_is_bounded",
        "src/highwater/broker/auto_creation.py",
        "self._ask(new[: max(MOST_AT_A_TIME - len(self._asked), 0)], now)",
        "self._ask(new, now)",
    ),
    Mutation(
        "F250",  # a log start that was written down after a cut is reported to no leader
        "tests/scenarios/test_delete_records.py::"
        "test_a_log_start_that_is_written_down_after_a_cut_is_sent_nevertheless",
        "src/highwater/log/store.py",
        "self.keep_start(log, kept)",
        "kept()",
    ),
    Mutation(
        "F251",
        "tests/scenarios/test_delete_records.py::test_a_log_that_is_cut_to_nothing_knows_that_its_start_is_kept",
        "src/highwater/log/truncation.py",
        "log.durability.start_kept(log.segments[0].base_offset)",
        "pass",
    ),
    Mutation(
        "F252",
        "tests/unit/log/test_mishaps.py::test_retention_makes_only_the_start_of_its_segments_durable",
        "src/highwater/log/expiry.py",
        "log.durability.start_kept(min(start, log.segments[0].base_offset))",
        "log.durability.start_kept(log.log_start)",
    ),
    Mutation(
        "F253",  # a member of the ELR that is down still has the records
        "tests/scenarios/test_delete_records.py::test_records_that_an_eligible_leader_still_has_are_not_called_deleted",
        "src/highwater/replication/leader.py",
        "if self.brokers.get(replica) is not None or replica in self.elr:",
        "if self.brokers.get(replica) is not None:",
    ),
    Mutation(
        "F254",  # a node of another cluster waits for a leader for ever
        f"{_QUORUM}::test_a_node_of_another_cluster_ends_with_an_error_that_names_both_the_file_and_the_voters",
        "src/highwater/quorum/machine.py",
        "note_cluster_of(core, peer_id, response)",
        "pass",
    ),
    Mutation(
        "F258",  # the answer of a large envelope is cut short with its connection, and its room is never free again
        "tests/unit/broker/test_large_requests.py::"
        "test_a_large_envelope_leaves_its_place_if_its_connection_ends_while_it_is_answered",
        "src/highwater/active_controller/k58_envelope.py",
        "super().carry_out(_to_its_end(work, self.slot))",
        "super().carry_out(work)",
    ),
    Mutation(
        "F259",  # a fetch that was never sent is waited for
        "tests/scenarios/test_f_boundaries.py::test_a_mistake_while_a_fetch_is_made_delays_no_other_for_long",
        "src/highwater/partition/fetcher.py",
        "self._connection.close()\nself._world.clock.call_later(self._limits().backoff, self._soon)",
        "pass\nself._world.clock.call_later(self._limits().backoff, self._soon)",
    ),
    Mutation(
        "F261",  # a log start that is only in the cache is sent to others
        "tests/unit/log/test_mishaps.py::"
        "test_a_checkpoint_that_was_renamed_just_before_a_kill_is_durable_after_the_start",
        "src/highwater/log/found.py",
        "disk.sync_dir(directory)",
        "pass",
    ),
    Mutation(
        "F262",  # a vote that is only in the cache is given
        f"{_QUORUM}::test_a_vote_that_was_renamed_just_before_a_kill_is_durable_after_the_start",
        "src/highwater/log/loader.py",
        "self.disk.sync_dir(self.directory)",
        "pass",
    ),
    Mutation(
        "F263",  # each place of a group is looked for in all that is under way
        "tests/unit/groups/test_loading.py::test_a_pending_commit_of_a_partition_is_found_without_a_search_of_all",
        "src/highwater/groups/offsets.py",
        "return place in self._writing_at.get(group, ())",
        "return any(place in each.changes for each in self._writing.get(group, {}).values())",
    ),
    Mutation(
        "F276",  # a log that a snapshot is ahead of by its epoch alone
        "tests/scenarios/test_c_snapshots.py::"
        "test_a_voter_that_is_killed_between_a_fetched_snapshot_and_the_cut_of_its_log_starts_again",
        "src/highwater/raft_node/metadata_loader.py",
        "if newest is not None and newest.position > _end_of(loaded, newest):",
        "if newest is not None and loaded.log_end < after:",
    ),
    Mutation(
        "F276",  # the recovery point of a log that was dropped
        "tests/scenarios/test_c_snapshots.py::"
        "test_a_voter_that_is_killed_between_a_fetched_snapshot_and_the_cut_of_its_log_starts_again",
        "src/highwater/raft_node/metadata_loader.py",
        "yield from forget_recovery_point(disk, directory)",
        "",
    ),
    Mutation(
        "F277",  # snapshots below the log start
        "tests/scenarios/test_c_snapshots.py::"
        "test_a_leader_that_took_a_snapshot_once_and_started_again_lets_new_nodes_in",
        "src/highwater/raft_node/metadata_loader.py",
        "return [position for position in positions if position.offset >= loaded.log_start]",
        "return positions",
    ),
    Mutation(
        "F277",
        "tests/scenarios/test_c_snapshots.py::"
        "test_a_leader_that_took_a_snapshot_once_and_started_again_lets_new_nodes_in",
        "src/highwater/raft_node/snapshotter.py",
        "self._remove([self._directory / snapshot_name(position) for position in older])",
        "pass",
    ),
    Mutation(
        "F278",  # a start that ends before it has registered
        "tests/scenarios/test_last_copies.py::"
        "test_a_start_that_ends_before_it_has_registered_leaves_a_clean_stop_clean",
        "src/highwater/broker/role.py",
        "epoch = self.broker.store.found.broker_epoch",
        "pass",
    ),
    Mutation(
        "F290",  # two installations of one snapshot
        "tests/scenarios/test_c_snapshots.py::"
        "test_a_voter_that_fetches_a_snapshot_while_the_leader_changes_fetches_one_at_a_time",
        "src/highwater/raft_node/raft_node.py",
        "self._installation.give_up()",
        "pass",
    ),
    Mutation(
        "F291",  # logs that were recovered though the stop was clean
        "tests/scenarios/test_last_copies.py::"
        "test_a_broker_that_lost_something_after_a_clean_stop_is_not_eligible_to_lead",
        "src/highwater/log/found.py",
        "found.broker_epoch = -1  # recovery may cut damaged batches: this replica may lack committed records",
        "pass",
    ),
    Mutation(
        "F291",  # a log that was removed while its broker was down
        "tests/scenarios/test_last_copies.py::"
        "test_a_broker_that_lost_something_after_a_clean_stop_is_not_eligible_to_lead",
        "src/highwater/log/found.py",
        "if absent:\nself.broker_epoch = -1",
        "pass",
    ),
    Mutation(
        "F291",  # a log that ends before its recovery point
        "tests/scenarios/test_last_copies.py::"
        "test_a_broker_that_lost_something_after_a_clean_stop_is_not_eligible_to_lead",
        "src/highwater/log/loaded.py",
        "if why is None and loaded.log_end < request.recovery_point:",
        "if False:",
    ),
    Mutation(
        "F293",  # a snapshot that cannot be written is fetched again without a pause
        "tests/unit/quorum/test_fetching.py::"
        "test_a_snapshot_that_could_not_be_installed_is_asked_for_again_after_a_pause",
        "src/highwater/quorum/machine.py",
        "if isinstance(role, Follower):\nself._core.links.pause(role.leader_id, now)",
        "pass",
    ),
    Mutation(
        "F291",  # a first segment that is gone
        "tests/scenarios/test_last_copies.py::"
        "test_a_broker_that_lost_something_after_a_clean_stop_is_not_eligible_to_lead",
        "src/highwater/log/store.py",
        "lambda log: log.log_start if self._is_closing else _log_start_beside(log),",
        "_log_start_beside,",
    ),
    Mutation(
        "F291",  # a gap
        "tests/scenarios/test_last_copies.py::"
        "test_a_broker_that_lost_something_after_a_clean_stop_is_not_eligible_to_lead",
        "src/highwater/log/loader.py",
        "if following > self.request.clean_end and self.gap is None:",
        "if False:",
    ),
]
