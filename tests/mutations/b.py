"""Group B: ISR, controller, lifecycle."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, Waiting

IN_SYNC = "tests/scenarios/test_b_in_sync.py::"
CONTROLLER = "tests/scenarios/test_b_controller.py::"
LOSS = "tests/scenarios/test_b_loss.py::"
NEARBY = "tests/scenarios/test_b_follower_reads.py::"

MUTATIONS: list[Mutation] = [
    Mutation(
        scenario="B1",
        test=IN_SYNC + "test_b1_a_replica_that_may_already_be_in_the_isr_counts_when_its_leader_dies_in_the_dark",
        file="src/highwater/replication/leader.py",
        line="return proposal.isr if proposal is not None and proposal.expands else self.isr",
        replacement="return self.isr",
    ),
    Mutation(
        scenario="B2",
        test=IN_SYNC + "test_b2_fetches_of_a_dead_incarnation_do_not_let_the_next_one_into_the_isr",
        file="src/highwater/controller/alter_partition.py",
        line="if member.epoch != broker.epoch and (joins or member.epoch != ANY_EPOCH):",
        replacement="if False:",
    ),
    Mutation(
        scenario="B3",
        test=IN_SYNC + "test_b3_a_fenced_replica_that_has_caught_up_neither_joins_the_isr_nor_is_elected",
        file="src/highwater/controller/alter_partition.py",
        line="if broker is None or not broker.active:",
        replacement="if broker is None:",
    ),
    Mutation(
        scenario="B4",
        test=IN_SYNC + "test_b4_a_zombie_controller_with_older_epochs_says_not_controller_and_is_asked_again",
        file="src/highwater/controller/alter_partition.py",
        line="raise KafkaError(Code.NOT_CONTROLLER)",
        replacement="raise KafkaError(Code.INVALID_UPDATE_VERSION)",
    ),
    Mutation(
        scenario="B5",
        test=IN_SYNC + "test_b5_a_change_that_was_committed_and_whose_answer_was_lost_succeeds_when_asked_for_again",
        file="src/highwater/controller/alter_partition.py",
        line="if is_repeated(partition, asked, members):",
        replacement="if partition.leader_epoch < asked.leader_epoch:",
    ),
    Mutation(
        scenario="B6",
        test=IN_SYNC + "test_b6_writes_that_wait_for_the_last_laggard_are_acknowledged_when_the_shrink_is_committed",
        file="src/highwater/partition/partition.py",
        line="flags = leader.assigned(replicas, isr, partition_epoch, brokers, now, elr)",
        replacement="flags = leader.assigned(replicas, isr, partition_epoch, brokers, now, elr) & ~COMMITTED",
    ),
    Mutation(
        scenario="B7",
        test=IN_SYNC + "test_b7_below_min_insync_replicas_nothing_is_committed_and_no_reader_sees_more",
        file="src/highwater/replication/leader.py",
        line="if lowest <= self.high_watermark or self.is_frozen or not self.enough_in_sync:",
        replacement="if lowest <= self.high_watermark or self.is_frozen:",
    ),
    Mutation(
        scenario="B8",
        test=LOSS + "test_b8_the_last_replica_standing_loses_power_and_an_eligible_one_leads_without_loss",
        file="src/highwater/controller/elections.py",
        line="candidates = sorted({*partition.elr, *partition.isr})",
        replacement="candidates = sorted(partition.elr)",
    ),
    Mutation(
        scenario="B10",
        test=LOSS + "test_b10_a_replica_with_an_empty_disk_leads_only_once_it_has_everything_again",
        file="src/highwater/controller/registration.py",
        line="clean = version >= 3 and request.previous_broker_epoch == stored_epoch",
        replacement="clean = version >= 3 and request.previous_broker_epoch <= stored_epoch",
    ),
    Mutation(
        scenario="B11",
        test=CONTROLLER + "test_b11_two_brokers_whose_sessions_end_in_the_same_tick_both_leave_every_isr",
        file="src/highwater/active_controller/broker_watch.py",
        line="records = fence_broker(controller.head, controller.config, broker, epoch, MAX_ELECTIONS, silent)",
        replacement="records = fence_broker("
        "controller.raft.committed, controller.config, broker, epoch, MAX_ELECTIONS, silent)",
    ),
    Mutation(
        scenario="B12",
        test=CONTROLLER + "test_b12_live_brokers_are_not_fenced_by_a_controller_that_was_slow_itself",
        file="src/highwater/active_controller/broker_watch.py",
        line="self.liveness.extend(now)",
        replacement="pass",
    ),
    Mutation(
        scenario="B13",
        test=CONTROLLER + "test_b13_no_broker_acts_on_an_isr_change_that_its_controller_did_not_live_to_commit",
        file="src/highwater/active_controller/active_controller.py",
        line="if self._waiting or self.raft.committed.offset < self.head.offset:",
        replacement="if self._waiting:",
    ),
    Mutation(
        scenario="B14",
        test=LOSS + "test_b14_a_leader_cut_off_from_the_others_commits_nothing_for_the_clients_it_keeps",
        file="src/highwater/replication/leader.py",
        line="return proposal.isr if proposal is not None and proposal.expands else self.isr",
        replacement="return proposal.isr if proposal is not None else self.isr",
    ),
    Mutation(
        scenario="B15",
        test="tests/scenarios/test_b_reassignment.py::"
        "test_b15_a_replica_that_is_removed_and_added_again_in_one_step_must_fetch_again_before_it_counts",
        file="src/highwater/controller/elections.py",
        line="elif not set(partition.replicas) <= set(replicas):",
        replacement="elif False:",
    ),
    Mutation(
        scenario="B16",
        test=IN_SYNC + "test_b16_a_follower_that_fetches_on_while_it_shuts_down_does_not_hold_the_high_watermark",
        file="src/highwater/replication/leader.py",
        line="if progress.end is None or progress.has_left or not self.is_eligible(replica):",
        replacement="if progress.end is None or progress.has_left:",
    ),
    Mutation(
        scenario="B17",
        test=LOSS + "test_b17_a_broker_that_missed_a_deletion_and_a_creation_drops_the_old_topic_before_it_serves",
        file="src/highwater/broker/publisher.py",
        line="if topic is None or topic.id != log.topic_id or known is None or broker.node_id not in known.replicas:",
        replacement="if topic is None or known is None or broker.node_id not in known.replicas:",
    ),
    Mutation(
        scenario="B18",
        test=LOSS + "test_b18_an_unclean_election_loses_exactly_what_the_elected_one_lacked",
        file="src/highwater/controller/elections.py",
        line="isr, elr = [winner.leader], []",
        replacement="isr, elr = [winner.leader, partition.leader], []",
    ),
    Mutation(
        scenario="B18",
        test=LOSS + "test_b18_coordinators_load_anew_what_an_unclean_election_left",
        file="src/highwater/coordinator/coordinator.py",
        line="if known is not None and (partition.leader is None or known.epoch != partition.epoch):",
        replacement="if known is not None and partition.epoch < known.epoch:",
    ),
    Mutation(
        scenario="B19",
        test=NEARBY + "test_b19_a_fenced_replica_that_the_leader_still_counts_as_in_sync_is_not_preferred",
        file="src/highwater/broker/applied_metadata.py",
        line="if node.rack is not None and not node.fenced and node.listener(listener) is not None",
        replacement="if node.rack is not None and node.listener(listener) is not None",
    ),
]
WAITING: list[Waiting] = [
    Waiting("B9", "Kafka 4.3 elects a last known leader only if exactly one is recorded"),
]
