"""Faults that reviews proved: what one client can make another wait for."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

LINGERING = "tests/sim/test_lingering.py::"
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
        LINGERING + "test_who_asks_for_a_dead_leader_reads_on_from_one_that_lives",
        "src/highwater/net/outbox.py",
        "if self.lingering and self.lingering.pop(slot, None) is None:",
        "if self.lingering and self.lingering.pop(slot, None) is None and False:",
    ),
    Mutation(
        "F12",
        LINGERING + "test_nobody_waits_for_the_proof_of_a_death_that_nobody_can_give",
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
        "src/highwater/broker/k01_fetch.py",
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
        "tests/unit/world/test_real_jobs.py::test_what_fills_the_threads_of_one_place_keeps_no_other_place_waiting",
        "src/highwater/world/real.py",
        "started.start(self._threads[where], where, TURN_SECONDS.get(where))",
        'started.start(self._threads["thread"], where, TURN_SECONDS.get(where))',
    ),
    Mutation(
        "F18",
        "tests/unit/net/test_turns.py::test_what_follows_on_the_same_connection_waits_for_its_turn",
        "src/highwater/net/connection.py",
        "if not errand.begin():\nslot.mute()",
        "errand.begin()",
    ),
    Mutation(
        "F18",
        "tests/unit/net/test_turns.py::test_few_large_requests_are_in_memory_at_a_time",
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
        "tests/unit/broker/test_repeated_elements.py::test_what_may_be_very_long_is_done_by_turns",
        "src/highwater/broker/k23_offset_for_leader_epoch.py",
        "result.partitions.append(ctx.written(_end(broker, ctx, topic.topic, asked)))\nyield None",
        "result.partitions.append(ctx.written(_end(broker, ctx, topic.topic, asked)))",
    ),
    Mutation(
        "F18",
        "tests/unit/controller/test_topics_in_pieces.py::test_all_that_names_one_topic_to_delete_stays_together",
        "src/highwater/controller/deletion.py",
        "key = known.id if known is not None else topic_id if name is None else name",
        "key = topic_id if name is None else name",
    ),
    Mutation(
        "F18",
        "tests/unit/broker/test_named_twice.py::test_the_offsets_of_a_group_that_is_named_twice_are_told_once",
        "src/highwater/broker/k09_offset_fetch.py",
        "if group.group_id in seen:  # all that it has would be told again and again",
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
        "tests/unit/groups/test_joining.py::test_what_all_members_of_a_group_say_is_bounded",
        "src/highwater/groups/membership.py",
        "return phase.admits(group, join.member_id, self._rebalance.settings.max_size) and group.has_room(join)",
        "return phase.admits(group, join.member_id, self._rebalance.settings.max_size)",
    ),
    Mutation(
        "F18",
        "tests/unit/net/test_turns.py::test_connections_that_pipeline_many_requests_take_turns",
        "src/highwater/net/connection.py",
        "until = monotonic() + turns.slice",
        "until = monotonic() + 0.003",
    ),
    Mutation(
        "F12",
        LINGERING + "test_a_topic_to_create_is_refused_when_no_controller_comes",
        "src/highwater/broker/forwarding.py",
        "broker.controller.ask(envelope, EnvelopeResponse, answered, FORWARD_SECONDS, UNREACHED_SECONDS)",
        "broker.controller.ask(envelope, EnvelopeResponse, answered, FORWARD_SECONDS)",
    ),
]
