"""Faults that reviews proved: the web console."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_LATENCY = "tests/unit/broker/test_latency.py"
_ODD = "tests/unit/console/test_odd_requests.py"
_DISCOVERY = "tests/unit/console/test_discovery.py"

MUTATIONS: list[Mutation] = [
    Mutation(
        "F942",
        f"{_DISCOVERY}::test_a_cluster_that_was_started_on_other_ports_is_found_by_nodes_json[True-topics0]",
        "src/highwater/console/cluster_reader.py",
        "if self._follows and found.servers and self.clients.follow(found.servers):",
        "if False:",
    ),
    Mutation(
        "F942",
        f"{_DISCOVERY}::test_a_client_of_servers_that_were_left_tries_no_longer_and_is_not_lent_again",
        "src/highwater/console/clients.py",
        "if len(self._idle) < IDLE_KEPT and servers == self.bootstrap:",
        "if len(self._idle) < IDLE_KEPT:",
    ),
    Mutation(
        "F942",
        f"{_DISCOVERY}::test_a_broker_that_is_silent_where_it_served_status_is_asked_again_and_found_elsewhere",
        "src/highwater/console/discovery.py",
        "told = {node for node in before.told if node not in silent} if is_same else set()",
        "told = set(before.told) if is_same else set()",
    ),
    Mutation(
        "F942",
        f"{_DISCOVERY}::test_a_cluster_whose_brokers_could_not_be_asked_at_first_is_not_taken_for_apache_kafka",
        "src/highwater/console/discovery.py",
        "except (KafkaError, ClientFailure):\ncontinue",
        "except (KafkaError, ClientFailure):\n    found = None",
    ),
    Mutation(
        "F943",
        f"{_ODD}::test_a_field_that_is_unknown_or_of_another_kind_is_refused[/api/move/start]",
        "src/highwater/console/given.py",
        "if not fields[name].is_met(given):",
        "if False:",
    ),
    Mutation(
        "F943",
        f"{_ODD}::test_a_parameter_that_is_unknown_doubled_or_endless_is_refused",
        "src/highwater/console/given.py",
        "if name in seen:",
        "if False:",
    ),
    Mutation(
        "F943",
        f"{_ODD}::test_a_field_that_is_unknown_or_of_another_kind_is_refused[/api/topics/orders/records]",
        "src/highwater/console/given.py",
        "json.dumps(found, ensure_ascii=False).encode()",
        "pass",
    ),
    Mutation(
        "F943",
        f"{_ODD}::test_a_topic_whose_name_cannot_be_is_refused[oders]",
        "src/highwater/console/requests.py",
        "first = list(islice(records, 1))",
        "first = islice(records, 1)",
    ),
    Mutation(
        "F944",
        f"{_LATENCY}::test_a_fetch_that_waits_for_records_is_counted_from_the_moment_they_are_there",
        "src/highwater/broker/waiting_fetch.py",
        "if not self._locating:\nself._since = None",
        "pass",
    ),
    Mutation(
        "F944",
        f"{_LATENCY}::test_the_time_in_which_a_position_is_looked_up_on_disk_counts",
        "src/highwater/broker/waiting_fetch.py",
        "if not self._locating:\nself._since = None",
        "self._since = None",
    ),
    Mutation(
        "F944",
        "tests/unit/console/test_latency.py::test_only_the_last_minute_counts",
        "src/highwater/console/latency.py",
        "readings.popleft()",
        "break",
    ),
    Mutation(
        "F945",
        f"{_DISCOVERY}::test_what_is_asked_again_soon_is_given_up_soon",
        "src/highwater/console/clients.py",
        "self._open = self._clients.new(ROUND_TIMEOUT)",
        "self._open = self._clients.new()",
    ),
    Mutation(
        "F946",
        "tests/unit/console/test_poller.py::test_a_view_that_cannot_be_drawn_once_is_drawn_again_by_the_next_round",
        "src/highwater/console/poller.py",
        "except Exception as mistake:  # noqa: BLE001 - a mistake in one picture must not end all later ones",
        "except ZeroDivisionError as mistake:",
    ),
    Mutation(
        "F946",
        "tests/unit/console/test_recordings.py::test_a_recording_that_goes_while_it_is_listed_is_no_error",
        "src/highwater/console/recordings.py",
        "except OSError:\nreturn None",
        "except ZeroDivisionError:\n    return None",
    ),
    Mutation(
        "F987",
        "tests/unit/console/test_commands.py"
        "::test_the_tool_sets_what_the_page_set_also_where_it_has_a_comma[compact,delete]",
        "src/highwater/console/commands.py",
        'addition = f"{name}=[{value}]" if "," in value else f"{name}={value}"',
        'addition = f"{name}={value}"',
    ),
]
