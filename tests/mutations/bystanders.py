"""Faults that reviews proved: what one client can make another wait for."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

LINGERING = "tests/sim/test_lingering.py::"
TURNS = "tests/unit/net/test_turns.py::"
MUTATIONS: list[Mutation] = [
    Mutation(
        "F12",
        LINGERING + "test_without_a_controller_a_group_hears_at_once_that_there_is_no_coordinator",
        "src/highwater/broker/auto_creation.py",
        "if waiting.names <= waiting.refused.keys() or not self._controller.reaches_controller:",
        "if waiting.names <= waiting.refused.keys():",
    ),
    Mutation(
        "F12",
        LINGERING + "test_a_consumer_of_a_dead_leader_keeps_reading_from_a_live_one",
        "src/highwater/net/outbox.py",
        "if self.lingering and self.lingering.pop(slot, None) is None:",
        "if self.lingering and self.lingering.pop(slot, None) is None and False:",
    ),
    Mutation(
        "F12",
        LINGERING + "test_a_metadata_request_does_not_wait_for_a_proof_that_cannot_come",
        "src/highwater/broker/doubts.py",
        "if now - first >= PATIENCE_SECONDS:",
        "if False:",
    ),
    Mutation(
        "F19",
        "tests/unit/broker/test_look_ups.py::test_one_list_offsets_searches_one_partition_at_a_time",
        "src/highwater/broker/k02_list_offsets.py",
        "if self._searches and self._running == len(self._searches):",
        "while self._searches:",
    ),
    Mutation(
        "F19",
        "tests/unit/broker/test_look_ups.py::test_one_fetch_has_few_places_looked_for_at_a_time",
        "src/highwater/broker/waiting_fetch.py",
        "if self._locating == MOST_LOCATING:",
        "if False:",
    ),
    Mutation(
        "F19",
        "tests/unit/world/test_real_jobs.py::test_jobs_for_clients_take_turns",
        "src/highwater/world/real_jobs.py",
        "if turn is not None and time.monotonic() - begun >= turn:",
        "if False:",
    ),
    Mutation(
        "F19",
        "tests/unit/world/test_real_jobs.py::test_jobs_that_fill_the_threads_of_one_place_do_not_delay_other_places",
        "src/highwater/world/real.py",
        "started.start(self._threads[where], where, TURN_SECONDS.get(where))",
        'started.start(self._threads["thread"], where, TURN_SECONDS.get(where))',
    ),
    Mutation(
        "F18",
        "tests/unit/net/test_turns.py::test_the_next_request_of_a_connection_waits_for_a_long_one",
        "src/highwater/net/connection.py",
        "if not errand.begin():\nslot.mute()",
        "errand.begin()",
    ),
    Mutation(
        "F18",
        "tests/unit/net/test_turns.py::test_the_number_of_large_requests_in_memory_is_bounded",
        "src/highwater/net/room.py",
        "if self.taken and self.taken + first.size > self._limit:",
        "if False:",
    ),
    Mutation(
        "F18",
        "tests/unit/net/test_turns.py::test_a_request_of_too_many_elements_ends_its_connection",
        "src/highwater/net/registry.py",
        "return entry.decode(body, version, entry.api.most_elements)",
        "return entry.decode(body, version, 1 << 62)",
    ),
    Mutation(
        "F18",
        "tests/unit/broker/test_laborious.py::test_a_partition_that_is_named_twice_is_written_once",
        "src/highwater/broker/k00_produce.py",
        "elif (topic, index) in seen:",
        "elif False:",
    ),
    Mutation(
        "F18",
        "tests/unit/broker/test_repeated_elements.py::test_a_very_long_request_is_handled_in_several_turns",
        "src/highwater/broker/k23_offset_for_leader_epoch.py",
        "result.partitions.append(ctx.written(_end(broker, ctx, topic.topic, asked)))\nyield None",
        "result.partitions.append(ctx.written(_end(broker, ctx, topic.topic, asked)))",
    ),
    Mutation(
        "F18",
        "tests/unit/controller/test_topics_in_pieces.py::test_all_entries_that_delete_one_topic_are_in_one_piece",
        "src/highwater/controller/deletion.py",
        "key = known.id if known is not None else topic_id if name is None else name",
        "key = topic_id if name is None else name",
    ),
    Mutation(
        "F18",
        "tests/unit/broker/test_named_twice.py::test_the_offsets_of_a_group_that_is_named_twice_are_answered_once",
        "src/highwater/broker/k09_offset_fetch.py",
        "if group.group_id in seen:  # a request could name one group many times, and get all its offsets each time",
        "if False:",
    ),
    Mutation(
        "F18",
        "tests/unit/broker/test_named_twice.py::test_groups_whose_offsets_are_asked_for_take_turns",
        "src/highwater/broker/k09_offset_fetch.py",
        "_fetch(broker, ctx, group, request.require_stable, reply)\nyield None",
        "_fetch(broker, ctx, group, request.require_stable, reply)\nif place > len(asked) - 2:\n    yield None",
    ),
    Mutation(
        "F18",
        "tests/unit/broker/test_named_twice.py::test_a_broker_whose_settings_are_changed_twice_is_not_looked_at_twice",
        "src/highwater/broker/own_settings.py",
        "if resource.resource_type != ResourceType.BROKER or "
        "times[resource.resource_type, resource.resource_name] > 1:",
        "if resource.resource_type != ResourceType.BROKER:",
    ),
    Mutation(
        "F18",
        "tests/unit/broker/test_named_twice.py::test_a_member_says_one_mebibyte_at_most",
        "src/highwater/broker/k11_join_group.py",
        "if sum(len(protocol.metadata) for protocol in request.protocols) > MOST_METADATA:",
        "if False:",
    ),
    Mutation(
        "F18",
        "tests/unit/groups/test_joining.py::test_the_metadata_of_all_members_of_a_group_is_bounded",
        "src/highwater/groups/membership.py",
        "return phase.admits(group, join.member_id, self._rebalance.settings.max_size) and group.has_room(join)",
        "return phase.admits(group, join.member_id, self._rebalance.settings.max_size)",
    ),
    Mutation(
        "F18",
        "tests/unit/net/test_turns.py::test_connections_that_pipeline_many_requests_take_turns",
        "src/highwater/net/turns.py",
        "self.until = now + self.slice",
        "self.until = now + SLICE_SECONDS",
    ),
    Mutation(
        "F12",
        LINGERING + "test_a_topic_to_create_is_refused_when_no_controller_comes",
        "src/highwater/broker/forwarding.py",
        "broker.controller.ask(envelope, EnvelopeResponse, answered, FORWARD_SECONDS, UNREACHED_SECONDS)",
        "broker.controller.ask(envelope, EnvelopeResponse, answered, FORWARD_SECONDS)",
    ),
    Mutation(
        "F230",
        TURNS + "test_many_requests_at_once_share_one_slice_of_the_loop",
        "src/highwater/net/turns.py",
        "self.must_wait = self._taken >= SLICE_SECONDS",
        "self.must_wait = False",
    ),
    Mutation(
        "F231",
        TURNS + "test_a_small_request_does_not_wait_for_large_ones",
        "src/highwater/net/turns.py",
        "self._wait(LONG_SECONDS)  # it was long, and may be so again",
        "self._wait(0.0)",
    ),
    Mutation(
        "F233",
        TURNS + "test_the_smallest_of_many_waiting_requests_is_served_first",
        "src/highwater/net/connection.py",
        "self._turns.add(self._share, self._go_on_pumping, cost)",
        "self._turns.add(self._share, self._go_on_pumping)",
    ),
    Mutation(
        "F234",
        "tests/unit/controller/test_alter_partition.py::test_checks_come_in_kafkas_order",
        "src/highwater/controller/decision.py",
        "self.refusal.__traceback__ = None",
        "pass",
    ),
    Mutation(
        "F235",
        "tests/unit/net/test_connection.py::test_an_answer_that_is_sent_is_not_kept",
        "src/highwater/net/outbox.py",
        "slot.parts = _SENT  # so that a reference to the request does not keep its response in memory",
        "pass",
    ),
    Mutation(
        "F292",  # new connections come before those that have waited, without end
        TURNS + "test_a_connection_that_stays_does_not_wait_for_ever_for_new_ones",
        "src/highwater/net/turns.py",
        "self._time += used / (self._count + 1)",
        "pass",
        also=(
            Mutation(
                "F292", "", "src/highwater/net/turns.py", "OLDEST_EVERY: Final = 4", "OLDEST_EVERY: Final = 1 << 60"
            ),
        ),
    ),
    Mutation(
        "F292",  # all is begun and nothing finished
        TURNS + "test_an_overloaded_loop_still_finishes_some_requests",
        "src/highwater/net/turns.py",
        "self._since = self._turns.add(self._share, self._go_on, cost, self._since)",
        "self._turns.add(self._share, self._go_on, cost)",
    ),
    Mutation(
        "F292",  # one slice in each turn of a loop that is busy with new connections
        TURNS + "test_a_loop_that_is_busy_with_other_things_gives_half_of_its_time_to_those_that_wait",
        "src/highwater/net/turns.py",
        "until = min(2 * now - self._scheduled_at, now + LONGEST_SECONDS)",
        "until = now",
    ),
    Mutation(
        "F349",  # a bystander waits for a second behind the fetches of 1 500 connections
        "tests/unit/net/test_turns.py::"
        "test_a_connection_that_asks_for_little_again_and_again_does_not_wait_for_very_many_large_requests",
        "src/highwater/net/turns.py",
        "self._wait(LONG_SECONDS)  # it was long, and may be so again",
        "self._wait(SLICE_SECONDS)",
    ),
    Mutation(
        "F349",
        "tests/unit/net/test_turns.py::test_a_small_request_goes_before_large_ones_that_all_begin_at_once",
        "src/highwater/net/turns.py",
        "self._wait(SLICE_SECONDS)  # it may be long: a small request that comes later goes first",
        "self._resume()",
    ),
    Mutation(
        "F480",  # the disk is full: a turn tries to begin a segment in every log that is due
        "tests/unit/broker/test_retention.py::test_retention_handles_one_partition_in_a_turn_of_the_loop",
        "src/highwater/broker/upkeep.py",
        "await asyncio.sleep(0)  # nothing was awaited where there was no room to delete anything",
        "pass",
    ),
    Mutation(
        "F700",  # a path of 32 KB is read for each of 5 000 partitions: all wait for seven seconds
        "tests/unit/broker/test_moving_directories.py::"
        "test_a_long_path_is_read_once_for_all_partitions_that_are_to_be_there",
        "src/highwater/broker/k34_alter_replica_log_dirs.py",
        "rows.append(_row(index, _outcome(broker, topic.name, index) if is_ours else Code.LOG_DIR_NOT_FOUND))",
        "is_ours = PurePath(directory.path) == broker.store.directory\n"
        "rows.append(_row(index, _outcome(broker, topic.name, index) if is_ours else Code.LOG_DIR_NOT_FOUND))",
    ),
    Mutation(
        "F700",
        "tests/unit/broker/test_moving_directories.py::test_many_paths_are_read_in_turns",
        "src/highwater/broker/k34_alter_replica_log_dirs.py",
        "is_ours = PurePath(directory.path) == broker.store.directory\nyield None",
        "is_ours = PurePath(directory.path) == broker.store.directory",
    ),
    Mutation(
        "F701",  # each of 16 000 parts is compared with each of 5 000
        "tests/unit/controller/test_configs.py::"
        "test_parts_that_are_subtracted_from_a_list_are_not_compared_with_each_part_of_it",
        "src/highwater/config/alteration.py",
        "gone = set(given)  # either list may have thousands of parts",
        "gone = given",
    ),
    Mutation(
        "F702",  # a small request is answered with 20 MB of error messages
        "tests/unit/controller/test_partition_moves.py::"
        "test_the_name_of_a_topic_that_does_not_exist_is_not_repeated_at_length_for_each_partition",
        "src/highwater/controller/partition_moves.py",
        'raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name[:MAX_LENGTH]}.")',
        'raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")',
    ),
    Mutation(
        "F702",  # the same, for elections
        "tests/unit/controller/test_leaders.py::"
        "test_the_name_of_a_topic_that_does_not_exist_is_cut_in_the_answer_for_each_partition",
        "src/highwater/controller/leaders.py",
        'raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name[:MAX_LENGTH]}")',
        'raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")',
    ),
    Mutation(
        "F703",  # thirty pages at once: a turn of the loop has a part of each
        "tests/unit/net/test_http.py::test_one_turn_of_the_loop_makes_a_part_of_only_one_of_many_pages",
        "src/highwater/net/http.py",
        "if len(self._due) == 1:",
        "self._world.clock.call_soon(then, parts)\nself._due.pop()\nif self._due:",
    ),
    Mutation(
        "F704",  # all producers of a partition once more for each time that its topic is named
        "tests/unit/broker/test_describing_logs.py::"
        "test_the_producers_of_a_partition_are_listed_once_though_its_topic_is_named_many_times",
        "src/highwater/broker/k61_describe_producers.py",
        "seen.add(named)",
        "pass",
    ),
    Mutation(
        "F705",  # 100 000 producers are copied in one turn of the loop whenever a segment is rolled
        "tests/unit/log/test_producer_state.py::test_a_snapshot_of_very_many_producers_copies_none_of_them",
        "src/highwater/log/producer_state.py",
        "return self._producers.copy()",
        "return {pid: producer.copy() for pid, producer in self._producers.items()}",
    ),
    Mutation(
        "F705",  # a snapshot changes while it is written
        "tests/unit/log/test_producer_state.py::test_a_snapshot_stays_unchanged_while_its_producers_write_more",
        "src/highwater/log/producer_state.py",
        "elif producer.copied != self._snapshots:",
        "elif False:",
    ),
    Mutation(
        "F481",  # a turn of the loop looks at all segments of all compacted logs
        "tests/unit/log/compaction/test_cleaning.py::test_the_cleaner_looks_at_few_segments_in_a_turn_of_the_loop",
        "src/highwater/log/compaction/cleaner.py",
        "if not looked_at % PER_TURN:",
        "if False:",
    ),
    Mutation(
        "F481",  # a cleaning begins by what was found of segments that are gone
        "tests/unit/log/compaction/test_cleaning.py::test_the_cleaner_looks_at_few_segments_in_a_turn_of_the_loop",
        "src/highwater/log/compaction/cleaner.py",
        "is_as_found = log.reads.layout == found.layout and log.is_usable",
        "is_as_found = True",
    ),
    Mutation(
        "F720",  # a client of short requests waits for all that have just begun, though each of theirs takes a slice
        "tests/unit/net/test_turns.py::"
        "test_a_client_of_short_requests_does_not_wait_for_many_whose_every_request_takes_a_whole_slice",
        "src/highwater/net/turns.py",
        "heappush(self._least, (share.had + share.usual + cost, number, waiting))",
        "heappush(self._least, (share.had + cost, number, waiting))",
    ),
    Mutation(
        "F721",  # Metadata shows what a topic was before it changed
        "tests/unit/broker/test_topic_rows.py::test_a_row_is_made_anew_when_its_topic_or_any_broker_has_changed",
        "src/highwater/broker/topic_rows.py",
        "return known[1] if known is not None and known[0] is topic and self._brokers is brokers else None",
        "return known[1] if known is not None and self._brokers is brokers else None",
    ),
    Mutation(
        "F721",
        "tests/unit/broker/test_topic_rows.py::test_a_row_is_made_anew_when_its_topic_or_any_broker_has_changed",
        "src/highwater/broker/topic_rows.py",
        "return known[1] if known is not None and known[0] is topic and self._brokers is brokers else None",
        "return known[1] if known is not None and known[0] is topic else None",
    ),
    Mutation(
        "F721",
        "tests/unit/broker/test_topic_rows.py::test_rows_take_no_more_memory_than_their_bound",
        "src/highwater/broker/topic_rows.py",
        "if self._brokers is not brokers or self._bytes + size > MOST_BYTES:",
        "if self._brokers is not brokers:",
    ),
]
