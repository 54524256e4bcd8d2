"""Elections that are owed, and what a broker may say of its logs after a clean stop."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

OWED = "tests/scenarios/test_owed_elections.py::"
CLEAN = "tests/scenarios/test_lost_after_a_clean_stop.py::"
SEVERAL = "tests/scenarios/test_replicas_over_several_starts.py::"
DAMAGE = "tests/scenarios/test_forgotten_damage.py::"

MUTATIONS = [
    Mutation(
        "F303",  # the next controller elects nobody for what a fencing left half done
        OWED + "test_a_partition_is_led_again_though_its_controller_ended_amid_the_fencing_of_two_silent_brokers",
        "src/highwater/active_controller/active_controller.py",
        "self._head = self.raft.committed\nself.owes_elections = True",
        "self._head = self.raft.committed",
    ),
    Mutation(
        "F303",  # nor does this one, once it can write again
        OWED + "test_a_partition_is_led_again_though_the_disk_was_full_between_the_fencings_of_two_silent_brokers",
        "src/highwater/active_controller/clockwork.py",
        "self._controller.owes_elections = self._controller.owes_elections or elect is elect_owed",
        "pass",
    ),
    Mutation(
        "F303",
        OWED + "test_all_partitions_are_led_again_though_the_disk_was_full_amid_an_unfencing_of_several_batches",
        "src/highwater/active_controller/clockwork.py",
        "if self._controller.owes_elections:",
        "if False:",
    ),
    Mutation(
        "F304",  # a broker joins an ISR amid its fencing
        OWED + "test_a_broker_that_is_fenced_in_slices_is_not_put_back_into_an_isr_between_two_of_them",
        "src/highwater/controller/alter_partition.py",
        "if joins and member.broker in leaving:",
        "if False:",
    ),
    Mutation(
        "F305",  # a log that is opened late, or never, is vouched for
        CLEAN + "test_a_broker_that_opens_a_shorter_log_only_after_its_registration_is_not_eligible_to_lead_it",
        "src/highwater/log/store.py",
        "if self.unloaded:",
        "if False:",
    ),
    Mutation(
        "F306",  # a missing checkpoint counts as an empty one
        CLEAN + "test_a_broker_with_a_clean_mark_and_without_a_checkpoint_that_every_clean_stop_writes_is_not_eligible",
        "src/highwater/log/found.py",
        "if data is None and found.clean and file_name != names.HIGH_WATERMARKS:",
        "if False:",
    ),
    Mutation(
        "F307",  # damage is forgotten by a restart
        DAMAGE + "test_a_damaged_replica_is_fetched_anew_though_its_broker_stops_when_it_is_known_to_be_lost",
        "src/highwater/log/loaded.py",
        "why = None if loaded.mark is None else loaded.mark.why",
        "why = loaded.gap",
    ),
    Mutation(
        "F307",  # the broker vouches for a damaged log
        "tests/unit/log/test_closing.py::test_a_stop_with_known_damage_is_not_marked",
        "src/highwater/log/clean_stop.py",
        "return log.offline is None and not log.reads.damage",
        "return log.offline is None",
    ),
    Mutation(
        "F302",  # the second start takes a log for whole that lacks its first segment
        "tests/unit/log/test_closing.py::test_a_log_without_its_first_segment_is_incomplete_after_every_later_stop",
        "src/highwater/log/store.py",
        "mark = await self._marks.write(path, incomplete)",
        "mark = Mark('')",
    ),
    Mutation(
        "F308",  # a follower whose last batch has moved never catches up
        "tests/unit/replication/test_follower.py::test_a_log_that_ends_inside_a_batch_of_the_leader_is_damaged",
        "src/highwater/replication/follower.py",
        "if first.base_offset < log.end <= first.last_offset:",
        "if False:",
    ),
    Mutation(
        "F309",  # a follower of a damaged leader begins anew for ever
        SEVERAL + "test_a_leader_whose_batch_has_moved_does_not_make_its_follower_begin_anew_for_ever",
        "src/highwater/partition/fetcher.py",
        "if not is_own and self._store.retired.keeps(partition.topic_id, partition.tp.partition):",
        "if False:",
    ),
    Mutation(
        "F310",  # a replica that lacks a segment fetches, and is in sync before it is lost
        SEVERAL + "test_a_replica_that_lacks_a_segment_is_in_no_isr_before_its_loss_is_reported",
        "src/highwater/broker/publisher.py",
        "if at is not None and partition.log.trouble is None:",
        "if at is not None and partition.log.offline is None:",
    ),
    Mutation(
        "F311",  # the last copy is never reported back
        SEVERAL + "test_the_last_copy_that_failed_and_then_lacks_a_segment_leads_again",
        "src/highwater/broker/publisher.py",
        "elif self._is_last_that_came_back(partition, part):",
        "elif False:",
    ),
    Mutation(
        "F312",  # a first segment that left its indexes counts as an end
        SEVERAL + "test_a_replica_whose_first_segment_left_its_indexes_alone_is_fetched_anew",
        "src/highwater/log/loaded.py",
        "if why is None and request.clean and loaded.orphans and loaded.orphans[0] < loaded.log_end:",
        "if False:",
    ),
    Mutation(
        "F313",  # one log's mistake keeps a whole directory from its stop
        SEVERAL + "test_a_mistake_in_the_snapshot_of_one_log_does_not_keep_the_others_from_a_stop",
        "src/highwater/log/clean_stop.py",
        "except Exception as failed:  # noqa: BLE001 the boundary of one log: the others are closed, too",
        "except OSError as failed:",
    ),
    Mutation(
        "F314",  # a session forgets a partition whose batch did not fit
        "tests/cluster/test_small_fetches.py::"
        "test_a_partition_whose_batch_did_not_fit_has_its_turn_in_the_next_fetch_of_the_session",
        "src/highwater/partition/fetching.py",
        "has_no_room = not parts and not at_least_one and entry.offset < limit",
        "has_no_room = False",
    ),
    Mutation(
        "F315",  # a second damage is reported before the first is written down
        "tests/scenarios/test_marks_of_damage.py::"
        "test_a_second_damage_is_not_reported_before_the_first_is_written_down",
        "src/highwater/log/damage_marks.py",
        "if log.offline is not None or log in self._unwritten or self._is_written(log):",
        "if log.offline is not None or log in self._unwritten or log in self._writing:",
    ),
    Mutation(
        "F321",  # a mark is written twice at a time, and the second one beside the next log
        "tests/scenarios/test_marks_of_damage.py::test_a_mark_that_found_no_room_is_not_written_twice_at_a_time",
        "src/highwater/log/damage_marks.py",
        "if log.offline is not None or log in self._unwritten or self._is_written(log):",
        "if log.offline is not None or self._is_written(log):",
    ),
    Mutation(
        "F322",  # a mark that found no room when the log was opened counts as written
        "tests/scenarios/test_marks_of_damage.py::"
        "test_a_missing_segment_is_written_down_though_the_disk_was_full_when_the_log_was_opened",
        "src/highwater/log/damage_marks.py",
        "return None if is_passing(failed) else mark",
        "return mark",
    ),
    Mutation(
        "F317",  # a mark whose segment is gone counts for a later damage
        "tests/scenarios/test_marks_of_damage.py::"
        "test_a_damage_is_written_down_though_an_earlier_one_went_with_its_segment",
        "src/highwater/log/damage_marks.py",
        "return known is not None and known.covers(self._wanted(log))",
        "return known is not None",
    ),
    Mutation(
        "F317",  # only one of two damaged segments is in the mark
        "tests/unit/log/test_damage_marks.py::test_a_mark_names_every_damaged_segment",
        "src/highwater/log/damage_marks.py",
        'damaged = {f"{base:020d}{names.LOG}": None for base in log.reads.damage}',
        'damaged = {f"{base:020d}{names.LOG}": None for base in list(log.reads.damage)[:1]}',
    ),
    Mutation(
        "F323",  # one new log that cannot be opened ends the node
        "tests/scenarios/test_f_missing.py::test_a_replica_whose_new_files_cannot_be_looked_at_is_made_later",
        "src/highwater/log/store.py",
        "log = self._opened(partition, made) if isinstance(made, LoadedLog) else made",
        "log = self._adopt(partition, made, self._config_of('')) if isinstance(made, LoadedLog) else made",
    ),
    Mutation(
        "F324",  # a recovery point from before a cut counts, and the epochs of what came after it are lost
        "tests/unit/log/test_mistakes.py::"
        "test_the_epochs_of_what_replaces_a_cut_are_known_after_a_kill_though_there_was_no_room_for_their_file",
        "src/highwater/log/log.py",
        "self._recovery_point = min(self._recovery_point, log_end)  # the file of epochs still has those that are cut",
        "pass",
    ),
    Mutation(
        "F325",  # a response that waited for metadata and cannot be made ends the node
        "tests/scenarios/test_f_boundaries.py::"
        "test_a_forwarded_request_that_meets_a_mistake_after_it_has_waited_ends_with_its_connection",
        "src/highwater/broker/forwarding.py",
        "except Exception as failed:  # noqa: BLE001 the boundary of this request",
        "except KeyboardInterrupt as failed:",
    ),
    Mutation(
        "F326",  # groups that fail when a topic is deleted end the node
        "tests/scenarios/test_f_boundaries.py::"
        "test_groups_that_meet_a_mistake_when_a_topic_is_deleted_do_not_keep_metadata_from_being_applied",
        "src/highwater/broker/groups.py",
        'with self._failures.boundary("callback", "groups that learn of deleted topics"):',
        "if True:",
    ),
]
