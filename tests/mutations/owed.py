"""Elections that are owed, and what a broker may say of its logs after a clean stop."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

OWED = "tests/scenarios/test_owed_elections.py::"
CLEAN = "tests/scenarios/test_lost_after_a_clean_stop.py::"
DAMAGE = "tests/scenarios/test_forgotten_damage.py::"

MUTATIONS = [
    Mutation(
        "F303",  # the next controller elects nobody for what a fencing left half done
        OWED + "test_a_partition_is_led_again_though_its_controller_ended_amid_the_fencing_of_two_silent_brokers",
        "src/highwater/active_controller/active_controller.py",
        "self._head = self.raft.committed\nself.owes_elections = True",
        "self._head = self.raft.committed",
    ),
    Mutation(
        "F303",  # nor does this one, once it can write again
        OWED + "test_a_partition_is_led_again_though_the_disk_was_full_between_the_fencings_of_two_silent_brokers",
        "src/highwater/active_controller/active_controller.py",
        "self.owes_elections = True\nreturn False",
        "return False",
    ),
    Mutation(
        "F303",
        OWED + "test_all_partitions_are_led_again_though_the_disk_was_full_amid_an_unfencing_of_several_batches",
        "src/highwater/active_controller/clockwork.py",
        "if self._controller.owes_elections:",
        "if False:",
    ),
    Mutation(
        "F304",  # a broker joins an ISR amid its fencing
        OWED + "test_a_broker_that_is_fenced_in_slices_is_not_put_back_into_an_isr_between_two_of_them",
        "src/highwater/controller/alter_partition.py",
        "if joins and member.broker in leaving:",
        "if False:",
    ),
    Mutation(
        "F305",  # a log that is opened late, or never, is vouched for
        CLEAN + "test_a_broker_that_opens_a_shorter_log_only_after_its_registration_is_not_eligible_to_lead_it",
        "src/highwater/log/store.py",
        "if self.unloaded:",
        "if False:",
    ),
    Mutation(
        "F306",  # a missing checkpoint counts as an empty one
        CLEAN + "test_a_broker_with_a_clean_mark_and_without_a_checkpoint_that_every_clean_stop_writes_is_not_eligible",
        "src/highwater/log/found.py",
        "if data is None and found.clean and file_name != names.HIGH_WATERMARKS:",
        "if False:",
    ),
    Mutation(
        "F307",  # damage is forgotten by a restart
        DAMAGE + "test_a_damaged_replica_is_fetched_anew_though_its_broker_stops_when_it_is_known_to_be_lost",
        "src/highwater/broker/publisher.py",
        "self._doubtful.add(partition)",
        "pass",
    ),
    Mutation(
        "F307",  # the broker vouches for a damaged log
        "tests/unit/log/test_closing.py::test_a_stop_with_known_damage_is_not_marked",
        "src/highwater/log/clean_stop.py",
        "return log.offline is None and not log.reads.damage",
        "return log.offline is None",
    ),
    Mutation(
        "F302",  # the second start takes a log for whole that lacks its first segment
        "tests/unit/log/test_closing.py::test_a_log_without_its_first_segment_is_incomplete_after_every_later_stop",
        "src/highwater/log/store.py",
        "if log.incomplete is not None and log.partition in self.found.log_starts:",
        "if False:",
    ),
    Mutation(
        "F308",  # a follower whose last batch has moved never catches up
        "tests/unit/replication/test_follower.py::test_a_log_that_ends_inside_a_batch_of_the_leader_is_damaged",
        "src/highwater/replication/follower.py",
        "if first.base_offset < log.end <= first.last_offset:",
        "if False:",
    ),
]
