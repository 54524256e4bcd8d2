"""Faults that attacks proved: memory that no bound knew of, and requests that waited for it or for a turn."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

MUTATIONS: list[Mutation] = [
    Mutation(
        "F280",
        "tests/unit/net/test_request_memory.py::"
        "test_no_more_than_the_begin_of_a_large_request_is_read_before_there_is_memory_for_it",
        "src/highwater/net/connection.py",
        "return space[:BEGIN] if self._budget.scarce and not self._arrival.memory else space",
        "return space",
    ),
    Mutation(
        "F281",
        "tests/unit/net/test_request_memory.py::test_a_stalled_large_request_gives_way_when_others_wait_for_its_memory",
        "src/highwater/net/server.py",
        "elif crowded and connection.stalls(stalled_since):",
        "elif False:",
    ),
    Mutation(
        "F282",
        "tests/wire/test_records_append.py::test_half_as_much_is_too_large_where_zstd_has_all_of_it_in_its_window_too",
        "src/highwater/wire/records/append.py",
        "limit //= 2",
        "pass",
    ),
    Mutation(
        "F283",
        "tests/wire/test_compression.py::test_the_highest_levels_of_zstd_are_for_batches_of_usual_sizes",
        "src/highwater/wire/compression.py",
        "return level if size <= _ZSTD_THOROUGH else min(level, _ZSTD_MODEST_LEVEL)",
        "return level",
    ),
    Mutation(
        "F283",
        "tests/unit/broker/test_limits.py::test_the_default_limits_are_finite",
        "src/highwater/node.py",
        "queued_bytes=queued - min(APPEND_LIMIT, queued // 2) if queued > 0 else NO_BOUND,  # for what is inflated",
        "queued_bytes=queued if queued > 0 else NO_BOUND,",
    ),
    Mutation(
        "F284",
        "tests/unit/net/test_request_memory.py::test_small_requests_that_are_not_whole_count_too",
        "src/highwater/net/arrival.py",
        "memory = held if not is_small or held > BEGIN else 0",
        "memory = held if not is_small else 0",
    ),
    Mutation(
        "F284",
        "tests/unit/net/test_request_memory.py::test_small_requests_do_not_wait_for_the_memory_that_large_ones_keep",
        "src/highwater/net/budget.py",
        "beyond = more - self.limit if kind is FrameKind.SMALL else more",
        "beyond = more",
    ),
    Mutation(
        "F299",  # single bytes keep the memory of a large frame
        "tests/unit/net/test_request_memory.py::test_a_large_request_that_comes_byte_by_byte_is_stalled",
        "src/highwater/net/arrival.py",
        "if not self.memory or not self._arrived <= arrived < self._arrived + PROGRESS or self.starved:",
        "if True:",
    ),
    Mutation(
        "F299",  # one receiver is favoured for good
        "tests/unit/net/test_budget.py::test_the_budget_favours_another_receiver_after_a_while",
        "src/highwater/net/budget.py",
        "if self._favoured is not None and self._favoured_at <= since:",
        "if False:",
    ),
    Mutation(
        "F299",
        "tests/unit/net/test_budget.py::test_a_receiver_is_favoured_until_there_is_room_for_it",
        "src/highwater/net/budget.py",
        "if fits and self._favoured is receiver:",
        "if False:",
    ),
    Mutation(
        "F299",  # a small frame waits behind a large one
        "tests/unit/net/test_budget.py::test_a_small_frame_does_not_wait_behind_a_large_one",
        "src/highwater/net/budget.py",
        "self._queues[kind][receiver] = beyond",
        "self._queues[1][receiver] = beyond",
    ),
    Mutation(
        "F300",  # large requests come in as fast as they are sent, and not as they are answered
        "tests/unit/net/test_budget.py::test_no_large_produce_request_is_read_while_unanswered_ones_take_all_memory",
        "src/highwater/net/budget.py",
        "if kind is not FrameKind.SMALL and self.unanswered > most:",
        "if False:",
    ),
    Mutation(
        "F340",  # received and not dispatched: 64 KiB of each connection that waits
        "tests/unit/net/test_request_memory.py::test_whole_requests_that_wait_for_an_earlier_answer_count_too",
        "src/highwater/net/arrival.py",
        "return frames.held > BEGIN or self.memory > 0 or (frames.announced > CHUNK and self._budget.scarce)",
        "return bool(frames.announced and frames.held > BEGIN) or self.memory > 0",
    ),
    Mutation(
        "F340",  # received and not dispatched: 64 KiB of each connection that waits
        "tests/unit/net/test_request_memory.py::test_whole_requests_that_wait_for_their_turn_count_too",
        "src/highwater/net/connection.py",
        "if self._arrival.is_counted(self._frames):",
        "if False:",
    ),
    Mutation(
        "F340",  # received and not dispatched: 64 KiB of each connection that waits
        "tests/unit/net/test_request_memory.py::test_small_requests_that_wait_for_a_hold_count_too",
        "src/highwater/net/connection.py",
        "parked = 0 if self._parked is None or len(self._parked) <= BEGIN else len(self._parked)",
        "parked = 0 if self._parked is None or len(self._parked) <= CHUNK else len(self._parked)",
    ),
    Mutation(
        "F341",  # two large batches are inflated beside each other
        "tests/wire/test_records.py::test_a_batch_that_inflates_to_much_is_read_by_one_thread_at_a_time",
        "src/highwater/wire/records/batch.py",
        "with compression.ALONE:",
        "if True:",
    ),
    Mutation(
        "F342",  # a look-up makes an object of each record of a batch
        "tests/unit/log/test_lookup.py::test_a_batch_of_very_many_records_is_not_in_memory_at_once",
        "src/highwater/log/lookup.py",
        "left = records.max_timestamp_offset(batch.data, start)",
        "left = max(((r.offset, r.timestamp) for r in records.iterate(batch.data) if r.offset >= start), default=None)",
    ),
    Mutation(
        "F343",  # coordinators load more than they can hold
        "tests/unit/coordinator/test_loading.py::test_a_batch_of_very_many_records_is_not_in_memory_at_once",
        "src/highwater/coordinator/loading.py",
        "most = piece.room",
        "most = 1 << 60",
    ),
    Mutation(
        "F343",
        "tests/unit/coordinator/test_loading.py::test_one_job_reads_a_few_pieces_and_the_next_one_reads_on",
        "src/highwater/coordinator/loading.py",
        "if pieces == PIECES:",
        "if False:",
    ),
    Mutation(
        "F343",
        "tests/unit/coordinator/test_loading.py::test_a_piece_has_few_records_if_they_are_large",
        "src/highwater/coordinator/loading.py",
        "return PIECE - len(self.records) if self.bytes < PIECE_BYTES else 0",
        "return PIECE - len(self.records)",
    ),
    Mutation(
        "F343",
        "tests/unit/broker/test_laborious.py::test_a_batch_for_a_coordinator_may_inflate_to_less_than_others",
        "src/highwater/broker/k00_produce.py",
        "if partition.tp.topic in INTERNAL:",
        "if False:",
    ),
    Mutation(
        "F341",
        "tests/unit/broker/test_laborious.py::test_a_batch_that_inflates_to_much_is_checked_by_one_thread_at_a_time",
        "src/highwater/broker/k00_produce.py",
        "with compression.ALONE:",
        "if True:",
    ),
    Mutation(
        "F346",  # a chunk for each connection that closes: 4 500 of them take 280 MB and the loop for 0.2 s
        "tests/wire/test_framing.py::test_readers_that_receive_nothing_have_one_buffer_together",
        "src/highwater/wire/framing.py",
        "if pool.lent is None:",
        "if True:",
    ),
    Mutation(
        "F347",  # large requests of clients are let in beyond the limit, one after the other: 555 MB
        "tests/unit/net/test_request_memory.py::test_large_requests_that_are_not_answered_let_in_those_of_nodes_alone",
        "src/highwater/net/arrival.py",
        "return FrameKind.NODE if bytes(begun[:2]) in _OF_NODES else FrameKind.CLIENT",
        "return FrameKind.CLIENT if bytes(begun[:2]) == bytes(2) else FrameKind.NODE",
    ),
    Mutation(
        "F347",
        "tests/unit/net/test_budget.py::test_large_requests_of_nodes_have_a_bound_too",
        "src/highwater/net/budget.py",
        "most = self.limit if kind is FrameKind.CLIENT else self.limit + self._scarce",
        "most = self.limit if kind is FrameKind.CLIENT else 1 << 60",
    ),
    Mutation(
        "F348",  # 3 500 fetches of 1 000 partitions wait, and take 300 MB
        "tests/unit/broker/test_waiting_fetches.py::"
        "test_fetches_that_may_not_wait_for_the_memory_that_it_takes_are_answered_at_once",
        "src/highwater/partition/fetch_session.py",
        "if not self._waiting.has_room(partitions):",
        "if False:",
    ),
    Mutation(
        "F348",
        "tests/unit/broker/test_waiting_fetches.py::"
        "test_fetches_that_may_not_wait_for_the_memory_that_it_takes_are_answered_at_once",
        "src/highwater/partition/fetch_session.py",
        "self._waiting.taken -= session.counted",
        "pass",
    ),
]
