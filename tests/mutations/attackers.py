"""Faults that an attack on a node or on `up` proved: what a client may leave in the metadata, and long lists."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_CONFIGS = "tests/unit/controller/test_configs.py"
_ALTERATION = "src/highwater/config/alteration.py"
_NUMEROUS = "tests/unit/broker/test_numerous_partitions.py"
_TERMINAL = "tests/cluster/test_closed_terminal.py"
_SOCKET = "tests/unit/cli/test_control_socket.py"
_CONTROL = "src/highwater/cli/control_socket.py"
_ORDERS = "src/highwater/cli/node_orders.py"
_DESCRIBE = "tests/unit/config/test_topic.py"

MUTATIONS: list[Mutation] = [
    Mutation(
        "F960",
        f"{_CONFIGS}::test_a_broker_has_a_thousand_settings_at_most_with_those_that_it_has_already",
        _ALTERATION,
        "if len(before) < len(after) > MOST_SETTINGS:",
        "if False:",
    ),
    Mutation(
        "F960",
        f"{_CONFIGS}::test_the_settings_of_a_broker_have_a_mebibyte_of_characters_at_most_with_their_names",
        _ALTERATION,
        "if _characters(before) < (size := _characters(after)) > MOST_CHARACTERS:",
        "if (size := 0):",
    ),
    Mutation(
        "F960",
        f"{_CONFIGS}::test_settings_beyond_the_bounds_that_are_there_already_may_be_made_less",
        _ALTERATION,
        "if len(before) < len(after) > MOST_SETTINGS:",
        "if len(after) > MOST_SETTINGS:",
    ),
    Mutation(
        "F961",
        f"{_NUMEROUS}::test_a_request_names_no_more_partitions_by_number_than_it_may",
        "src/highwater/wire/reader.py",
        "self.charge(count // NUMBERS_PER_OBJECT)",
        "self.charge(count // (4 * NUMBERS_PER_OBJECT))",
    ),
    Mutation(
        "F961",
        f"{_NUMEROUS}::test_a_request_names_no_more_partitions_by_number_than_it_may",
        "src/highwater/broker/k61_describe_producers.py",
        "API = Api(61, (0, 0), DescribeProducersRequest, most_elements=MANY_ELEMENTS, refuse=_refused)",
        "API = Api(61, (0, 0), DescribeProducersRequest, most_elements=20 * MANY_ELEMENTS, refuse=_refused)",
    ),
    Mutation(
        "F961",
        f"{_NUMEROUS}::test_thousands_of_partitions_may_get_their_replicas_in_one_request",
        "src/highwater/active_controller/k45_alter_partition_reassignments.py",
        "most_elements=NUMEROUS_ELEMENTS,",
        "most_elements=NUMEROUS_ELEMENTS // 2,",
    ),
    Mutation(
        "F962",
        f"{_TERMINAL}::test_a_node_stops_in_order_when_its_terminal_is_closed",
        "src/highwater/cli/stop_signals.py",
        "return {signal.SIGTERM, signal.SIGINT} | terminal",
        "return {signal.SIGTERM, signal.SIGINT}",
    ),
    Mutation(
        "F962",
        f"{_TERMINAL}::test_a_cluster_that_nohup_started_outlives_its_terminal",
        "src/highwater/cli/stop_signals.py",
        "terminal = set() if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else {signal.SIGHUP}",
        "terminal = {signal.SIGHUP}",
    ),
    Mutation(
        "F962",
        f"{_TERMINAL}::test_up_stops_its_nodes_in_order_when_its_terminal_is_closed",
        "src/highwater/cli/up.py",
        "with contextlib.suppress(OSError):",
        "with contextlib.suppress(ValueError):",
    ),
    Mutation(
        "F962",
        f"{_TERMINAL}::test_a_console_ends_in_order_when_its_terminal_is_closed",
        "src/highwater/cli/console.py",
        "if signal.SIGHUP in stop_signals():",
        "if False:",
    ),
    Mutation(
        "F963",
        f"{_SOCKET}::test_an_order_that_cannot_be_read_is_refused_with_one_line",
        _CONTROL,
        "except (ValueError, RecursionError) as wrong:",
        "except ValueError as wrong:",
    ),
    Mutation(
        "F963",
        f"{_SOCKET}::test_an_order_that_fails_is_refused_and_ends_nothing",
        _CONTROL,
        "except Exception as failed:  # noqa: BLE001 the boundary between one order and the whole cluster",
        "except ValueError as failed:",
    ),
    Mutation(
        "F963",
        f"{_SOCKET}::test_peers_that_say_nothing_do_not_keep_others_from_giving_orders",
        _CONTROL,
        'self._refuse(next(iter(self._open)), "too many connections wait, and this one sent no order")',
        "connection.close()\ncontinue",
    ),
    Mutation(
        "F963",
        f"{_SOCKET}::test_a_peer_that_sends_no_order_is_refused_after_a_while_even_if_it_sends_blanks",
        _CONTROL,
        "if time.monotonic() - since > ORDER_SECONDS:",
        "if False:",
    ),
    Mutation(
        "F963",
        f"{_SOCKET}::test_a_line_without_an_end_is_refused_once_it_is_too_long",
        _CONTROL,
        "elif len(heard) > MOST_BYTES:",
        "elif False:",
    ),
    Mutation(
        "F963",
        f"{_SOCKET}::test_an_order_with_fields_that_cannot_be_meant_is_refused",
        _ORDERS,
        "if process in named:",
        "if False:",
    ),
    Mutation(
        "F963",
        f"{_SOCKET}::test_a_full_disk_keeps_nodes_json_as_it_was_and_ends_no_cluster",
        "src/highwater/cli/local_cluster.py",
        "with contextlib.suppress(OSError):",
        "with contextlib.suppress(ValueError):",
    ),
    Mutation(
        "F964",
        f"{_DESCRIBE}::test_wanted_settings_are_described_as_among_all_and_no_other_is_looked_at",
        "src/highwater/config/describe.py",
        "shown = {name for name in wanted or SETTINGS if name in SETTINGS and not SETTINGS[name].internal}",
        "shown = {name for name in SETTINGS if not SETTINGS[name].internal}",
    ),
    Mutation(
        "F964",
        f"{_DESCRIBE}::test_wanted_settings_are_described_as_among_all_and_no_other_is_looked_at",
        "src/highwater/config/describe.py",
        "if not names:",
        "if False:",
    ),
    Mutation(
        "F965",
        f"{_TERMINAL}::test_signals_that_are_repeated_change_nothing_about_the_end_of_a_node",
        "src/highwater/cli/node.py",
        "signal.signal(number, signal.SIG_IGN)  # all is done: one that is repeated must not make another end of it",
        "signal.signal(number, signal.SIG_DFL)",
    ),
    Mutation(
        "F966",
        "tests/unit/config/test_node.py::test_a_setting_that_cannot_work_is_refused_at_start_by_name",
        "src/highwater/config/relations.py",
        "for each in _WAITS_OF_VOTERS:",
        "for each in ():",
    ),
    Mutation(
        "F967",
        "tests/unit/broker/test_limits.py::test_connections_max_idle_ms_of_minus_one_closes_no_connection",
        "src/highwater/node.py",
        "idle_seconds=idle / 1000 if idle >= 0 else math.inf,",
        "idle_seconds=max(idle, 1000) / 1000,",
    ),
    Mutation(
        "F967",
        "tests/unit/net/test_server.py::test_an_idle_time_of_nothing_leaves_a_moment_for_a_request_and_time_for_others",
        "src/highwater/net/server.py",
        "return min(max(self.limits.idle_seconds / 10, SHORTEST_SWEEP_SECONDS), STALL_SECONDS / 2)",
        "return min(self.limits.idle_seconds / 10 or 0.001, STALL_SECONDS / 2)",
    ),
    Mutation(
        "F968",
        "tests/unit/broker/test_upkeep.py::test_an_interval_of_next_to_nothing_leaves_time_for_everything_else",
        "src/highwater/broker/upkeep.py",
        "seconds = max(ms / 1000, SHORTEST_SECONDS)",
        "seconds = ms / 1000",
    ),
    Mutation(
        "F968",
        "tests/unit/broker/test_upkeep.py::test_an_interval_of_next_to_nothing_leaves_time_for_everything_else",
        "src/highwater/world/periodic.py",
        "self._timer = self._world.clock.call_later(max(seconds, SHORTEST_SECONDS), self._turn)",
        "self._timer = self._world.clock.call_later(seconds, self._turn)",
    ),
]
