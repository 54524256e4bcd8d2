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
    Mutation(
        "F22",
        "tests/unit/log/test_faults.py::test_a_sync_for_which_no_descriptor_was_left_is_tried_until_it_is_done",
        "src/highwater/log/durability.py",
        "if isinstance(result, Exhausted) and not self._stopped:",
        "if False:",
    ),
    Mutation(
        "F22",
        "tests/unit/log/test_faults.py::test_whatever_a_sync_returns_is_final_for_its_log",
        "src/highwater/log/durability.py",
        "if isinstance(result, Exhausted) and not self._stopped:",
        "if isinstance(result, OSError) and not self._stopped:",
    ),
    Mutation(
        "F22",
        "tests/unit/log/test_faults.py::test_an_error_of_one_file_outweighs_a_missing_descriptor_of_another",
        "src/highwater/world/__init__.py",
        "return min(errors, key=lambda error: isinstance(error, Exhausted), default=None)",
        "return next(iter(errors), None)",
    ),
    Mutation(
        "F22",
        "tests/unit/net/test_http.py::test_whoever_asks_is_answered_however_many_only_sit_there",
        "src/highwater/net/http.py",
        "if len(self._connections) > MAX_CONNECTIONS:",
        "if False:",
    ),
    Mutation(
        "F22",
        "tests/unit/world/test_descriptors.py::test_a_pool_that_is_larger_than_the_limit_gives_way",
        "src/highwater/world/real_disk.py",
        "self._room = max(min(len(self._open), self._room) // 2, min(_FEWEST_KEPT, self._descriptors))",
        "pass",
    ),
]
