"""Faults that reviews proved: a cluster's directory, the processes of its nodes, and who is a voter."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_LAYOUT = "tests/unit/cluster/test_layout.py"
_UP = "tests/cluster/test_up.py"

MUTATIONS: list[Mutation] = [
    Mutation(
        "F5",
        "tests/unit/cli/test_up.py::test_a_node_that_recovers_its_logs_has_all_the_time_that_it_needs",
        "src/highwater/cli/local_cluster.py",
        "heard[pipe] = now()",
        "now()",
    ),
    Mutation(
        "F5",
        f"{_LAYOUT}::test_voters_keep_their_ports_though_a_power_cut_emptied_their_settings",
        "src/highwater/cluster/layout.py",
        "wanted = last.get(_CONTROLLER, 0) if recorded is None else recorded.port",
        "wanted = last.get(_CONTROLLER, 0)",
    ),
    Mutation(
        "F5",
        f"{_UP}::test_all_that_is_written_before_ready_is_synced_with_its_name",
        "src/highwater/storage/format.py",
        "disk.sync_dir(path.parent)",
        "pass",
    ),
    Mutation(
        "F23",
        f"{_UP}::test_a_storm_of_signals_leaves_no_node_running",
        "src/highwater/cli/stop_signals.py",
        "self._before = signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)",
        "self._before = signal.pthread_sigmask(signal.SIG_BLOCK, ())",
    ),
    Mutation(
        "F23",
        f"{_UP}::test_up_signals_no_stranger_whose_pid_stands_in_a_file",
        "src/highwater/cli/node_process.py",
        "if has_open(pid, self._member.log_dir / LOCK) and handle.is_alive:",
        "if handle.is_alive:",
    ),
    Mutation(
        "F31",
        f"{_UP}::test_a_second_up_on_a_live_directory_changes_nothing",
        "src/highwater/cluster/lock.py",
        "fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
    ),
    Mutation(
        "F31",
        f"{_UP}::test_nodes_end_when_their_up_is_killed_also_those_that_were_started_again",
        "src/highwater/cluster/lock.py",
        'threading.Thread(target=_wait, args=(fd, act), name="cluster-lock", daemon=True).start()',
        "os.close(fd)",
    ),
    Mutation(
        "F32",
        f"{_LAYOUT}::test_a_directory_cannot_grow_to_more_voters",
        "src/highwater/cluster/record.py",
        "if self.voters is not None and set(self.voters.ids) != set(voters):",
        "if self.voters is not None and False:",
    ),
    Mutation(
        "F32",
        f"{_LAYOUT}::test_a_voter_that_lost_its_directory_comes_back_without_its_vote",
        "src/highwater/cluster/layout.py",
        "has_lost_its_voter=has_run,",
        "has_lost_its_voter=False,",
    ),
    Mutation(
        "F32",
        "tests/unit/quorum/test_epochs.py::test_the_only_voter_follows_and_elects_no_other",
        "src/highwater/quorum/answer_head.py",
        "return core.voters.is_only_voter(core.local)",
        "return False",
    ),
    Mutation(
        "F36",
        "tests/cluster/test_cluster.py::test_a_cluster_that_was_not_closed_is_gone_with_its_process",
        "src/highwater/cluster/cluster.py",
        "atexit.register(self._close_at_exit, os.getpid())",
        "pass",
    ),
    Mutation(
        "F36",
        "tests/unit/cli/test_status.py::test_a_watch_goes_on_with_a_cluster_that_was_started_again",
        "src/highwater/cli/status.py",
        "with contextlib.suppress(click.ClickException):\naddresses = again()",
        "pass",
    ),
    Mutation(
        "F36",
        "tests/unit/cli/test_status.py::test_a_quorum_is_lost_when_too_many_of_those_asked_are_silent",
        "src/highwater/cli/status_quorum.py",
        "return bool(self.voters) and len(self.voters) - len(self.silent) - len(self.lost) < self.needed",
        "return False",
    ),
    Mutation(
        "F36",
        "tests/cluster/test_disk_faults.py::"
        "test_status_and_the_console_producer_report_a_full_disk_and_the_producer_goes_on_when_there_is_room",
        "src/highwater/client/client.py",
        "self.on_delay(failure, time.monotonic() - begun)",
        "pass",
    ),
    Mutation(
        "F35",
        "tests/unit/cli/test_up.py::test_variables_of_clients_and_of_single_nodes_mean_nothing_to_a_cluster",
        "src/highwater/cli/environment.py",
        "if name in OF_EACH_NODE:",
        "if False:",
    ),
    Mutation(
        "F35",
        "tests/unit/cli/test_up.py::test_a_variable_of_a_client_is_never_taken_for_a_misspelt_setting",
        "src/highwater/cli/environment.py",
        "MISSPELT = 0.92",
        "MISSPELT = 0.8",
    ),
    Mutation(
        "F32",
        "tests/unit/cluster/test_layout.py::test_a_broker_is_neither_added_to_a_directory_that_has_run_nor_left_out",
        "src/highwater/cluster/record.py",
        "if self.has_run and new:",
        "if False:",
    ),
    Mutation(
        "F35",
        "tests/unit/cluster/test_layout.py::test_a_misspelt_setting_is_refused_with_the_one_that_may_be_meant",
        "src/highwater/cluster/layout.py",
        "check_known(config)",
        "pass",
    ),
    Mutation(
        "F294",
        f"{_LAYOUT}::test_a_voter_that_lost_its_directory_counts_as_lost_at_every_later_start",
        "src/highwater/cluster/record.py",
        "return [key.id for key in keys if not any(map(key.names, found))]",
        "return [key.id for key in keys if key.id not in self.metas]",
    ),
    Mutation(
        "F295",
        "tests/unit/cli/test_status.py::test_a_voter_that_lost_its_directory_is_not_one_that_answers",
        "src/highwater/cli/status_quorum.py",
        "return bool(self.voters) and len(self.voters) - len(self.silent) - len(self.lost) < self.needed",
        "return bool(self.voters) and len(self.voters) - len(self.silent) < self.needed",
    ),
    Mutation(
        "F296",
        "tests/unit/cli/test_complaints.py::test_a_server_that_does_not_answer_is_reported",
        "src/highwater/client/connection.py",
        "sock.settimeout(min(remaining, DELAY_SECONDS))",
        "sock.settimeout(remaining)",
    ),
    Mutation(
        "F297",
        "tests/unit/cli/test_console.py::test_lines_typed_before_ctrl_c_are_sent_without_a_message",
        "src/highwater/cli/line_reader.py",
        "if end in ready:",
        "if False:",
    ),
    Mutation(
        "F298",
        "tests/unit/cli/test_complaints.py::test_a_full_disk_is_named_by_every_tool_that_waits_for_it",
        "src/highwater/client/leaders.py",
        "client.on_delay(failed, time.monotonic() - begun)",
        "pass",
    ),
    Mutation(
        "F672",  # a bulk sender whose batches are refused is silent until its time is up
        "tests/unit/client/test_batch_sender.py::test_a_refusal_is_reported_with_how_long_nothing_was_stored",
        "src/highwater/client/batch_sender.py",
        "self.client.on_delay(failure, now - lane.waits_since)",
        "pass",
    ),
    Mutation(
        "F673",  # Ctrl-C prints a word of its own, and ends with the exit code of a failure
        "tests/unit/cli/test_lab.py::test_q_and_ctrl_c_end_it_before_the_next_picture",
        "src/highwater/cli/command_group.py",
        "sys.exit(EXIT_CODE)",
        "raise",
    ),
    Mutation(
        "F674",  # a misspelt setting of a topic is refused without a word on the one that is meant
        "tests/unit/cli/test_output.py::test_a_name_that_is_nearly_right_is_suggested_on_stderr",
        "src/highwater/cli/topics.py",
        "suggest_setting(configs, TOPIC_SETTINGS)",
        "pass",
    ),
    Mutation(
        "F677",  # the console of an `up` that was killed right after its start stays for ever, and keeps its port
        "tests/unit/cli/test_console_process.py::"
        "test_it_ends_at_once_if_its_up_was_killed_before_it_could_look[its lock is free]",
        "src/highwater/cli/console.py",
        "is_over.set()",
        "pass",
    ),
    Mutation(
        "F678",  # a node that is cut off from the controller is shown as active, though it is fenced
        "tests/unit/cli/test_top.py::test_a_node_that_the_controller_has_fenced_is_fenced_whatever_it_takes_itself_for",
        "src/highwater/cli/status_tables.py",
        "if address.node in unawares:",
        "if False:",
    ),
    Mutation(
        "F676",  # a node that was killed is not seen as dead as long as `up` has not taken its exit code
        "tests/unit/cli/test_silent_nodes.py::test_a_dead_node_is_told_with_the_command_that_starts_it",
        "src/highwater/cli/steering.py",
        'return _state(pid) in (b"", b"Z", b"X")',
        'return _state(pid) == b""',
    ),
    Mutation(
        "F675",  # an address with a protocol, as Kafka's clients take it, becomes a host that does not exist
        "tests/unit/client/test_client.py::test_bootstrap_servers_are_read",
        "src/highwater/client/client.py",
        'host, colon, port = _PROTOCOL.sub("", text).rpartition(":")',
        'host, colon, port = text.rpartition(":")',
    ),
]
