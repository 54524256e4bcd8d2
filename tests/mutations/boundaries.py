"""Faults that reviews proved: failures that end what failed and nothing more."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

SETTINGS = "tests/scenarios/test_f_settings.py::"

BOUNDARIES = "tests/scenarios/test_f_boundaries.py::"
MISSING = "tests/scenarios/test_f_missing.py::"
METADATA = "tests/scenarios/test_f_metadata.py::"

MUTATIONS: list[Mutation] = [
    Mutation(
        scenario="F8",
        test=METADATA + "test_a_write_that_fails_within_an_answer_is_done_again_from_there",
        file="src/highwater/raft_node/raft_node.py",
        line="self._replay.extend(fetched.batches)",
        replacement="if fetched.failure is None:\n    self._replay.extend(fetched.batches)",
    ),
    Mutation(
        scenario="F8",
        test=METADATA + "test_a_node_whose_disk_does_not_take_its_metadata_any_more_stops",
        file="src/highwater/raft_node/raft_node.py",
        line="if failure is not None and isinstance(failure.__cause__, OSError) and not is_passing(failure.__cause__):",
        replacement="if False:",
    ),
    Mutation(
        scenario="F9",
        test=MISSING + "test_a_replica_that_cannot_be_made_leaves_the_lead_and_is_made_later",
        file="src/highwater/broker/missing.py",
        line="self._directories.lose(*key, lasting=pause is None)",
        replacement="pass",
    ),
    Mutation(
        scenario="F9",
        test=MISSING + "test_the_only_replica_that_cannot_be_made_is_made_once_there_is_room",
        file="src/highwater/broker/missing.py",
        line="self._wake_at(self._open_at[tp], now)",
        replacement="pass",
    ),
    Mutation(
        scenario="F9",
        test=MISSING + "test_a_log_that_cannot_be_opened_for_want_of_something_is_opened_later",
        file="src/highwater/broker/missing.py",
        line="await self._open_again(topic, tp)",
        replacement="pass",
    ),
    Mutation(
        scenario="F13",
        test="tests/unit/broker/test_compaction.py"
        "::test_the_latest_record_is_found_though_the_first_batch_has_none_left_behind_the_log_start",
        file="src/highwater/log/lookup.py",
        line="timestamp = NO_TIMESTAMP.timestamp if left is None else left[1]  # compaction may have left none",
        replacement="timestamp = left[1]",
    ),
    Mutation(
        scenario="F13",
        test=BOUNDARIES
        + "test_retention_that_fails_at_one_partition_goes_on_at_the_others_and_at_the_next_time_there_too",
        file="src/highwater/broker/upkeep.py",
        line="with self._at(partition):\n"
        "if await self._broker.store.expiry.apply(partition.log, partial(self._still_meant, partition)):",
        replacement="if True:\n"
        "    if await self._broker.store.expiry.apply(partition.log, partial(self._still_meant, partition)):",
    ),
    Mutation(
        scenario="F13",
        test=BOUNDARIES + "test_upkeep_that_fails_at_one_partition_goes_on_at_the_others",
        file="src/highwater/broker/upkeep.py",
        line="for partition in partitions[at : at + SLICE]:\nwith self._at(partition):",
        replacement="for partition in partitions[at : at + SLICE]:\n    if True:",
    ),
    Mutation(
        scenario="F13",
        test=BOUNDARIES + "test_a_controller_whose_clockwork_fails_once_still_fences_silent_brokers",
        file="src/highwater/active_controller/clockwork.py",
        line='with self._world.failures.boundary("periodic", "the controller\'s sessions and elections"):',
        replacement="if True:",
    ),
    Mutation(
        scenario="F13",
        test=METADATA + "test_a_snapshot_written_while_a_newer_one_is_installed_is_not_listed_after_it",
        file="src/highwater/raft_node/snapshotter.py",
        line="if latest is not None and result.offset <= latest.offset:",
        replacement="if False:",
    ),
    Mutation(
        scenario="F14",
        test="tests/unit/broker/test_compaction.py"
        "::test_tombstones_that_are_kept_for_ever_are_compacted_like_any_other",
        file="src/highwater/log/compaction/thinning.py",
        line="self._horizon = min(now_ms + delete_retention_ms, _END_OF_TIME_MS)",
        replacement="self._horizon = now_ms + delete_retention_ms",
    ),
    Mutation(
        scenario="F14",
        test="tests/unit/broker/test_extreme_settings.py"
        "::test_a_node_writes_compacts_and_starts_again_under_an_extreme_setting",
        file="src/highwater/log/compaction/cleaner.py",
        line="bytes_per_second=max(config.get(settings.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND) / threads, 1.0),",
        replacement="bytes_per_second=config.get(settings.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND) / threads,",
    ),
    Mutation(
        scenario="F15",
        test=SETTINGS + "test_a_broker_refuses_settings_that_do_not_suit_it",
        file="src/highwater/broker/own_settings.py",
        line="_check_suits(broker, resource)",
        replacement="pass",
    ),
    Mutation(
        scenario="F15",
        test=SETTINGS + "test_a_broker_goes_on_with_the_settings_it_has_where_new_ones_do_not_suit_it",
        file="src/highwater/broker/applied_metadata.py",
        line="before, self.config = self.config, self.config.adopting(own, default)",
        replacement="before, self.config = self.config, self.config.with_dynamic(own, default)",
    ),
    Mutation(
        scenario="F15",
        test="tests/unit/broker/test_alter_broker_configs.py"
        "::test_a_topics_setting_that_cannot_be_read_counts_as_not_set",
        file="src/highwater/broker/applied_metadata.py",
        line="except ConfigError as problem:",
        replacement="except AssertionError as problem:",
    ),
    Mutation(
        scenario="F16",
        test="tests/scenarios/test_f_quorum.py::test_a_vote_in_one_of_the_last_epochs_leaves_the_controller_as_it_is",
        file="src/highwater/quorum/voting.py",
        line="if not core.is_in_reach(partition.replica_epoch):",
        replacement="if False:",
    ),
    Mutation(
        scenario="F16",
        test="tests/unit/quorum/test_far_epochs.py"
        "::test_a_request_of_an_epoch_out_of_reach_is_refused_and_changes_nothing",
        file="src/highwater/quorum/epochs.py",
        line="if not core.is_in_reach(epoch):",
        replacement="if False:",
    ),
    Mutation(
        scenario="F16",
        test="tests/unit/quorum/test_far_epochs.py::test_an_answer_of_the_last_epochs_is_passed_over",
        file="src/highwater/quorum/answer_head.py",
        line="if epoch > max(before.epoch, LAST_ACCEPTED):",
        replacement="if False:",
    ),
    Mutation(
        scenario="F16",
        test="tests/scenarios/test_f_quorum.py::test_voters_whose_epochs_lie_far_apart_find_together_again",
        file="src/highwater/quorum/answer_head.py",
        line="if epoch > max(before.epoch, LAST_ACCEPTED):",
        replacement="if not core.is_in_reach(epoch):",
    ),
    Mutation(
        scenario="F16",
        test="tests/scenarios/test_f_quorum.py::test_votes_of_a_stranger_leave_the_voters_in_the_epoch_they_are_in",
        file="src/highwater/quorum/voting.py",
        line="if not core.voters.has(candidate):",
        replacement="if False:",
    ),
    Mutation(
        scenario="F16",
        test="tests/unit/quorum/test_far_epochs.py::test_a_node_that_is_no_voter_moves_no_epoch_and_gets_no_vote",
        file="src/highwater/quorum/epochs.py",
        line="if not core.voters.has(ReplicaKey(leader_id)):",
        replacement="if False:",
    ),
    Mutation(
        scenario="F17",
        test="tests/scenarios/test_f_quorum.py::test_a_vote_that_cannot_be_written_yet_is_answered_once_it_is",
        file="src/highwater/world/jobs.py",
        line="if not passes(failed):",
        replacement="if True:",
    ),
    Mutation(
        scenario="F17",
        test="tests/unit/raft_node/test_recovery_point.py::test_a_follower_cuts_its_log_once_there_is_room_to_lower_it",
        file="src/highwater/raft_node/recovery_point.py",
        line="await patiently(lambda: self._file.written())",
        replacement="await self._file.written()",
    ),
    Mutation(
        scenario="F17",
        test="tests/unit/coordinator/test_loading.py::test_a_mistake_amid_the_load_ends_it_and_sends_callers_away",
        file="src/highwater/coordinator/tenure.py",
        line="with self._whole():\ntry:",
        replacement="if True:\n    try:",
    ),
    Mutation(
        scenario="F17",
        test=BOUNDARIES + "test_a_log_that_meets_a_mistake_while_it_is_loaded_is_left_out_and_the_others_serve",
        file="src/highwater/log/store.py",
        line='with self._world.failures.boundary("partition", f"{partition} while it is loaded", left_out):',
        replacement="if True:",
    ),
    Mutation(
        scenario="F17",
        test=BOUNDARIES + "test_a_replica_that_meets_a_mistake_while_it_is_made_is_made_later_and_the_others_at_once",
        file="src/highwater/log/creation.py",
        line="except Exception as failed:  # noqa: BLE001 the boundary of this partition: the others are made",
        replacement="except OSError as failed:",
    ),
    Mutation(
        scenario="F17",
        test=BOUNDARIES + "test_a_fetch_that_meets_a_mistake_after_it_has_waited_ends_with_its_connection",
        file="src/highwater/broker/waiting_fetch.py",
        line="except Exception as failed:  # noqa: BLE001 the boundary of this request, even if a callback runs it",
        replacement="except AssertionError as failed:",
    ),
    Mutation(
        scenario="F17",
        test=BOUNDARIES
        + "test_a_fetch_of_the_quorum_that_meets_a_mistake_ends_with_its_connection_and_the_node_goes_on",
        file="src/highwater/raft_node/k01_fetch.py",
        line="except Exception as failed:  # noqa: BLE001 this request failed, not the quorum",
        replacement="except AssertionError as failed:",
    ),
    Mutation(
        scenario="F17",
        test=BOUNDARIES + "test_a_cleaning_that_meets_a_mistake_leaves_its_log_and_goes_on_with_the_others",
        file="src/highwater/log/compaction/cleaner.py",
        line='self._world.spawn(f"clean {log.partition}", cleaning, partial(self._broken, log))',
        replacement='self._world.spawn(f"clean {log.partition}", cleaning)',
    ),
    Mutation(
        scenario="F17",
        test=BOUNDARIES + "test_a_checkpoint_that_meets_a_mistake_is_written_later",
        file="src/highwater/log/store.py",
        line='self._world.failures.note("job", f"a checkpoint in {self.directory}", failed)',
        replacement="raise failed",
    ),
    Mutation(
        scenario="F17",
        test=BOUNDARIES + "test_a_log_that_meets_a_mistake_is_followed_by_another_and_its_neighbours_stay",
        file="src/highwater/log/log.py",
        line="except Exception as failed:  # the partition's boundary",
        replacement="except AssertionError as failed:",
    ),
    Mutation(
        scenario="F17",
        test="tests/unit/world/test_boundary.py::test_a_callback_that_fails_is_counted_and_the_loop_goes_on",
        file="src/highwater/world/real.py",
        line="loop.set_exception_handler(self._escaped)",
        replacement="pass",
    ),
    Mutation(
        scenario="F17",
        test="tests/unit/world/test_boundary.py"
        "::test_a_sync_that_raises_fails_for_its_callers_and_the_next_round_comes",
        file="src/highwater/world/flusher.py",
        line="except Exception as error:  # noqa: BLE001 a job's boundary: others of this round would wait for ever",
        replacement="except AssertionError as error:",
    ),
    Mutation(
        scenario="F17",
        test=BOUNDARIES + "test_a_follower_that_meets_a_mistake_at_one_partition_goes_on_with_the_others",
        file="src/highwater/partition/fetcher.py",
        line="except Exception as failed:  # noqa: BLE001 the boundary of one partition",
        replacement="except AssertionError as failed:",
    ),
    Mutation(
        scenario="F17",
        test=BOUNDARIES + "test_a_failing_callback_for_a_commit_does_not_affect_the_others",
        file="src/highwater/partition/partition.py",
        line="except Exception as failed:  # noqa: BLE001 the boundary of one callback",
        replacement="except AssertionError as failed:",
    ),
    Mutation(
        scenario="F34",
        test="tests/cluster/test_transactions.py"
        "::test_a_client_that_asks_for_transactions_learns_at_once_that_there_are_none",
        file="src/highwater/broker/k10_find_coordinator.py",
        line="NO_TRANSACTIONS = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        replacement="NO_TRANSACTIONS = Code.UNSUPPORTED_VERSION",
    ),
]
