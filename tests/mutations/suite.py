"""Faults that reviews proved: a run of the tests that one flaky test of thousands makes red."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

RUN = "tests/second_run.py"
TESTS = "tests/tidy/test_second_run.py"

MUTATIONS: list[Mutation] = [
    Mutation(
        "F38",
        f"{TESTS}::test_two_flaky_tests_are_forgiven_and_three_are_not",
        RUN,
        "if len(flaky) > FLAKY_AT_MOST:",
        "if False:",
    ),
    Mutation(
        "F38",
        f"{TESTS}::test_a_crashed_worker_fails_the_run_wherever_it_crashed",
        RUN,
        'has_phase = report.when in ("setup", "call", "teardown")',
        "has_phase = True",
    ),
    Mutation(
        "F38",
        f"{TESTS}::test_a_failure_elsewhere_has_no_second_run_and_is_not_forgiven",
        RUN,
        "if is_on_real_processes(report):",
        "if True:",
    ),
    Mutation(
        "F38",
        f"{TESTS}::test_a_test_that_always_fails_fails_the_run",
        RUN,
        "return 1 if broken else 0",
        "return 0",
    ),
]
