"""Guards that were broken by hand, one at a time, while all tests nearby stayed green: each has a test now."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

SRC = "src/highwater/"

MUTATIONS = [
    Mutation(
        "F440",
        "tests/unit/client/test_batch_sender.py::test_a_partition_that_the_answer_does_not_mention_is_an_error",
        f"{SRC}client/batch_sender.py",
        "for lane, batch in waiting.values():",
        "for lane, batch in ():",
    ),
    Mutation(
        "F441",
        "tests/unit/client/test_batch_sender.py::test_a_batch_goes_to_the_next_leader_when_its_leader_has_moved",
        f"{SRC}client/batch_sender.py",
        "self.client.forget(lane.partition.topic)",
        "pass",
    ),
    Mutation(
        "F442",
        "tests/unit/client/test_batch_sender.py::test_a_sender_without_sequences_sends_one_batch_at_a_time",
        f"{SRC}client/batch_sender.py",
        "self.max_in_flight = max_in_flight if idempotent else 1",
        "self.max_in_flight = max_in_flight",
    ),
    Mutation(
        "F930",
        "tests/unit/client/test_factor_plan.py::test_replicas_are_removed_from_different_brokers_if_the_plan_leaves_them_equally_full",
        f"{SRC}client/factor_plan.py",
        "_add(filled, left, -held.size, -1)",
        "pass",
    ),
    Mutation(
        "F931",
        "tests/unit/broker/test_describing_logs.py::test_only_a_leader_with_a_working_log_lists_producers",
        f"{SRC}broker/k61_describe_producers.py",
        "partition.require_leader()",
        "pass",
    ),
    Mutation(
        "F932",
        "tests/unit/groups/test_removal.py::test_an_offset_expires_at_the_end_of_the_retention_that_its_client_asked_for",
        f"{SRC}groups/removal.py",
        "return aged_ms >= offset.expire_ms",
        "return aged_ms > offset.expire_ms",
    ),
    Mutation(
        "F933",
        "tests/unit/broker/test_departed.py::test_a_broker_that_is_fenced_again_is_listed_for_the_whole_time_after_the_second_fencing",
        f"{SRC}broker/departed.py",
        "if self._recent.get(broker) == fenced_at:",
        "if broker in self._recent:",
    ),
    Mutation(
        "F934",
        "tests/unit/broker/test_derived_settings.py::test_no_throttle_is_set_before_a_rate_is_set",
        f"{SRC}broker/throttles.py",
        "return metadata.derived(lambda config: None if (v := config.get(setting)) == setting.default else v)",
        "return metadata.derived(lambda config: config.get(setting))",
    ),
    Mutation(
        "F935",
        "tests/unit/coordinator/test_tenure.py::test_a_tenure_that_ends_between_two_effects_writes_nothing_more",
        f"{SRC}coordinator/tenure.py",
        "elif self.state is TenureState.ACTIVE:\nself._write(effect)",
        "else: self._write(effect)",
    ),
    Mutation(
        "F936",
        "tests/unit/storage/test_format.py::test_a_directory_with_meta_properties_has_its_first_snapshot_after_a_power_cut",
        f"{SRC}storage/format.py",
        "disk.sync_dir(directory)",
        "pass",
    ),
    Mutation(
        "F937",
        "tests/unit/active_controller/test_pieces.py::test_a_request_is_passed_on_only_if_no_piece_of_it_was_decided",
        f"{SRC}active_controller/pieces.py",
        "if len(decided) == len(pieces) and not (undecided == len(pieces) and sends_elsewhere()):",
        "if len(decided) == len(pieces) and not sends_elsewhere():",
    ),
    Mutation(
        "F938",
        "tests/unit/client/test_throttles.py::test_a_partition_that_is_moving_already_copies_from_the_replicas_that_it_had_before",
        f"{SRC}client/throttles.py",
        "sources = moves[tp].sources if tp in moves else frozenset(current[tp])",
        "sources = frozenset(current[tp])",
    ),
    Mutation(
        "F443",
        "tests/unit/client/test_consumer.py::test_a_batch_that_was_read_before_is_not_given_out_again",
        f"{SRC}client/consumer.py",
        "if next_offset is None or next_offset <= start:",
        "if next_offset is None:",
    ),
    Mutation(
        "F444",
        "tests/unit/client/test_consumer.py::test_a_session_begins_anew_after_an_error_of_a_partition",
        f"{SRC}client/consumer.py",
        "self._session(leader).reset()",
        "pass",
    ),
    Mutation(
        "F445",
        "tests/unit/client/test_consumer.py::test_a_session_begins_anew_after_its_connection_was_lost",
        f"{SRC}client/consumer.py",
        "self._sessions.pop(leader, None)",
        "pass",
    ),
    Mutation(
        "F446",
        "tests/unit/client/test_consumer.py::test_trouble_is_counted_from_the_last_good_answer",
        f"{SRC}client/consumer.py",
        "self._failing_since.pop(partition, None)",
        "pass",
    ),
    Mutation(
        "F447",
        "tests/unit/client/test_consumer.py::test_a_lost_leader_is_no_trouble_of_partitions_that_another_one_leads",
        f"{SRC}client/consumer.py",
        "for partition in [each for each in partitions if self._may_lead(leader, each)]:",
        "for partition in (each for each in partitions if self._may_lead(leader, each)):",
    ),
    Mutation(
        "F448",
        "tests/unit/partition/test_in_sync.py::"
        "test_a_refusal_of_what_an_earlier_term_proposed_commits_nothing_in_this_one",
        f"{SRC}partition/partition.py",
        "if self.leader is leader:",
        "if self.leader is not None:",
    ),
    Mutation(
        "F449",
        "tests/unit/active_controller/test_active_controller.py::"
        "test_a_decision_that_was_written_in_part_leaves_elections_to_be_made",
        f"{SRC}active_controller/active_controller.py",
        "self.owes_elections = self.owes_elections or at > 0",
        "pass",
    ),
    Mutation(
        "F450",
        "tests/unit/active_controller/test_active_controller.py::"
        "test_a_fencing_of_an_earlier_term_keeps_no_broker_out_of_an_isr_for_ever",
        f"{SRC}active_controller/broker_watch.py",
        "self._fencings.clear()",
        "pass",
    ),
    Mutation(
        "F451",
        "tests/unit/active_controller/test_soft_state.py::"
        "test_a_controller_that_was_stalled_gives_every_broker_a_new_session",
        f"{SRC}active_controller/broker_watch.py",
        "if was_stalled(due, now):",
        "if False:",
    ),
    Mutation(
        "F452",
        "tests/unit/active_controller/test_soft_state.py::test_a_fenced_broker_has_no_session_that_could_end_again",
        f"{SRC}active_controller/broker_watch.py",
        "self.liveness.forget(broker, epoch)",
        "pass",
    ),
    Mutation(
        "F453",
        "tests/unit/active_controller/test_docket.py::"
        "test_a_decision_amid_which_all_are_given_up_does_not_end_the_next_one",
        f"{SRC}active_controller/docket.py",
        "elif self._under_way is under_way:",
        "else:",
    ),
    Mutation(
        "F454",
        "tests/unit/net/test_client.py::test_a_dial_that_succeeds_after_the_end_is_hung_up",
        f"{SRC}net/client.py",
        "cast(Transport, transport).abort()",
        "pass",
    ),
    Mutation(
        "F455",
        "tests/unit/net/test_client.py::test_a_peer_that_refuses_every_version_is_broken",
        f"{SRC}net/client.py",
        "self._ask_versions(0 if common is None or common == version else common, on_open, timeout)",
        "self._ask_versions(common or 0, on_open, timeout)",
    ),
    Mutation(
        "F456",
        "tests/unit/log/test_checkpoint.py::"
        "test_a_checkpoint_is_written_again_if_it_is_unknown_whether_the_last_write_replaced_it",
        f"{SRC}log/checkpoint.py",
        "self._written = None",
        "pass",
    ),
    Mutation(
        "F457",
        "tests/unit/log/test_truncation.py::"
        "test_the_recovery_point_is_never_beyond_a_cut_even_before_its_epochs_are_written",
        f"{SRC}log/log.py",
        "self._recovery_point = min(self._recovery_point, log_end)  # the file of epochs still has those that are cut",
        "pass",
    ),
    Mutation(
        "F458",
        "tests/unit/broker/test_isr_changes.py::"
        "test_a_lost_request_does_not_come_back_in_the_place_of_a_newer_proposal",
        f"{SRC}broker/isr_changes.py",
        "self._waiting.setdefault(key, each)",
        "self._waiting[key] = each",
    ),
    Mutation(
        "F459",
        "tests/unit/broker/test_isr_changes.py::test_a_proposal_of_an_earlier_term_is_not_sent_again",
        f"{SRC}broker/isr_changes.py",
        "[(key, each) for key, each in waiting if each[1].proposal is each[2] and each[0].leader is each[1]]",
        "[(key, each) for key, each in waiting if each[1].proposal is each[2]]",
    ),
    Mutation(
        "F460",
        "tests/unit/broker/test_controller_channel.py::"
        "test_a_request_that_no_controller_has_taken_goes_to_the_next_one",
        f"{SRC}broker/controller_channel.py",
        'if isinstance(answer, CallFailed) or getattr(answer, "error_code", 0) == Code.NOT_CONTROLLER:',
        "if isinstance(answer, CallFailed):",
    ),
    Mutation(
        "F461",
        "tests/unit/broker/test_controller_channel.py::"
        "test_requests_of_a_stopped_controller_go_to_its_successor_at_once",
        f"{SRC}broker/controller_channel.py",
        "if self._connection is not None and self._connection.peer != self._controller():",
        "if self._connection is not None:",
    ),
    Mutation(
        "F462",
        "tests/unit/broker/test_producer_ids.py::test_a_block_that_was_allocated_before_is_not_used_again",
        f"{SRC}broker/producer_ids.py",
        "if answer.error_code != Code.NONE or not block or block.start < self._block.stop:",
        "if answer.error_code != Code.NONE or not block:",
    ),
    Mutation(
        "F463",
        "tests/unit/broker/test_refilled.py::test_a_replica_is_reported_once_when_it_has_every_committed_record",
        f"{SRC}broker/refilled.py",
        "done = [partition for partition in self._waiting if self.has_what_is_committed(partition)]",
        "done = list(self._waiting)",
    ),
    Mutation(
        "F464",
        "tests/unit/broker/test_lifecycle.py::test_a_broker_that_leaves_serves_on_until_the_controller_lets_it_go",
        f"{SRC}broker/lifecycle.py",
        "if answer.should_shut_down:",
        "if True:",
    ),
    Mutation(
        "F465",
        "tests/scenarios/test_settings_and_syncs.py::"
        "test_in_flush_mode_a_record_with_acks_1_is_not_acknowledged_if_its_sync_fails",
        f"{SRC}broker/k00_produce.py",
        "self._settle(key, Code.NONE if partition.log.offline is None else Code.KAFKA_STORAGE_ERROR)",
        "self._settle(key, Code.NONE)",
    ),
    Mutation(
        "F466",
        "tests/unit/pipeline/landing/test_rule.py::"
        "test_records_of_a_log_that_was_cut_and_written_anew_are_not_those_that_the_table_has",
        f"{SRC}pipeline/landing/rule.py",
        "if present and NO_EPOCH not in (present[-1].epoch, reach.epoch_before) "
        "and present[-1].epoch > reach.epoch_before:",
        "if False:",
    ),
    Mutation(
        "F467",
        "tests/unit/pipeline/landing/test_delta_limits.py::test_a_table_with_deletion_vectors_is_not_compacted",
        f"{SRC}pipeline/landing/delta_upkeep.py",
        "check_plain(table)",
        "pass",
    ),
    Mutation(
        "F468",
        "tests/unit/pipeline/landing/test_statistics.py::"
        "test_a_column_has_no_bounds_if_they_are_missing_in_one_row_group",
        f"{SRC}pipeline/landing/statistics.py",
        "if not _is_ordered(field.type) or not with_values or not all(group.has_min_max for group in with_values):",
        "if not _is_ordered(field.type) or not with_values:",
    ),
    Mutation(
        "F469",
        "tests/unit/pipeline/landing/test_calendar.py::test_a_day_beyond_the_calendar_lands_like_any_other",
        f"{SRC}pipeline/landing/calendar.py",
        "is_within = _lies_within(column.cast(pa.int32()), FIRST_DAY, LAST_DAY)",
        "is_within = True",
    ),
    Mutation(
        "F470",
        "tests/unit/cluster/test_links.py::test_a_delay_that_is_no_time_is_refused_and_changes_nothing",
        f"{SRC}cluster/links.py",
        "if not 0 <= seconds < inf:",
        "if seconds < 0:",
    ),
    Mutation(
        "F546",  # a snapshot replaces a log that no longer waits for it
        "tests/unit/raft_node/test_installing.py::test_a_snapshot_that_is_no_longer_wanted_leaves_the_log_as_it_is",
        "src/highwater/raft_node/raft_node.py",
        "if position != self.quorum.fetching_snapshot:",
        "if False:",
    ),
    Mutation(
        "F547",  # a snapshot replaces a log that has more
        "tests/unit/raft_node/test_installing.py::test_a_snapshot_that_is_not_ahead_of_the_log_leaves_it_as_it_is",
        "src/highwater/raft_node/raft_node.py",
        "is_ahead = position > LogPosition(self.log.last_epoch, self.log.durable_end)",
        "is_ahead = True",
    ),
    Mutation(
        "F502",  # retention goes on while the logs are closed, and the next start misses a first segment
        "tests/unit/broker/test_retention.py::test_no_segment_goes_after_the_upkeep_has_stopped",
        "src/highwater/broker/upkeep.py",
        "return not self._stopped and self._broker.hosted.get(partition.tp) is partition",
        "return self._broker.hosted.get(partition.tp) is partition",
    ),
]
