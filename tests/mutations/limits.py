"""Faults that reviews proved: descriptors, memory, and whoever waits behind a connection that is gone."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_UNREAD = "tests/unit/net/test_unread_answers.py"
_WAITING = "tests/unit/broker/test_waiting_fetches.py"

MUTATIONS: list[Mutation] = [
    Mutation(
        "F11",
        "tests/sim/test_fast_fencing.py::"
        "test_a_live_broker_whose_first_listener_is_for_other_machines_is_not_fenced_when_its_connection_breaks",
        "src/highwater/controller/suspicion.py",
        "found = broker.listener(listener) if listener is not None else None",
        "found = broker.listeners[0]",
    ),
    Mutation(
        "F11",
        "tests/unit/controller/test_suspicion.py::"
        "test_who_sent_a_heartbeat_while_it_was_probed_is_alive_whatever_its_port_says",
        "src/highwater/controller/suspicion.py",
        "if not record.probed:",
        "if False:",
    ),
    Mutation(
        "F22",
        "tests/unit/log/test_faults.py::test_a_sync_for_which_no_descriptor_was_left_is_tried_until_it_is_done",
        "src/highwater/log/durability.py",
        "if isinstance(result, Exhausted) and not self._stopped:",
        "if False:",
    ),
    Mutation(
        "F22",
        "tests/unit/log/test_faults.py::test_whatever_a_sync_returns_is_final_for_its_log",
        "src/highwater/log/durability.py",
        "if isinstance(result, Exhausted) and not self._stopped:",
        "if isinstance(result, OSError) and not self._stopped:",
    ),
    Mutation(
        "F22",
        "tests/unit/log/test_faults.py::test_an_error_of_one_file_outweighs_a_missing_descriptor_of_another",
        "src/highwater/world/__init__.py",
        "return min(errors, key=lambda error: isinstance(error, (Exhausted, FileNotFoundError)), default=None)",
        "return next(iter(errors), None)",
    ),
    Mutation(
        "F22",
        "tests/unit/net/test_http.py::test_whoever_asks_is_answered_however_many_only_sit_there",
        "src/highwater/net/http.py",
        "if len(self._connections) > MAX_CONNECTIONS:",
        "if False:",
    ),
    Mutation(
        "F22",
        "tests/unit/world/test_descriptors.py::test_a_pool_that_is_larger_than_the_limit_gives_way",
        "src/highwater/world/real_disk.py",
        "self._room = max(min(len(self._open), self._room) // 2, min(_FEWEST_KEPT, self._descriptors))",
        "pass",
    ),
    Mutation(
        "F21",
        f"{_WAITING}::test_of_the_fetches_that_a_connection_pipelines_one_waits_and_all_are_answered",
        "src/highwater/net/line.py",
        "if self._line[0] is waiting:",
        "if True:",
    ),
    Mutation(
        "F21",
        f"{_WAITING}::test_a_fetch_waits_no_longer_than_its_connection",
        "src/highwater/net/connection.py",
        "self.line.end()",
        "pass",
    ),
    Mutation(
        "F21",
        f"{_WAITING}::test_nobody_waits_for_days",
        "src/highwater/broker/k01_fetch.py",
        "wait_ms = min(self.request.max_wait_ms, MAX_WAIT_MS)",
        "wait_ms = self.request.max_wait_ms",
    ),
    Mutation(
        "F21",
        f"{_WAITING}::test_nobody_waits_for_more_bytes_than_the_answer_may_carry",
        "src/highwater/broker/k01_fetch.py",
        "self._min_bytes = min(request.min_bytes, self._max_bytes)",
        "self._min_bytes = request.min_bytes",
    ),
    Mutation(
        "F21",
        f"{_WAITING}::test_a_session_that_nobody_fetches_from_is_told_of_news_once",
        "src/highwater/partition/partition.py",
        "self._readers.clear()",
        "pass",
    ),
    Mutation(
        "F21",
        f"{_WAITING}::test_a_session_ends_with_its_connection",
        "src/highwater/broker/k01_fetch.py",
        "broker.sessions.end_with(connection)",
        "pass",
    ),
    Mutation(
        "F20",
        f"{_UNREAD}::test_a_peer_that_does_not_read_is_not_asked_for_more",
        "src/highwater/net/connection.py",
        "or outbox.paused\nor outbox.owed >= self._budget.bound\nor outbox.unsent >= self._budget.answer_bound",
        "or outbox.owed >= self._budget.bound",
    ),
    Mutation(
        "F20",
        f"{_UNREAD}::test_answers_that_nobody_reads_have_a_limit_for_all_connections_together",
        "src/highwater/net/budget.py",
        "return _ANSWERS if unread <= self._sure or unread <= self.answers else self._tight",
        "return _ANSWERS",
    ),
    Mutation(
        "F20",
        f"{_UNREAD}::test_who_has_the_most_that_he_does_not_read_is_given_up_when_there_is_too_much",
        "src/highwater/net/server.py",
        "connection.abort(CloseReason.UNREAD)",
        "pass",
    ),
    Mutation(
        "F20",
        f"{_UNREAD}::test_of_an_answer_larger_than_the_window_the_transport_holds_a_part",
        "src/highwater/net/outbox.py",
        "if slot.memory == slot.size and slot.size <= room:",
        "if slot.memory == slot.size:",
    ),
    Mutation(
        "F23",
        "tests/unit/broker/test_groups.py::test_a_clock_that_leaps_a_year_ahead_expires_no_offsets",
        "src/highwater/groups/removal.py",
        "aged_ms = min(now.wall_ms, now.aging_ms)",
        "aged_ms = now.wall_ms",
    ),
    Mutation(
        "F23",
        "tests/scenarios/test_d_deletion.py::test_d15_a_wall_clock_that_is_a_year_off_forgets_no_producer",
        "src/highwater/broker/upkeep.py",
        "now = self._broker.store.aging_ms()",
        "now = self._broker.world.clock.wall_ms()",
    ),
    Mutation(
        "F23",
        "tests/unit/controller/test_batches.py::test_settings_beyond_what_a_batch_holds_are_refused",
        "src/highwater/controller/configs.py",
        "size = check_size(made, size)",
        "pass",
    ),
    Mutation(
        "F23",
        "tests/unit/controller/test_batches.py::test_topics_that_would_not_fit_a_batch_are_not_created",
        "src/highwater/controller/topics.py",
        "check_size(records)",
        "pass",
    ),
    Mutation(
        "F23",
        "tests/unit/raft_node/test_active.py::test_what_is_decided_is_written_in_batches_that_the_quorum_takes",
        "src/highwater/raft_node/active.py",
        "return all(self._append_batch(list(batch), why) for batch in cut(records))",
        "return self._append_batch(records, why)",
    ),
    Mutation(
        "F20",
        f"{_UNREAD}::test_requests_that_stall_leave_little_room_for_answers_that_nobody_reads",
        "src/highwater/net/budget.py",
        "return max(self._sure, min(self.limit // 2, self.limit - self.receiving - self.unanswered))",
        "return self.limit // 2",
    ),
    Mutation(
        "F20",
        f"{_UNREAD}::test_answers_that_nobody_reads_leave_less_room_for_requests_that_stall",
        "src/highwater/net/budget.py",
        "return self.receiving + self.unanswered + self.unsent + self.written + more <= self.limit",
        "return self.receiving + self.unanswered + more <= self.limit",
    ),
    Mutation(
        "F18",
        f"{_WAITING}::test_a_session_that_would_grow_beyond_bounds_ends",
        "src/highwater/partition/fetch_session.py",
        "if not self.privileged and not self._count.has_room(1):",
        "if False:",
    ),
]
