"""What is done to a running cluster: reading from followers."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

NEARBY = "tests/scenarios/test_b_follower_reads.py::"
CHOICE = "tests/unit/replication/test_read_replica.py::"
READING = "tests/unit/partition/test_fetching.py::"

MUTATIONS = [
    Mutation(
        "F360",  # a consumer stays with a follower that has left the ISR
        CHOICE + "test_a_follower_serves_consumers_while_it_is_in_the_isr_and_hears_from_its_leader",
        "src/highwater/replication/read_replica.py",
        "return is_in_isr and heard_at is not None and now - heard_at <= lag_seconds",
        "return heard_at is not None and now - heard_at <= lag_seconds",
    ),
    Mutation(
        "F360",  # and is sent there
        CHOICE + "test_a_follower_outside_the_isr_is_not_preferred",
        "src/highwater/replication/read_replica.py",
        "for replica in leader.isr:",
        "for replica in leader.replicas:",
    ),
    Mutation(
        "F361",  # a consumer starves at a follower that is cut off from all others
        NEARBY + "test_b19_a_replica_without_contact_to_anyone_sends_its_consumers_back_after_the_longest_lag",
        "src/highwater/replication/read_replica.py",
        "return is_in_isr and heard_at is not None and now - heard_at <= lag_seconds",
        "return is_in_isr",
    ),
    Mutation(
        "F361",  # and the leader sends it there again
        CHOICE + "test_a_follower_that_was_not_caught_up_within_the_longest_lag_is_not_preferred",
        "src/highwater/replication/read_replica.py",
        "if caught_up_at is None or now - caught_up_at > leader.terms.lag_seconds:",
        "if caught_up_at is None:",
    ),
    Mutation(
        "F362",  # a session reads a follower once, and never learns that it no longer serves
        NEARBY + "test_b19_a_replica_that_has_left_the_isr_is_neither_preferred_nor_served",
        "src/highwater/partition/fetching.py",
        "return _records(entry, log, reader, max_bytes, at_least_one)._replace(is_passing=True)",
        "return _records(entry, log, reader, max_bytes, at_least_one)",
    ),
    Mutation(
        "F363",  # the preferred replica waits for records
        NEARBY + "test_a_leader_sends_a_consumer_to_the_follower_in_its_rack_at_once_and_without_records",
        "src/highwater/broker/k01_fetch.py",
        "urgent = urgent or row.error is not Code.NONE or row.diverging is not None or row.preferred >= 0",
        "urgent = urgent or row.error is not Code.NONE or row.diverging is not None",
    ),
    Mutation(
        "F363",  # and is no news in a session
        NEARBY + "test_the_preferred_replica_is_news_in_a_session_again_and_again",
        "src/highwater/broker/k01_fetch.py",
        "or row.preferred >= 0",
        "or False",
    ),
    Mutation(
        "F364",  # a log is read while its tail is being cut off
        READING + "test_a_follower_refuses_a_consumer_while_its_log_is_being_cut_and_when_it_is_offline",
        "src/highwater/partition/fetching.py",
        "if partition.is_being_cut or not nearby.may_read(partition):",
        "if not nearby.may_read(partition):",
    ),
    Mutation(
        "F365",  # a consumer with an old leader epoch reads a follower
        NEARBY + "test_a_follower_checks_the_leader_epoch_of_a_consumer",
        "src/highwater/partition/fetching.py",
        "check_epoch(entry.epoch, partition.epoch)\nif partition.is_being_cut or not nearby.may_read(partition):",
        "if partition.is_being_cut or not nearby.may_read(partition):",
    ),
    Mutation(
        "F366",  # a follower serves what is not committed
        NEARBY + "test_a_follower_serves_up_to_its_own_high_watermark_and_refuses_offsets_beyond_its_own_end",
        "src/highwater/partition/fetching.py",
        "limit = log.log_end if reader.replica >= 0 else last_stable if committed_only else high_watermark",
        "limit = log.log_end if reader.nearby else last_stable if committed_only else high_watermark",
    ),
    Mutation(
        "F367",  # a consumer at a follower is not woken
        NEARBY + "test_a_consumer_that_waits_at_a_follower_is_answered_when_the_followers_high_watermark_moves",
        "src/highwater/partition/partition.py",
        "self.log.move_high_watermark(ready.high_watermark)\nself._notify_readers()",
        "self.log.move_high_watermark(ready.high_watermark)",
    ),
]
