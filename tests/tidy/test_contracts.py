"""The import contracts name every package that they should: import-linter cannot name what does not exist yet."""

from __future__ import annotations

import re
from typing import Any

from tests.tidy.repository import OUTSIDE_A_NODE, PACKAGE, named, node_files, project

PURE = {"audit", "controller", "effects", "groups", "metadata", "quorum", "replication", "transactions"}


MACHINES = {"groups", "transactions"}
"""What the coordinator runs."""


def contract(name: str) -> dict[str, Any]:
    [found] = [each for each in project()["tool"]["importlinter"]["contracts"] if each["name"] == name]
    return dict(found)


def existing() -> set[str]:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return folders | {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")}


def short(names: list[str]) -> set[str]:
    return {name.removeprefix("highwater.") for name in names}


def layers() -> list[set[str]]:
    return [set(re.findall(r"\w+", line)) for line in contract("Imports point one way")["layers"]]


def test_the_client_is_kept_from_everything_between_it_and_the_wire() -> None:
    order = layers()
    [top] = [index for index, layer in enumerate(order) if "client" in layer]
    [bottom] = [index for index, layer in enumerate(order) if "wire" in layer]
    between = set().union(*order[top + 1 : bottom])
    forbidden = short(contract("The client stands on the wire alone")["forbidden_modules"])
    assert forbidden == between & existing()


def test_the_pipeline_works_with_any_kafka_since_it_knows_nothing_of_a_node() -> None:
    forbidden = short(contract("The pipeline stands on the client")["forbidden_modules"])
    assert existing() - forbidden == {"pipeline", "client", "wire", "kernel", "audit", "config", "errors", "model"}


def test_the_console_works_with_any_kafka_since_it_knows_nothing_of_a_node() -> None:
    forbidden = short(contract("The console stands on the client")["forbidden_modules"])
    assert existing() - forbidden == {"console", "client", "wire", "kernel", "audit", "config", "errors", "model"}


def test_every_pure_package_is_held_to_purity() -> None:
    assert short(contract("Decisions are pure")["source_modules"]) == PURE & existing()


def test_broker_and_controller_are_strangers_on_both_sides() -> None:
    broker = contract("Broker and controller are strangers: the broker's side")
    controller = contract("Broker and controller are strangers: the controller's side")
    assert short(broker["source_modules"]) == {"broker", "coordinator", "partition"} & existing()
    assert short(controller["source_modules"]) == {"active_controller", "raft_node", "storage"} & existing()
    assert short(controller["forbidden_modules"]) == {"broker", "coordinator", "partition"} & existing()


def test_the_coordinator_knows_none_of_its_machines() -> None:
    kept = contract("The coordinator runs any machine")
    assert short(kept["forbidden_modules"]) == MACHINES & existing()
    naming = [path.name for path in (PACKAGE / "coordinator").glob("*.py") if "group" in path.read_text().lower()]
    assert not naming


def test_nothing_of_a_node_reaches_through_to_the_files_of_the_metadata_log() -> None:
    """The quorum's view of the log has a method for whatever is asked of it; `files` is for those who judge a node."""
    through = re.compile(r"^(?!.*\bimport\b).*(\.log\.log\b|\braft\.files\b)", re.MULTILINE)
    assert [named(path) for path in node_files() if through.search(path.read_text())] == []


def test_everything_a_node_is_made_of_is_kept_from_spark_arrow_and_the_web_framework() -> None:
    kept = contract("A node needs neither Spark nor Arrow nor a web framework")
    assert short(kept["source_modules"]) == existing() - set(OUTSIDE_A_NODE)
    connectors = {path.parent.name for path in PACKAGE.parent.glob("pyspark_*/__init__.py")}
    assert {"pyarrow", "pyspark", "starlette", "uvicorn"} | connectors <= set(kept["forbidden_modules"])


def test_nothing_a_node_is_made_of_may_import_the_pipeline() -> None:
    order = layers()
    [pipeline] = [index for index, layer in enumerate(order) if "pipeline" in layer]
    [node] = [index for index, layer in enumerate(order) if "node" in layer]
    assert pipeline < node
