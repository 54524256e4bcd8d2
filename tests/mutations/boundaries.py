"""Faults that reviews proved: failures that end what failed and nothing more."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

SETTINGS = "tests/scenarios/test_f_settings.py::"

MISSING = "tests/scenarios/test_f_missing.py::"
METADATA = "tests/scenarios/test_f_metadata.py::"

MUTATIONS: list[Mutation] = [
    Mutation(
        scenario="F8",
        test=METADATA + "test_a_write_that_fails_within_an_answer_is_done_again_from_there",
        file="src/highwater/raft_node/raft_node.py",
        line="self._pending.extend(fetched.batches)",
        replacement="if fetched.failure is None:\n    self._pending.extend(fetched.batches)",
    ),
    Mutation(
        scenario="F8",
        test=METADATA + "test_a_node_whose_disk_does_not_take_its_metadata_any_more_stops",
        file="src/highwater/raft_node/raft_node.py",
        line="if isinstance(failure.__cause__, OSError) and not is_passing(failure.__cause__):",
        replacement="if False:",
    ),
    Mutation(
        scenario="F9",
        test=MISSING + "test_a_replica_that_cannot_be_made_leaves_the_lead_and_is_made_later",
        file="src/highwater/broker/missing.py",
        line="self._directories.lose(*key)",
        replacement="pass",
    ),
    Mutation(
        scenario="F9",
        test=MISSING + "test_the_only_replica_that_cannot_be_made_is_made_once_there_is_room",
        file="src/highwater/broker/missing.py",
        line="self._timer = self._broker.world.clock.call_later(RETRY_SECONDS, self._on_timer)",
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
        file="src/highwater/broker/k44_incremental_alter_configs.py",
        line="_check_suits(broker, resource)",
        replacement="pass",
    ),
    Mutation(
        scenario="F15",
        test=SETTINGS + "test_a_broker_goes_on_with_the_settings_it_has_where_new_ones_do_not_suit_it",
        file="src/highwater/broker/publisher.py",
        line="before, broker.config = broker.config, broker.config.adopting(own, default)",
        replacement="before, broker.config = broker.config, broker.config.with_dynamic(own, default)",
    ),
    Mutation(
        scenario="F16",
        test="tests/scenarios/test_f_quorum.py"
        "::test_a_vote_of_a_stranger_in_the_last_epoch_leaves_the_controller_as_it_is",
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
        test="tests/unit/quorum/test_far_epochs.py::test_an_answer_of_an_epoch_out_of_reach_is_passed_over",
        file="src/highwater/quorum/standing.py",
        line="if not core.is_in_reach(epoch):",
        replacement="if False:",
    ),
]
