"""Faults that reviews proved: descriptors, memory, and whoever waits behind a connection that is gone."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

MUTATIONS: list[Mutation] = [
    Mutation(
        "F11",
        "tests/sim/test_fast_fencing.py::"
        "test_a_live_broker_whose_first_listener_is_for_other_machines_is_not_fenced_when_its_connection_breaks",
        "src/highwater/controller/suspicion.py",
        "found = broker.listener(listener) if listener is not None else None",
        "found = broker.listeners[0]",
    ),
    Mutation(
        "F11",
        "tests/unit/controller/test_suspicion.py::"
        "test_who_sent_a_heartbeat_while_it_was_probed_is_alive_whatever_its_port_says",
        "src/highwater/controller/suspicion.py",
        "if not record.probed:",
        "if False:",
    ),
]
