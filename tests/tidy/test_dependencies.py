"""What an install may bring is what was tested."""

from __future__ import annotations

import re

import pytest
from packaging.requirements import Requirement

from tests.tidy.repository import ROOT, project

TABLES = {
    requirement.name: requirement
    for requirement in map(Requirement, project()["project"]["optional-dependencies"]["spark"])
    if requirement.name in ("deltalake", "pyarrow", "pyiceberg", "pyspark")
}


def locked(name: str) -> str:
    found = re.search(rf"^{name}(?:\[.*\])?==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("name", ["deltalake", "pyarrow", "pyiceberg", "pyspark"])
def test_the_libraries_of_tables_have_bounds_and_the_tests_run_within_them(name: str) -> None:
    allowed = TABLES[name].specifier
    assert {each.operator for each in allowed} == {">=", "<"}
    assert locked(name) in allowed


def test_the_project_says_what_it_is() -> None:
    declared = project()["project"]
    assert declared["keywords"] and declared["license"] == "Apache-2.0"
    assert "Programming Language :: Python :: 3.11" in declared["classifiers"]
    assert not [each for each in declared["classifiers"] if each.startswith("License ::")], "the license says it"
