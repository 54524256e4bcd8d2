"""Faults of the metadata quorum that a review proved: nodes that nobody finds, or that find nobody."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_MOVED = "tests/scenarios/test_moved_voters.py::"
_PLACES = "tests/unit/quorum/test_whereabouts.py::"
_CORE = "src/highwater/quorum/core.py"
_WHERE = "src/highwater/quorum/whereabouts.py"

MUTATIONS = [
    Mutation(
        "F550",  # a node that knows an old address of its leader does not find it before the next election
        _MOVED + "test_a_node_that_starts_with_an_old_address_of_its_leader_learns_the_new_one",
        _CORE,
        "self.role.leader_listeners = listeners",
        "pass",
    ),
    Mutation(
        "F550",
        _PLACES + "test_a_leader_that_has_answered_stays_where_it_was",
        _CORE,
        "elif isinstance(self.role, Follower) and not self.role.has_fetched:",
        "elif isinstance(self.role, Follower):",
    ),
    Mutation(
        "F550",
        _PLACES + "test_words_about_the_leaders_address_do_not_put_off_an_election",
        _CORE,
        "self.role.leader_listeners = listeners",
        "self.become_follower(epoch, leader_id, listeners, now)",
    ),
    Mutation(
        "F551",  # a node does not notice that it has all metadata if no batch comes with the high watermark
        "tests/scenarios/test_quiet_metadata.py::"
        "test_a_broker_whose_snapshot_holds_all_metadata_starts_though_nothing_more_is_written",
        "src/highwater/raft_node/raft_node.py",
        "self.world.clock.call_soon(self._notify, self._opened_with.committed, self.committed, NOTHING)",
        "pass",
    ),
    Mutation(
        "F552",  # voters that moved one after the other never elect a leader again
        _MOVED + "test_a_quorum_whose_voters_have_all_moved_one_after_the_other_elects_a_leader",
        _WHERE,
        "return places[asked % len(places)]",
        "return places[0]",
    ),
    Mutation(
        "F552",  # nor do two of three, if the one that is behind has moved
        _MOVED + "test_two_of_three_voters_elect_a_leader_though_one_has_moved_and_is_behind",
        _WHERE,
        "return places[asked % len(places)]",
        "return places[0]",
    ),
    Mutation(
        "F552",  # a voter that was found is sought again in the next election
        _PLACES + "test_a_voter_is_asked_again_where_it_has_answered",
        _WHERE,
        "self._asked[voter] = max(0, self._asked.get(voter, 0) - 1)",
        "pass",
    ),
    Mutation(
        "F552",  # a wrong bootstrap server ends a voter
        _PLACES + "test_a_stranger_at_a_bootstrap_server_says_nothing_about_the_cluster_of_the_voter",
        _WHERE,
        "return (self._asked.get(voter, 0) - 1) % len(places) > 0",
        "return False",
    ),
]
