from __future__ import annotations

from highwater.controller.death import AT_ONCE, FENCINGS_WITHIN, Liveness, Suspicion, address_to_probe, was_stalled
from highwater.metadata.brokers import BrokerRegistration, BrokersImage
from highwater.metadata.registration import RegisteredListener
from highwater.model import ZERO_UUID, Endpoint, NodeId
from tests.unit.controller.clusters import cluster, fence
from tests.unit.controller.clusters import epoch as epoch_of

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def dies(suspicion: Suspicion, broker: NodeId, epoch: int, now: float, unfenced: int = 3) -> bool:
    if not suspicion.hint(broker, epoch, now):
        return False
    suspicion.probing(broker, epoch)
    if not suspicion.proven(broker, epoch, now + 0.006, unfenced):
        return False
    suspicion.fenced(broker, epoch, now + 0.006)
    return True


def probed(suspicion: Suspicion, *brokers: tuple[NodeId, int]) -> Suspicion:
    for broker, epoch in brokers:
        suspicion.probing(broker, epoch)
    return suspicion


def broker_at(*listeners: tuple[str, str, int]) -> BrokerRegistration:
    known = tuple(RegisteredListener(name, host, port, 0) for name, host, port in listeners)
    return BrokerRegistration(ONE, 7, ZERO_UUID, known, {}, None, False, False, (), None)


def test_a_hint_asks_for_a_probe_and_the_proof_fences() -> None:
    suspicion = Suspicion()
    assert suspicion.hint(ONE, 7, 10.0)
    suspicion.probing(ONE, 7)
    assert suspicion.proven(ONE, 7, 10.006, unfenced=3)


def test_a_new_controller_needs_no_hint() -> None:
    assert probed(Suspicion(), (ONE, 7)).proven(ONE, 7, 10.0, unfenced=3)


def test_a_broker_that_sent_a_heartbeat_during_the_probe_is_alive() -> None:
    suspicion = Suspicion()
    assert suspicion.hint(ONE, 7, 10.0)
    suspicion.probing(ONE, 7)
    suspicion.heard(ONE, 7)
    assert not suspicion.proven(ONE, 7, 10.006, unfenced=3)
    assert dies(suspicion, ONE, 7, 10.1)


def test_a_broker_is_probed_where_brokers_reach_it_and_nowhere_else() -> None:
    two = broker_at(("EXTERNAL", "localhost", 29092), ("INTERNAL", "broker-1", 9092))
    assert address_to_probe(two, "INTERNAL") == Endpoint("broker-1", 9092)
    assert address_to_probe(two, "PLAINTEXT") is None
    assert address_to_probe(two, None) is None


def test_a_controller_that_does_not_know_the_broker_listener_probes_brokers_with_one_listener() -> None:
    assert address_to_probe(broker_at(("INTERNAL", "broker-1", 9092)), None) == Endpoint("broker-1", 9092)


def test_after_three_fencings_in_a_minute_that_it_survived_only_the_timer_counts() -> None:
    suspicion = Suspicion()
    for now in (0.0, 10.0, 20.0):
        assert dies(suspicion, ONE, 7, now)
        suspicion.heard(ONE, 7)
    assert not suspicion.hint(ONE, 7, 30.0)
    assert not suspicion.proven(ONE, 7, 30.0, unfenced=3)
    assert dies(suspicion, TWO, 8, 40.0)
    # The first of the three is forgotten a minute after it.
    assert not suspicion.hint(ONE, 7, FENCINGS_WITHIN)
    assert dies(suspicion, ONE, 7, FENCINGS_WITHIN + 0.01)
    assert not suspicion.hint(ONE, 7, FENCINGS_WITHIN + 0.02)


def test_an_incarnation_that_came_after_a_real_death_is_not_damped_by_it() -> None:
    suspicion = Suspicion()
    for life in range(10):
        assert dies(suspicion, ONE, 100 + life, 2.0 * life)


def test_if_half_the_brokers_vanish_at_once_the_controller_suspects_itself() -> None:
    suspicion = probed(Suspicion(), (ONE, 7), (TWO, 8))
    assert suspicion.hint(ONE, 7, 0.0)
    assert suspicion.hint(TWO, 8, 0.0)
    assert not suspicion.proven(ONE, 7, 0.006, unfenced=3)
    assert not suspicion.proven(TWO, 8, 0.006, unfenced=3)


def test_two_of_five_that_vanish_at_once_are_fenced() -> None:
    suspicion = probed(Suspicion(), (ONE, 7), (TWO, 8))
    assert suspicion.hint(ONE, 7, 0.0)
    assert suspicion.hint(TWO, 8, 0.0)
    assert suspicion.proven(ONE, 7, 0.006, unfenced=5)
    assert suspicion.proven(TWO, 8, 0.006, unfenced=5)


def test_a_second_broker_death_later_is_also_believed() -> None:
    suspicion = Suspicion()
    assert dies(suspicion, ONE, 7, 0.0)
    assert dies(suspicion, TWO, 8, 2 * AT_ONCE, unfenced=2)


def test_the_death_of_one_of_two_brokers_or_of_the_only_one_is_believed() -> None:
    assert dies(Suspicion(), ONE, 7, 0.0, unfenced=2)
    assert dies(Suspicion(), ONE, 7, 0.0, unfenced=1)


def test_a_broker_with_a_new_heartbeat_has_not_vanished() -> None:
    suspicion = probed(Suspicion(), (ONE, 7), (TWO, 8))
    suspicion.hint(ONE, 7, 0.0)
    suspicion.hint(TWO, 8, 0.0)
    suspicion.heard(TWO, 8)
    assert suspicion.proven(ONE, 7, 0.006, unfenced=3)


def test_a_new_controller_that_finds_half_the_brokers_gone_suspects_itself_at_the_second() -> None:
    suspicion = probed(Suspicion(), (ONE, 7), (TWO, 8), (THREE, 9))
    assert suspicion.proven(ONE, 7, 0.0, unfenced=4)
    suspicion.fenced(ONE, 7, 0.0)
    assert not suspicion.proven(TWO, 8, 0.0, unfenced=3)
    assert not suspicion.proven(THREE, 9, 0.0, unfenced=3)


def test_a_timer_half_a_second_late_proves_a_stall() -> None:
    assert not was_stalled(due=10.0, now=10.5)
    assert was_stalled(due=10.0, now=10.501)


def test_a_broker_that_was_just_fenced_still_counts_among_all_brokers() -> None:
    suspicion = Suspicion()
    assert dies(suspicion, ONE, 7, 0.0, unfenced=5)
    assert dies(suspicion, TWO, 8, AT_ONCE / 2, unfenced=4)
    assert not dies(suspicion, THREE, 9, AT_ONCE / 2, unfenced=3)


def test_a_proof_alone_fences_no_broker_and_is_not_held_against_it_yet() -> None:
    suspicion = probed(Suspicion(), (ONE, 7), (TWO, 8))
    for _ in range(4):
        assert suspicion.proven(ONE, 7, 0.0, unfenced=4)
    assert not suspicion.proven(TWO, 8, 0.0, unfenced=4)


def test_a_port_that_refuses_proves_nothing_of_a_broker_that_was_not_probed() -> None:
    assert not Suspicion().proven(NodeId(1), 5, 100.0, 3)


def unfenced(*brokers: int) -> BrokersImage:
    return cluster(*brokers).brokers


def test_an_unfenced_broker_without_a_session_gets_one() -> None:
    liveness = Liveness(9.0)
    liveness.begin_missing(unfenced(1, 2), 100.0)
    assert liveness.expired(109.0) == []
    liveness.heard(NodeId(1), epoch_of(1), 105.0, 7)
    liveness.begin_missing(unfenced(1, 2), 108.0)
    assert liveness.expired(109.1) == [(2, epoch_of(2))], "one that has a session keeps it"
    assert liveness.expired(114.1) == [(2, epoch_of(2)), (1, epoch_of(1))]


def test_a_fenced_broker_needs_no_session() -> None:
    liveness = Liveness(9.0)
    liveness.begin_missing(fence(cluster(1), 1).brokers, 100.0)
    assert liveness.expired(1000.0) == []


def test_a_broker_presumed_dead_keeps_no_other_from_registering_and_is_fenced_after_its_session() -> None:
    liveness = Liveness(9.0)
    liveness.activate(unfenced(1), 100.0)
    liveness.presume_dead(NodeId(1), epoch_of(1) + 1)
    assert liveness.has_session(NodeId(1), epoch_of(1), 101.0), "another incarnation is meant"
    liveness.presume_dead(NodeId(1), epoch_of(1))
    assert not liveness.has_session(NodeId(1), epoch_of(1), 101.0)
    assert liveness.expired(109.1) == [(1, epoch_of(1))]
    liveness.heard(NodeId(1), epoch_of(1), 110.0, 7)
    assert liveness.has_session(NodeId(1), epoch_of(1), 111.0), "it lives"


def test_a_broker_whose_heartbeat_is_not_answered_yet_is_not_silent_and_has_a_session_from_the_answer_on() -> None:
    liveness, one, epoch, beat = Liveness(9.0), NodeId(1), epoch_of(1), object()
    liveness.heard(one, epoch, 100.0, 7)
    liveness.waits(one, epoch, beat)
    assert liveness.expired(1000.0) == []
    assert liveness.has_session(one, epoch, 1000.0)
    liveness.answered(one, epoch, beat, 1000.0)
    assert liveness.expired(1009.0) == []
    assert liveness.expired(1009.1) == [(one, epoch)]


def test_the_answer_to_a_heartbeat_that_the_broker_gave_up_leaves_the_next_one_unanswered() -> None:
    liveness, one, epoch, given_up, beat = Liveness(9.0), NodeId(1), epoch_of(1), object(), object()
    for heartbeat in (given_up, beat):
        liveness.heard(one, epoch, 100.0, 7)
        liveness.waits(one, epoch, heartbeat)
    liveness.answered(one, epoch, given_up, 120.0)
    assert liveness.expired(1000.0) == []
    liveness.answered(one, epoch, beat, 1000.0)
    assert liveness.expired(1009.1) == [(one, epoch)]


def test_a_heartbeat_of_an_earlier_incarnation_that_waits_keeps_no_session_open() -> None:
    liveness, one, epoch, beat = Liveness(9.0), NodeId(1), epoch_of(1), object()
    liveness.heard(one, epoch + 1, 100.0, 7)
    liveness.waits(one, epoch, beat)
    liveness.answered(one, epoch, beat, 105.0)
    assert liveness.expired(109.1) == [(one, epoch + 1)]
    liveness.waits(NodeId(2), epoch, beat)
    liveness.answered(NodeId(2), epoch, beat, 105.0)
