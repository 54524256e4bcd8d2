"""What is done to a running cluster: reading from followers, reassignment, and balance."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

NEARBY = "tests/scenarios/test_b_follower_reads.py::"
CHOICE = "tests/unit/replication/test_read_replica.py::"
READING = "tests/unit/partition/test_fetching.py::"
MOVES = "tests/unit/controller/test_partition_moves.py::"
PLAN = "tests/unit/client/test_balance_plan.py::"
THROTTLED = "tests/scenarios/test_throttled_replication.py::"
LANES = "tests/unit/lab/test_drawing.py::"

MUTATIONS = [
    Mutation(
        "F670",  # records that the new leader does not have look like its own
        LANES + "test_records_that_the_new_leader_does_not_have_look_unlike_its_own",
        "src/highwater/lab/strip.py",
        "if offset >= self._parts.get(lane, lane.log_end):",
        "if False:",
    ),
    Mutation(
        "F671",  # in a long log the high watermark moves all that is behind it, and single records are not seen
        LANES + "test_in_a_long_log_every_end_mark_and_epoch_has_the_same_column_in_all_lanes",
        "src/highwater/lab/strip.py",
        "places |= {place for lane in lanes for place in (lane.log_start, lane.log_end)}",
        "places = {self.first, self.end}",
    ),
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
        "src/highwater/broker/waiting_fetch.py",
        "urgent = urgent or row.error is not Code.NONE or row.diverging is not None or row.preferred >= 0",
        "urgent = urgent or row.error is not Code.NONE or row.diverging is not None",
    ),
    Mutation(
        "F363",  # and is no news in a session
        NEARBY + "test_the_preferred_replica_is_news_in_a_session_again_and_again",
        "src/highwater/broker/waiting_fetch.py",
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
    Mutation(
        "F370",  # a further target forgets that a replica has no complete copy yet
        MOVES + "test_a_new_target_takes_the_place_of_one_that_is_under_way",
        "src/highwater/controller/reassignment.py",
        "settled = [replica for replica in partition.replicas if replica not in partition.adding]",
        "settled = list(partition.replicas)",
    ),
    Mutation(
        "F371",  # a cancellation loses committed records
        MOVES + "test_a_cancellation_that_would_leave_nobody_in_the_isr_needs_unclean_elections",
        "src/highwater/controller/partition_moves.py",
        "if back.is_unclean and not electorate.rules(topic).unclean:",
        "if False:",
    ),
    Mutation(
        "F372",  # a lower replication factor makes the ISR smaller than it was
        MOVES + "test_a_lower_replication_factor_is_reached_at_once_if_the_replicas_that_stay_are_in_sync",
        "src/highwater/controller/reassignment.py",
        "awaited = staying if len(joining) < len(leaving) else joining",
        "awaited = joining",
    ),
    Mutation(
        "F373",  # a move ends before all added replicas have everything
        MOVES + "test_a_move_ends_when_all_added_replicas_are_in_sync_and_a_leader_that_is_removed_is_replaced",
        "src/highwater/controller/reassignment.py",
        "if not in_sync or not staying or not {*awaited, *joining} <= set(in_sync):",
        "if not in_sync or not staying:",
    ),
    Mutation(
        "F374",  # a removed replica may be elected later
        MOVES + "test_a_removed_replica_leaves_the_elr_and_the_last_known_leaders",
        "src/highwater/controller/elections.py",
        "return [r for r in candidates if r in replicas and r not in isr and r != unclean_shutdown]",
        "return [r for r in candidates if r not in isr and r != unclean_shutdown]",
    ),
    Mutation(
        "F375",  # the replication factor changes though the request forbids it
        MOVES + "test_the_replication_factor_changes_only_if_the_request_allows_it",
        "src/highwater/controller/partition_moves.py",
        "if not may_change_factor:",
        "if False:",
    ),
    Mutation(
        "F376",  # two targets of one request are both decided on the same state
        MOVES + "test_a_partition_that_is_named_twice_is_moved_once",
        "src/highwater/controller/partition_moves.py",
        "if (topic.name, index) in named:",
        "if False:",
    ),
    Mutation(
        "F380",  # a balance takes a rack from a partition
        PLAN + "test_a_replica_is_not_moved_if_its_partition_would_have_fewer_racks",
        "src/highwater/client/balance_plan.py",
        "return self._spread(after) >= self._spread(now)",
        "return True",
    ),
    Mutation(
        "F381",  # a broker gets a partition twice
        PLAN + "test_any_cluster_is_even_afterwards_with_no_fewer_racks_and_no_broker_twice",
        "src/highwater/client/balance_plan.py",
        "if taker in now:",
        "if False:",
    ),
    Mutation(
        "F382",  # leaders are left where no single partition joins two brokers
        PLAN + "test_leadership_goes_along_a_chain_where_no_partition_joins_both_ends",
        "src/highwater/client/balance_plan.py",
        "queue.append(other)",
        "pass",
    ),
    Mutation(
        "F383",  # many small replicas move where one would do
        PLAN + "test_the_largest_replica_that_fits_moves_rather_than_many_small_ones",
        "src/highwater/client/balance_plan.py",
        "return size > room, size if size > room else -size, tp",
        "return False, size, tp",
    ),
    Mutation(
        "F368",  # a partition that has left a session is answered for ever, at an old position
        "tests/unit/broker/test_waiting_fetches.py::"
        "test_a_partition_that_leaves_its_session_while_its_position_is_looked_up_is_not_answered_any_more",
        "src/highwater/partition/fetch_session.py",
        "if entry.is_forgotten:\nreturn",
        "pass",
        also=(
            Mutation(
                "F368",
                "",
                "src/highwater/broker/waiting_fetch.py",
                "if entry.is_forgotten:  # by a further request, since this one was begun",
                "if False:",
            ),
        ),
    ),
    Mutation(
        "F369",  # a producer numbers records anew that are there, since their leader was moved away
        "tests/unit/partition/test_roles.py::test_writes_that_wait_look_for_the_leader_unless_the_topic_is_deleted",
        "src/highwater/partition/partition.py",
        "self._end_term(Code.UNKNOWN_TOPIC_OR_PARTITION if is_deleted else Code.NOT_LEADER_OR_FOLLOWER)",
        "self._end_term(Code.UNKNOWN_TOPIC_OR_PARTITION)",
    ),
    Mutation(
        "F540",  # the bound of a topic's first partition decides who is eligible in the others
        "tests/scenarios/test_uneven_replicas.py::"
        "test_replicas_with_all_acknowledged_records_may_lead_though_the_first_partition_has_a_single_replica",
        "src/highwater/controller/settings.py",
        "return ElectionRules(min_isr, unclean, head.features.elr_enabled)",
        "return ElectionRules(min(min_isr, len(topic.partitions[0].replicas)), unclean, head.features.elr_enabled)",
    ),
    Mutation(
        "F542",  # an empty replica is elected though an older one lives
        "tests/scenarios/test_b_reassignment.py::"
        "test_an_unclean_election_amid_a_move_prefers_a_replica_that_had_the_partition_before",
        "src/highwater/controller/elections.py",
        "by_age = sorted(replicas, key=lambda replica: replica in partition.adding)",
        "by_age = replicas",
    ),
    Mutation(
        "F543",  # a move that an unclean election could end never ends
        "tests/scenarios/test_b_reassignment.py::"
        "test_a_move_away_from_a_dead_broker_ends_with_the_unclean_election_of_its_target",
        "src/highwater/controller/elections.py",
        "wanted = Assignment(done[0])",
        "pass",
    ),
    Mutation(
        "F544",  # a partition that is added during a move gets too many replicas
        "tests/unit/controller/test_topics.py::"
        "test_partitions_are_added_with_the_replication_factor_of_the_target_while_the_first_one_moves",
        "src/highwater/controller/reassignment.py",
        "return len(set(partition.replicas) - set(partition.removing))",
        "return len(partition.replicas)",
    ),
    Mutation(
        "F548",  # a cancellation passes over a live replica that has everything
        MOVES + "test_a_cancellation_that_would_leave_the_isr_empty_elects_a_live_replica_of_the_elr",
        "src/highwater/controller/reassignment.py",
        "if not isr and any(replica in partition.elr and acceptable(replica) for replica in replicas):",
        "if False:",
    ),
    Mutation(
        "F549",  # a cancelled move of two targets keeps what the first one added
        MOVES + "test_a_cancelled_move_that_had_several_targets_leaves_the_replicas_that_the_partition_had",
        "src/highwater/controller/reassignment.py",
        "adding = tuple(sorted({*target, *partition.adding} - set(settled)))",
        "adding = tuple(sorted(set(target) - set(settled)))",
    ),
    Mutation(
        "F550",  # a move that the election of an eligible replica could end never ends
        MOVES + "test_a_move_ends_with_the_election_of_a_leader_from_the_elr_if_it_waits_for_no_other_replica",
        "src/highwater/controller/elections.py",
        "wanted = Assignment(done[0])",
        "pass",
    ),
    Mutation(
        "F600",  # a throttled follower pauses for longer than its throttle asks for, and the rate is not used
        THROTTLED + "test_the_whole_rate_is_used_whatever_the_fetch_wait_of_followers_is",
        "src/highwater/partition/fetcher.py",
        "pause = min(self._throttle.seconds_left, self._limits().backoff)",
        "pause = self._limits().backoff",
    ),
    Mutation(
        "F601",  # a throttled fetch waits at the leader for longer than the throttle asks for
        THROTTLED + "test_the_whole_rate_is_used_whatever_the_fetch_wait_of_followers_is",
        "src/highwater/broker/waiting_fetch.py",
        "self._look_after(self.reader.throttle.seconds_left)",
        "pass",
    ),
    Mutation(
        "F602",  # a long list of throttled replicas is read once for every partition, in one turn of the loop
        "tests/unit/replication/test_throttle.py::test_a_long_list_of_replicas_is_not_read_for_each_of_them",
        "src/highwater/config/topic.py",
        "values[listed] = frozenset(values[listed])",
        "values[listed] = tuple(values[listed])",
    ),
    Mutation(
        "F603",  # a move that had another target before waits for a replica that the same move alone does not wait for
        MOVES + "test_a_move_that_had_another_target_before_waits_for_the_same_replicas_as_without_it",
        "src/highwater/controller/reassignment.py",
        "leaving = [replica for replica in removing if replica not in adding]",
        "leaving = list(removing)",
    ),
    Mutation(
        "F482",  # the throttle of a balance stays for ever
        "tests/cluster/test_balance.py::"
        "test_a_new_broker_gets_its_share_a_broker_is_drained_and_an_interrupted_balance_is_taken_up",
        "src/highwater/client/balance_run.py",
        "if not admin.list_reassignments():",
        "if False:",
    ),
]
