"""What the active controller remembers of brokers before its decision is written."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_SOFT = "tests/unit/active_controller/test_soft_state.py"
_ACTIVE = "src/highwater/active_controller/active_controller.py"

MUTATIONS = [
    Mutation(
        "F240",
        f"{_SOFT}::test_a_controlled_shutdown_that_could_not_be_written_begins_again_with_the_next_heartbeat",
        _ACTIVE,
        "decided = yield from decision()",
        "decided = yield from decision(); written(decided)",
    ),
    Mutation(
        "F241",
        f"{_SOFT}::test_a_controlled_shutdown_that_could_not_be_written_begins_again_with_the_next_heartbeat",
        _ACTIVE,
        "decided = yield from decision()",
        "decided = yield from decision(); written(decided)",
    ),
    Mutation(
        "F242",
        f"{_SOFT}::test_fencings_by_proof_that_could_not_be_written_do_not_count_against_the_next",
        "src/highwater/controller/death.py",
        "return not _is_damped(record, now) and not self._doubts_itself(now, unfenced)",
        "record.fenced_at.append(now); return not _is_damped(record, now) and not self._doubts_itself(now, unfenced)",
    ),
    Mutation(
        "F243",
        f"{_SOFT}::test_a_broker_whose_fencing_could_not_be_written_still_counts_as_one_of_those_there_are",
        "src/highwater/controller/death.py",
        "return not _is_damped(record, now) and not self._doubts_itself(now, unfenced)",
        "ok = not _is_damped(record, now) and not self._doubts_itself(now, unfenced); record.fenced_at += [now]; "
        "return ok",
    ),
    Mutation(
        "F244",
        f"{_SOFT}::test_two_registrations_that_were_sent_at_once_prove_no_death",
        "src/highwater/controller/death.py",
        "return claim == _claim(incarnation, existing) and received > since",
        "return claim == _claim(incarnation, existing)",
    ),
    Mutation(
        "F245",
        f"{_SOFT}::test_a_heartbeat_counts_though_what_it_led_to_could_not_be_written",
        "src/highwater/active_controller/k63_broker_heartbeat.py",
        "controller.watch.heard(ctx.connection, broker, epoch, request.current_metadata_offset)",
        "request.want_shut_down or "
        "controller.watch.heard(ctx.connection, broker, epoch, request.current_metadata_offset)",
    ),
    Mutation(
        "F270",  # a broker that is unfenced without a session is never found silent
        "tests/unit/active_controller/test_soft_state.py::"
        "test_a_broker_that_is_unfenced_right_behind_its_own_fencing_is_fenced_when_it_is_silent_again",
        "src/highwater/active_controller/broker_watch.py",
        "self.liveness.begin_missing(self._controller.head.brokers, now)",
        "pass",
    ),
    Mutation(
        "F271",  # what the last life of the own broker led waits until it has opened its logs
        "tests/scenarios/test_b_controller.py::"
        "test_others_lead_the_partitions_of_the_controllers_own_broker_while_it_opens_its_logs",
        "src/highwater/active_controller/broker_watch.py",
        "self.liveness.presume_dead(before.id, before.epoch)",
        "self.liveness._sessions.pop(before.id)\nself.liveness.begin_missing = lambda brokers, now: None",
    ),
    Mutation(
        "F471",  # the living broker of a new controller counts as dead, and another may take its place
        "tests/scenarios/test_own_broker.py::"
        "test_a_second_broker_with_the_id_of_the_new_controllers_own_broker_is_refused",
        "src/highwater/active_controller/broker_watch.py",
        "if before is not None and own_broker not in (None, before.incarnation):",
        "if before is not None and own_broker is not None:",
    ),
    Mutation(
        "F472",  # a voter that starts again knows only the last voters, and forgets them when it cuts its log
        "tests/scenarios/test_voters_after_a_cut.py::"
        "test_a_voter_that_cuts_off_its_own_change_of_address_remains_a_voter",
        "src/highwater/raft_node/metadata_loader.py",
        "found.voters += voters_in(header, data)",
        "found.voters = voters_in(header, data) or found.voters",
    ),
    Mutation(
        "F473",  # a request that comes after a write was overdue waits for ever
        "tests/unit/coordinator/test_tenure.py::"
        "test_a_write_that_stays_uncommitted_is_overdue_again_for_the_requests_that_came_later",
        "src/highwater/coordinator/tenure.py",
        "late = self._deadlines.add(self._commit_seconds(), overdue)\n"
        "self.carry_out(self.machine.overdue(write, self.now))",
        "self.carry_out(self.machine.overdue(write, self.now))",
    ),
    Mutation(
        "F474",  # a deletion is acknowledged before the tombstone of an earlier one is committed
        "tests/unit/groups/test_removal.py::test_a_second_deletion_of_an_offset_waits_for_the_first",
        "src/highwater/groups/removal.py",
        "elif self._offsets.is_writing(group.id, place):",
        "elif False:",
    ),
    Mutation(
        "F475",  # a write whose log failed is never answered
        "tests/unit/coordinator/test_tenure.py::test_a_write_whose_log_fails_is_overdue_until_another_broker_leads",
        "src/highwater/coordinator/tenure.py",
        "if code is not Code.NONE and self.state is TenureState.ACTIVE:\n"
        "return  # the log has failed: the write stays overdue until this tenure ends\n"
        "if late is not None:\nlate.cancel()",
        "if late is not None:\n    late.cancel()\nif code is not Code.NONE:\n    return",
    ),
    Mutation(
        "F476",  # fetches of the metadata log that were answered are kept until there are news
        "tests/scenarios/test_waiting_quorum.py::"
        "test_fetches_that_were_answered_are_forgotten_in_an_idle_cluster_that_writes_no_noops",
        "src/highwater/raft_node/k01_fetch.py",
        "self._raft.forget_news(self.look)",
        "pass",
    ),
    Mutation(
        "F477",  # a follower becomes a candidate while it reads a large snapshot, and fetches it again without end
        "tests/scenarios/test_waiting_quorum.py::"
        "test_a_voter_whose_snapshot_takes_longer_than_the_fetch_timeout_to_sync_and_read_installs_it",
        "src/highwater/raft_node/installing.py",
        "self._block(self._finish)",
        "self._world.run(finish, self._directory, self._position, self._aside, done=self._end)",
    ),
    Mutation(
        "F478",  # what peers ask for while a vote cannot be written piles up
        "tests/scenarios/test_waiting_quorum.py::test_inputs_that_wait_while_a_vote_cannot_be_written_are_bounded",
        "src/highwater/raft_node/inputs.py",
        "self._give_up_oldest()",
        "pass",
    ),
    Mutation(
        "F479",  # a fetch that waits twice is given up twice, and a stranger's request fails by it
        "tests/scenarios/test_waiting_quorum.py::test_inputs_that_wait_while_a_vote_cannot_be_written_are_bounded",
        "src/highwater/raft_node/k01_fetch.py",
        "if not self._done:\nself.hang_up()\nself._ctx.slot.close_connection()",
        "self.hang_up()\nself._ctx.slot.close_connection()",
    ),
    Mutation(
        "F480",  # followers that a client invents are remembered for ever
        "tests/unit/broker/test_waiting_fetches.py::test_followers_that_nobody_has_registered_leave_no_doubt_behind",
        "src/highwater/broker/k01_fetch.py",
        "if broker.metadata.image.brokers.get(NodeId(replica)) is not None:",
        "if replica >= 0:",
    ),
    Mutation(
        "F272",  # a rebalance elects who is being fenced, and that is undone, without end
        "tests/unit/active_controller/test_active_controller.py::"
        "test_a_rebalance_waits_while_the_preferred_leader_is_being_fenced",
        "src/highwater/active_controller/clockwork.py",
        "if self._controller.watch.is_fencing:",
        "if False:",
    ),
    Mutation(
        "F273",  # a controller without room leads on and decides nothing
        "tests/scenarios/test_f_quorum.py::test_a_controller_whose_disk_stays_full_gives_way_to_one_that_has_room",
        "src/highwater/active_controller/active_controller.py",
        "self._give_way(epoch)",
        "pass",
    ),
    Mutation(
        "F274",  # the only controller resigns, in vain
        "tests/scenarios/test_f_quorum.py::test_the_only_controller_waits_until_its_disk_has_room",
        "src/highwater/active_controller/active_controller.py",
        "elif now - self._no_room_since >= NO_ROOM_SECONDS and len(self.raft.voters) > 1:",
        "elif now - self._no_room_since >= NO_ROOM_SECONDS:",
    ),
    Mutation(
        "F541",  # a late registration replaces a living broker that was not heard yet
        "tests/sim/test_quick_restart.py::"
        "test_a_late_registration_of_a_dead_broker_does_not_replace_its_successor_before_the_first_heartbeat",
        "src/highwater/active_controller/k62_broker_registration.py",
        "if decided.records:",
        "if False:",
    ),
    Mutation(
        "F545",  # clients learn that their controller has changed
        "tests/scenarios/test_passing_on.py::"
        "test_a_request_that_its_controller_could_not_decide_is_passed_on_to_the_next_one",
        "src/highwater/active_controller/k58_envelope.py",
        "self.slot.refuse(Code.NOT_CONTROLLER)\nreturn True",
        "return False",
    ),
    Mutation(
        "F545",  # the same, for requests that are decided in pieces
        "tests/scenarios/test_passing_on.py::test_a_request_that_no_voter_has_room_for_is_refused_after_a_while",
        "src/highwater/active_controller/pieces.py",
        "if len(decided) == len(pieces) and not (undecided == len(pieces) and sends_elsewhere()):",
        "if len(decided) == len(pieces):",
    ),
]
