"""Every scenario of the groups A to E has its test and the mutation that the test must notice, or waits."""

from __future__ import annotations

import re

from tests.mutations.table import FAULT_MUTATIONS, MUTATIONS, SCENARIO_MUTATIONS, SCENARIOS, WAITING
from tests.tidy.repository import ROOT

WAITS = ["A20", "B9", "C5", "C10", "E5", "E6", "E7", "E8", "E9", "E11", "E13"]
"""Those that later steps build."""


def test_every_scenario_is_tested_or_waits_with_a_reason() -> None:
    tested = {mutation.scenario for mutation in SCENARIO_MUTATIONS}
    assert [waiting.scenario for waiting in WAITING if waiting.reason] == WAITS
    assert [name for name in SCENARIOS if (name in tested) is (name in WAITS)] == []


def test_the_test_of_a_scenario_bears_its_name() -> None:
    for mutation in SCENARIO_MUTATIONS:
        assert mutation.test.split("::")[1].startswith(f"test_{mutation.scenario.lower()}_"), mutation.test
    for mutation in FAULT_MUTATIONS:
        assert re.fullmatch(r"F\d+", mutation.scenario), mutation


def test_every_mutation_names_a_test_and_a_line_that_are_there() -> None:
    for mutation in MUTATIONS:
        path, name = re.sub(r"\[.*", "", mutation.test).split("::")
        assert f"def {name}(" in (ROOT / path).read_text(), mutation.test
        for each in (mutation, *mutation.also):
            source = (ROOT / each.file).read_text()
            assert each.applied_to(source) != source
