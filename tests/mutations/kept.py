"""Faults that reviews proved: what clients make a node keep or do in one go, of groups, topics and large requests."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_FOOTPRINT = "tests/unit/groups/test_footprint.py"
_LARGE = "tests/unit/broker/test_large_requests.py"
_TOMBSTONES = "tests/unit/groups/test_tombstones.py"

MUTATIONS: list[Mutation] = [
    Mutation(
        "F200",
        f"{_FOOTPRINT}::test_where_there_is_no_room_a_new_member_is_told_that_the_group_is_full",
        "src/highwater/groups/membership.py",
        "elif not self._rebalance.has_room(group.growth_by(join)):",
        "elif False:",
    ),
    Mutation(
        "F200",
        f"{_FOOTPRINT}::test_where_there_is_no_room_an_offset_that_is_there_moves_on_and_no_other_comes",
        "src/highwater/groups/commits.py",
        "if not self._rebalance.has_room(growth):",
        "if False:",
    ),
    Mutation(
        "F200",
        f"{_FOOTPRINT}::test_what_is_being_written_takes_room_until_it_is_committed",
        "src/highwater/groups/commits.py",
        "waits = self._offsets.is_any_written and not self._rebalance.has_room(size)",
        "waits = False",
    ),
    Mutation(
        "F200",
        f"{_FOOTPRINT}::test_an_assignment_that_there_is_no_room_for_is_told_to_nobody",
        "src/highwater/groups/completing.py",
        "if rebalance.has_room(group.growth_by_assignments(assignments)):",
        "if True:",
    ),
    Mutation(
        "F200",
        "tests/unit/broker/test_group_settings.py::test_all_groups_of_a_broker_take_64_mib_at_most",
        "src/highwater/broker/groups.py",
        "if more <= 0 or self.kept + more <= MOST_KEPT:",
        "if True:",
    ),
    Mutation(
        "F201",
        f"{_FOOTPRINT}::test_offsets_that_no_batch_has_room_for_are_refused_before_they_are_turned_into_bytes",
        "src/highwater/groups/commits.py",
        "if size > self._most_bytes():",
        "if False:",
    ),
    Mutation(
        "F202",
        "tests/unit/groups/test_states.py::test_deadlines_that_are_cancelled_or_put_forward_take_no_room_until_their_time",
        "src/highwater/groups/deadlines.py",
        "if len(self._heap) > 2 * len(self._due) + _STALE:",
        "if False:",
    ),
    Mutation(
        "F202",
        f"{_FOOTPRINT}::test_long_subscriptions_of_one_group_are_not_read",
        "src/highwater/groups/subscription.py",
        "if Reader(subscription, reader.pos).int32() > most:",
        "if False:",
    ),
    Mutation(
        "F203",
        f"{_TOMBSTONES}::test_few_offsets_that_somebody_deletes_are_looked_at_between_two_turns_of_the_loop",
        "src/highwater/groups/removal.py",
        "self.tombstones.add(OffsetsGivenUp(self.tombstones, group.id, doomed, reply))",
        "OffsetsGivenUp(self.tombstones, group.id, doomed, reply).write(1 << 30)",
    ),
    Mutation(
        "F203",
        f"{_TOMBSTONES}::test_an_offset_that_is_committed_after_its_deletion_was_asked_for_stays",
        "src/highwater/groups/tombstones.py",
        "if offsets.last(group_id, place) is offset:",
        "if True:",
    ),
    Mutation(
        "F203",
        f"{_TOMBSTONES}::test_no_more_deletions_of_offsets_wait_than_there_is_room_for",
        "src/highwater/groups/removal.py",
        "if not refusal and self.tombstones.given_up > MOST_GIVEN_UP:",
        "if False:",
    ),
    Mutation(
        "F204",
        f"{_TOMBSTONES}::test_few_offsets_of_a_deleted_topic_are_looked_at_between_two_turns_of_the_loop",
        "src/highwater/groups/removal.py",
        "for at in range(0, len(offsets), AT_ONCE):",
        "for at in range(0, 1):",
    ),
    Mutation(
        "F204",
        f"{_TOMBSTONES}::test_what_is_committed_while_the_offsets_of_a_deleted_topic_are_looked_for_stays",
        "src/highwater/groups/removal.py",
        "known: list[Doomed] = [each for each in there if (group_id, each[0]) not in since]",
        "known: list[Doomed] = list(there)",
    ),
    Mutation(
        "F205",
        "tests/unit/metadata/test_replay.py::test_topics_of_many_partitions_are_removed_by_pieces",
        "src/highwater/metadata/topics.py",
        "if removed == PIECE:",
        "if False:",
    ),
    Mutation(
        "F205",
        "tests/unit/metadata/test_replay.py::"
        "test_partitions_whose_eligible_leaders_are_forgotten_are_looked_at_by_pieces",
        "src/highwater/metadata/topics.py",
        "if looked_at == PIECE:",
        "if False:",
    ),
    Mutation(
        "F206",
        "tests/unit/broker/test_controller_channel.py::test_a_request_that_was_answered_leaves_no_deadline_behind",
        "src/highwater/broker/controller_channel.py",
        "self.deadline.cancel()",
        "pass",
    ),
    Mutation(
        "F206",
        f"{_LARGE}::test_what_was_passed_on_is_not_kept_once_it_is_answered",
        "src/highwater/broker/controller_channel.py",
        "self.deadline.cancel()",
        "pass",
    ),
    Mutation(
        "F207",
        f"{_LARGE}::test_few_bytes_of_large_requests_are_passed_on_at_a_time",
        "src/highwater/broker/forwarding.py",
        "if len(body) <= CHUNK:",
        "if True:",
    ),
    Mutation(
        "F207",
        f"{_LARGE}::test_few_bytes_of_large_requests_are_passed_on_at_a_time",
        "src/highwater/active_controller/k58_envelope.py",
        "if len(request.request_data) <= CHUNK:",
        "if True:",
    ),
    Mutation(
        "F207",
        "tests/unit/net/test_turns.py::test_room_for_large_requests_comes_back_from_connections_that_are_gone",
        "src/highwater/net/connection.py",
        "place.leave()  # what waits in it is counted no longer",
        "pass",
    ),
    Mutation(
        "F208",
        "tests/unit/raft_node/test_recovery_point.py::"
        "test_a_power_cut_while_old_segments_go_loses_nothing_of_the_metadata",
        "src/highwater/raft_node/metadata_log.py",
        "await synced(world, [], self._log.directory)",
        "pass",
    ),
    Mutation(
        "F209",
        "tests/unit/partition/test_leader_ends.py::test_both_ends_are_told_or_none",
        "src/highwater/partition/leader_ends.py",
        "found[when] = rows[0].offset if len(rows) == 1 and not rows[0].error_code else None",
        "found[when] = rows[0].offset if not rows[0].error_code else None",
    ),
    Mutation(
        "F210",
        "tests/unit/raft_node/test_raft_node.py::test_an_input_waits_until_the_one_that_brought_it_about_is_carried_out",
        "src/highwater/raft_node/raft_node.py",
        "if not self._works and len(self._inputs) == 1:",
        "if not self._works:",
    ),
    Mutation(
        "F211",
        "tests/unit/world/test_real_jobs.py::"
        "test_what_a_job_writes_amid_a_crash_does_not_reach_the_file_of_somebody_else",
        "src/highwater/world/real_jobs.py",
        "if not self._at_work:",
        "if True:",
    ),
    Mutation(
        "F211",
        "tests/unit/world/test_real_jobs.py::"
        "test_what_a_job_writes_amid_a_crash_does_not_reach_the_file_of_somebody_else",
        "src/highwater/world/real_jobs.py",
        "if self._crashed and self._disk is not None:",
        "if False:",
    ),
]
