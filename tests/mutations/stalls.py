"""Faults that reviews proved: disks that hang, clocks that leap, and refusals that no test saw."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_DELETION = "tests/unit/broker/test_offset_deletion.py::"
_FOUND = "tests/unit/broker/test_client_listeners.py::"
_METADATA = "src/highwater/broker/k03_metadata.py"
_HANGING = "tests/scenarios/test_hanging_disks.py::"
_DEATH = "src/highwater/controller/death.py"
_LEADER = "src/highwater/quorum/leader.py"
_CLOCKS = "tests/scenarios/test_leaping_clocks.py::"
_SNAPSHOTTER = "src/highwater/raft_node/snapshotter.py"
_RAFT = "src/highwater/raft_node/raft_node.py"
_GIVES_WAY = _HANGING + "test_a_leader_of_the_quorum_whose_disk_hangs_gives_way_to_another_voter_and_follows_it_later"

MUTATIONS = [
    Mutation(
        "F960",  # a leader of the quorum whose disk hangs leads for ever, and nothing is committed
        _GIVES_WAY,
        _LEADER,
        "return min(self._check_quorum_at, self._syncing_since + self._timing.sync_timeout)",
        "return self._check_quorum_at",
    ),
    Mutation(
        "F960",
        _GIVES_WAY,
        _RAFT,
        "self._inputs.feed(self._wrote)",
        "pass",
    ),
    Mutation(
        "F960",  # or many decisions, while a large one is applied, push requests of peers out of the queue
        "tests/unit/raft_node/test_raft_node.py::test_decisions_that_are_appended_meanwhile_push_no_request_of_a_peer_out",
        _RAFT,
        "if not self._reports_append:",
        "if True:",
    ),
    Mutation(
        "F960",
        _HANGING + "test_a_leader_whose_disk_hangs_before_it_has_begun_its_epoch_gives_way",
        _RAFT,
        "self._inputs.add(self.quorum.wrote)",
        "pass",
    ),
    Mutation(
        "F960",  # and one with a slow disk loses the lead again and again
        "tests/unit/quorum/test_epochs.py::test_a_leader_with_a_slow_disk_stays_while_each_sync_ends_in_time",
        _LEADER,
        "if durable_end > self._local_end:\nself._syncing_since = now",
        "pass",
    ),
    Mutation(
        "F961",  # brokers that cannot be answered, because nothing is committed, are fenced as silent
        _HANGING + "test_brokers_that_cannot_be_answered_because_nothing_is_committed_are_not_fenced_as_silent",
        _DEATH,
        "return session.unanswered is None and session.last_contact + self._timeout < now",
        "return session.last_contact + self._timeout < now",
    ),
    Mutation(
        "F961",  # at once after that
        "tests/unit/controller/test_death.py::"
        "test_a_broker_whose_heartbeat_is_not_answered_yet_is_not_silent_and_has_a_session_from_the_answer_on",
        _DEATH,
        "session.unanswered = None\nsession.last_contact = now",
        "session.unanswered = None",
    ),
    Mutation(
        "F961",  # or never again
        _HANGING
        + "test_a_broker_that_falls_silent_while_nothing_is_committed_has_a_whole_session_after_it_and_no_more",
        "src/highwater/active_controller/k63_broker_heartbeat.py",
        "controller.watch.answered(broker, epoch, request)",
        "pass",
    ),
    Mutation(
        "F961",
        "tests/unit/controller/test_death.py::"
        "test_the_answer_to_a_heartbeat_that_the_broker_gave_up_leaves_the_next_one_unanswered",
        _DEATH,
        "if session is not None and session.epoch == epoch and session.unanswered is heartbeat:",
        "if session is not None and session.epoch == epoch:",
    ),
    Mutation(
        "F962",  # a wall clock that leaps ahead begins a snapshot of the metadata, and one that leaps back ends them
        _CLOCKS + "test_snapshots_of_the_metadata_are_as_far_apart_as_ever_though_the_wall_clock_leaps",
        _SNAPSHOTTER,
        "return interval > 0 and self._bytes_since > 0 and self._world.clock.monotonic() - self._last_at >= interval",
        "return interval > 0 and self._bytes_since > 0 and self._world.clock.wall_ms() / 1000 - self._wall >= interval",
        (
            Mutation(
                "F962",
                _CLOCKS,
                _SNAPSHOTTER,
                "self._last_at = world.clock.monotonic()",
                "self._last_at = self._wall = world.clock.wall_ms() / 1000",
            ),
            Mutation(
                "F962",
                _CLOCKS,
                _SNAPSHOTTER,
                "self._last_at = self._world.clock.monotonic()",
                "self._last_at = self._wall = self._world.clock.wall_ms() / 1000",
            ),
        ),
    ),
    Mutation(
        "F962",  # and one that leaps ahead makes old ones too old
        _CLOCKS + "test_old_snapshots_of_the_metadata_stay_though_the_wall_clock_leaps_a_year_ahead",
        _SNAPSHOTTER,
        "now = self._aging.now_ms(self._world.clock.wall_ms(), self._world.clock.monotonic())",
        "now = self._world.clock.wall_ms()",
    ),
    Mutation(
        "F963",  # a client is told of a leader that it cannot reach through its listener
        _FOUND + "test_a_leader_without_the_clients_listener_is_named_by_no_metadata_response",
        _METADATA,
        "if image.leader not in broker.metadata.reached_through(ctx.listener):",
        "if False:",
    ),
    Mutation(
        "F963",
        _FOUND + "test_a_leader_without_the_clients_listener_is_named_by_no_metadata_response",
        _METADATA,
        "old = ctx.api_key == API.key and ctx.version < _LISTENER_ERROR_FROM",
        "old = False",
    ),
    Mutation(
        "F963",
        _FOUND + "test_a_leader_without_the_clients_listener_is_named_by_no_description_of_partitions",
        _METADATA,
        "old = ctx.api_key == API.key and ctx.version < _LISTENER_ERROR_FROM",
        "old = ctx.version < _LISTENER_ERROR_FROM",
    ),
    Mutation(
        "F963",  # or of a coordinator
        _FOUND + "test_a_coordinator_without_the_clients_listener_is_not_available",
        "src/highwater/broker/k10_find_coordinator.py",
        "for node in broker.metadata.node_endpoints([leader], ctx.listener):",
        'for node in broker.metadata.node_endpoints([leader], "PLAINTEXT"):',
        (
            Mutation(
                "F963",
                _FOUND,
                _METADATA,
                "if image.leader not in broker.metadata.reached_through(ctx.listener):",
                "if False:",
            ),
        ),
    ),
    Mutation(
        "F963",  # OffsetDelete reports success, and the offsets are there
        _DELETION + "test_offsets_whose_tombstones_cannot_be_written_stay_and_can_be_deleted_later",
        "src/highwater/broker/k47_offset_delete.py",
        "if answer.error_code:",
        "if False:",
    ),
    Mutation(
        "F963",  # or deletes those that a member is about to go on from
        _DELETION + "test_offsets_of_a_topic_that_a_group_is_subscribed_to_stay_and_those_of_another_topic_go",
        "src/highwater/groups/removal.py",
        "refusal = Code.GROUP_SUBSCRIBED_TO_TOPIC if group.reads(topic.name) else Code.NONE",
        "refusal = Code.NONE",
    ),
    Mutation(
        "F964",  # a replica that does not say which high watermark it knows fetches without a pause
        "tests/unit/raft_node/test_old_fetches.py::"
        "test_a_fetch_that_names_no_high_watermark_waits_while_there_is_nothing_new",
        "src/highwater/raft_node/k01_fetch.py",
        "asking = FollowerFetch(replica, epoch, offset, last_epoch, high_watermark, request.cluster_id)",
        "asking = FollowerFetch(replica, epoch, offset, last_epoch, -1, request.cluster_id)",
    ),
    Mutation(
        "F965",  # the metadata log waits until gigabytes of another log are synced
        "tests/unit/world/test_flusher.py::"
        "test_a_sync_that_takes_long_does_not_hold_up_those_that_are_asked_for_meanwhile",
        "src/highwater/world/flusher.py",
        "late.is_late = True",
        "pass",
    ),
    Mutation(
        "F965",  # or each append has a sync of its own
        "tests/unit/world/test_flusher.py::test_calls_that_come_during_a_round_share_the_next_one",
        "src/highwater/world/flusher.py",
        "is_free = len(self._rounds) < MOST_ROUNDS and all(each.is_late for each in self._rounds)",
        "is_free = len(self._rounds) < MOST_ROUNDS",
    ),
    Mutation(
        "F966",  # a replica that works again is taken out of the ISR, because its trouble is reported once more
        "tests/unit/broker/test_directories.py::test_a_replica_that_works_again_is_not_reported_as_lost_"
        "because_the_first_report_was_not_answered",
        "src/highwater/broker/directories.py",
        "self._reported.pop((topic_id, index), None)  # so it is not said again, if it was never heard",
        "pass",
    ),
]
