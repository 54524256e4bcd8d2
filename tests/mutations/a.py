"""Group A: truncation, epochs, high watermark."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, Waiting

_TRUNCATION = "tests/scenarios/test_a_truncation.py"
_CHECKPOINT = "tests/scenarios/test_a_checkpoint.py"
_FETCHING = "tests/scenarios/test_a_fetching.py"
_HIGH_WATERMARK = "tests/scenarios/test_a_high_watermark.py"

MUTATIONS: list[Mutation] = [
    Mutation(
        "A1",
        f"{_TRUNCATION}::test_a1_a_follower_whose_high_watermark_lags_restarts_and_keeps_what_its_leader_committed",
        "src/highwater/broker/publisher.py",
        "partition.step_down(leader, part.leader_epoch, part.partition_epoch, part.replicas, why)",
        "partition.step_down(leader, part.leader_epoch, part.partition_epoch, part.replicas, why)\n"
        "await broker.store.truncate(partition.log, partition.log.high_watermark)",
    ),
    Mutation(
        "A2",
        f"{_TRUNCATION}::test_a2_after_both_replicas_lost_power_the_longer_log_cuts_what_the_other_replaced",
        "src/highwater/replication/serving.py",
        "return (epoch, end) if epoch < last_epoch or end < offset else None",
        "return (epoch, end) if epoch < last_epoch else None",
    ),
    Mutation(
        "A3",
        f"{_TRUNCATION}::test_a3_a_follower_with_epochs_that_its_leader_never_saw_cuts_until_they_agree",
        "src/highwater/log/epoch_cache.py",
        "return self._epochs[after - 1], self._starts[after]",
        "return epoch, self._starts[after]",
    ),
    Mutation(
        "A4",
        f"{_TRUNCATION}::test_a4_a_leader_remembers_its_epoch_before_it_has_written_anything",
        "src/highwater/partition/partition.py",
        "log.assign_epoch(epoch, log.log_end)",
        "pass",
    ),
    Mutation(
        "A5",
        f"{_TRUNCATION}::test_a5_a_follower_forgets_epochs_in_which_it_wrote_nothing_when_its_leader_has_none_of_them",
        "src/highwater/log/truncation.py",
        "log.forget_epochs_from(offset)",
        "pass",
    ),
    Mutation(
        "A6",
        f"{_TRUNCATION}::test_a6_a_follower_that_missed_an_epoch_of_the_same_leader_checks_its_history_again",
        "src/highwater/broker/publisher.py",
        "same = (partition.leader_id, partition.epoch) == (leader, part.leader_epoch)",
        "same = partition.leader_id == part.leader",
    ),
    Mutation(
        "A7",
        f"{_HIGH_WATERMARK}::test_a7_a_fetch_that_was_sent_in_another_epoch_is_refused_and_acknowledges_nothing",
        "src/highwater/partition/fetching.py",
        "partition.check_epoch(entry.epoch)",
        "pass",
    ),
    Mutation(
        "A8",
        f"{_HIGH_WATERMARK}::test_a8_an_old_leader_cuts_its_tail_before_it_takes_the_new_leaders_high_watermark",
        "src/highwater/replication/follower.py",
        "return Ready(truncate_to=offset, why=why)",
        "return Ready(truncate_to=offset, high_watermark=offset + 1, leader_high_watermark=offset + 1, why=why)",
        (
            Mutation(
                "A8",
                f"{_HIGH_WATERMARK}::test_a8_an_old_leader_cuts_its_tail_before_it_takes_the_new_leaders_high_watermark",
                "src/highwater/partition/fetcher.py",
                "elif ready.leader_high_watermark is not None:",
                "if ready.leader_high_watermark is not None:",
            ),
        ),
    ),
    Mutation(
        "A9",
        f"{_HIGH_WATERMARK}::test_a9_a_follower_that_begins_anew_at_its_leaders_start_can_lead_from_there",
        "src/highwater/log/log.py",
        "self.move_high_watermark(offset)",
        "pass",
    ),
    Mutation(
        "A10",
        f"{_FETCHING}::test_a10_a_follower_below_the_leaders_start_is_out_of_range_even_where_its_epoch_diverges",
        "src/highwater/replication/serving.py",
        "if offset < log_start:",
        "if offset < 0:",
    ),
    Mutation(
        "A11",
        f"{_FETCHING}::test_a11_an_answer_that_was_asked_for_in_an_older_epoch_is_not_taken_in",
        "src/highwater/replication/follower.py",
        "if self.is_moved or self.asked_last > fetch:",
        "if False:",
    ),
    Mutation(
        "A11",
        f"{_FETCHING}::test_a11_a_high_watermark_of_an_older_epoch_is_not_taken_for_this_ones",
        "src/highwater/replication/follower.py",
        "if self.asked_first > fetch or row.code is not Code.NONE or row.diverging is not None:",
        "if row.code is not Code.NONE or row.diverging is not None:",
    ),
    Mutation(
        "A12",
        f"{_FETCHING}::test_a12_an_answer_without_records_leaves_the_last_fetched_epoch_as_it_was",
        "src/highwater/partition/fetcher.py",
        "if ready.takes:",
        "if not data:\n    log.epoch_cache.clear()\nif ready.takes:",
    ),
    Mutation(
        "A13",
        f"{_FETCHING}::test_a13_a_follower_takes_no_batch_that_is_damaged_or_of_a_later_epoch_than_its_own",
        "src/highwater/log/log.py",
        "if not records.is_intact(batch):",
        "if len(batch) < records.HEADER_SIZE:",
    ),
    Mutation(
        "A13",
        f"{_FETCHING}::test_a13_a_follower_takes_no_batch_that_is_damaged_or_of_a_later_epoch_than_its_own",
        "src/highwater/replication/follower.py",
        "if batch.leader_epoch > self.epoch:",
        "if batch.leader_epoch < 0:",
    ),
    Mutation(
        "A14",
        f"{_CHECKPOINT}::test_a14_a_power_cut_while_epochs_are_rewritten_leaves_the_old_ones_or_the_new",
        "src/highwater/log/checkpoint.py",
        "file.sync()",
        "pass",
    ),
    Mutation(
        "A15",
        f"{_HIGH_WATERMARK}::test_a15_nothing_above_the_high_watermark_is_read_wherever_a_segment_ends",
        "src/highwater/log/reads.py",
        "end = last.position",
        "end = last.position + last.size",
    ),
    Mutation(
        "A16",
        f"{_HIGH_WATERMARK}::test_a16_a_new_leader_that_does_not_know_what_is_committed_does_not_answer_an_older_end",
        "src/highwater/broker/k02_list_offsets.py",
        "if not partition.knows_its_end:",
        "if log.high_watermark < log.log_start:",
    ),
    Mutation(
        "A17",
        f"{_HIGH_WATERMARK}::test_a17_retention_takes_nothing_that_is_not_committed",
        "src/highwater/log/retention.py",
        "if segment.next_base > high_watermark:",
        "if segment.base_offset > high_watermark:",
    ),
    Mutation(
        "A18",
        f"{_TRUNCATION}::test_a18_a_follower_ahead_of_an_unclean_leader_cuts_what_was_committed_and_says_so_aloud",
        "src/highwater/replication/reconciliation.py",
        "return min(own_end, leader_end, log_end)",
        "return min(own_end, log_end)",
    ),
    Mutation(
        "A19",
        f"{_FETCHING}::test_a19_a_consumer_learns_that_what_it_has_read_was_cut_off",
        "src/highwater/broker/k23_offset_for_leader_epoch.py",
        "epoch, end = partition.log.epoch_cache.end_of(asked.leader_epoch, partition.log.log_end)",
        "epoch, end = partition.epoch, partition.log.log_end",
    ),
]
WAITING: list[Waiting] = [
    Waiting("A20", "a replica cannot be moved from one directory to another yet: a node has one"),
]
