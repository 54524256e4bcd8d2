"""The examples of the guide, pasted and run: the fixtures under `pytest -n 2`, the others as scripts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "testing.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
NAMED = re.compile(r"# (test_\w+\.py)\n")

# Installed, the package registers the plugin by itself; a bare checkout has to name it.
PLUGIN = [] if entry_points(group="pytest11", name="highwater") else ["-p", "highwater.pytest_plugin"]


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(GUIDE.read_text()) if kind == language]


SCRIPTS = [text for text in blocks("python") if not NAMED.match(text)]


def run(*arguments: str, at: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT / "src"), environment.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, *arguments], cwd=at, env=environment, capture_output=True, text=True, timeout=200
    )


def pytest_in(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run("-m", "pytest", *PLUGIN, "-p", "no:cacheprovider", "-W", "error", *arguments, at=directory)


def test_the_example_of_the_readme_passes(tmp_path: Path) -> None:
    (example,) = (text for kind, text in BLOCK.findall((ROOT / "README.md").read_text()) if NAMED.match(text))
    (tmp_path / "test_orders.py").write_text(example)
    ran = pytest_in(tmp_path, "-q")
    assert ran.returncode == 0 and "1 passed" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.parametrize("ini", ["", "highwater_processes = true"], ids=["threads", "processes"])
def test_the_pasted_tests_pass_with_two_workers(tmp_path: Path, ini: str) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = --strict-markers\n{ini}\n")
    pasted = {match[1]: text for text in blocks("python") if (match := NAMED.match(text))}
    for name, text in pasted.items():
        (tmp_path / name).write_text(text)
    ran = pytest_in(tmp_path, "-n", "2", "-q")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(pasted) == 3 and "3 passed" in ran.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=range(len(SCRIPTS)))
def test_the_pasted_scripts_run(tmp_path: Path, script: str) -> None:
    (tmp_path / "script.py").write_text(script)
    ran = run("-W", "error", "script.py", at=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_guide_has_the_scripts_that_are_run() -> None:
    assert len(SCRIPTS) == 3


def test_the_ini_of_the_guide_shapes_the_cluster(tmp_path: Path) -> None:
    [ini] = blocks("ini")
    (tmp_path / "pytest.ini").write_text(ini)
    (tmp_path / "test_shape.py").write_text(
        "def test_shape(kafka_cluster, kafka_topic):\n"
        "    assert kafka_cluster.brokers == [1]\n"
        "    assert kafka_cluster.isr(kafka_topic, 0) == {1}\n"
        "    settings = (kafka_cluster.log_dir(1).parent / 'server.properties').read_text()\n"
        "    assert 'auto.create.topics.enable=false' in settings.replace(' ', '')\n"
    )
    ran = pytest_in(tmp_path, "-q")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("line", ["highwater_brokers = zero", "highwater_brokers = 0", "highwater_controllers = -1"])
def test_a_wrong_number_of_nodes_is_reported_with_its_option(tmp_path: Path, line: str) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{line}\n")
    (tmp_path / "test_it.py").write_text("def test_it(kafka_cluster): pass\n")
    ran = pytest_in(tmp_path, "-q")
    option, _, value = line.split()
    assert ran.returncode == 1
    assert f"{option} is {value!r}: it must be a whole number of at least " in ran.stdout


CHECKS = """
import pytest
from confluent_kafka import Producer

def test_a_record_deleted_behind_its_back_is_lost(kafka_cluster, kafka_topic, durability_check):
    from highwater.client import delete_records
    from highwater.model import TopicPartition
    durability_check.send("a")
    durability_check.send(b"b")
    with kafka_cluster.client() as client:
        delete_records(client, {TopicPartition(kafka_topic, 0): 1})
    with pytest.raises(AssertionError, match="did not keep what it acknowledged"):
        durability_check.verify()
    assert [sent.value for sent in durability_check.judge().lost] == [b"a"]

def test_a_value_is_sent_once(durability_check):
    durability_check.send("a")
    with pytest.raises(ValueError, match="sent before"):
        durability_check.send("a")
    assert durability_check.verify().acked == 1

def test_a_refused_send_is_an_outcome(kafka_cluster, durability_check):
    kafka_cluster.fail("Produce", "INVALID_RECORD").once()
    assert durability_check.send().outcome.value == "failed"
    assert durability_check.send().offset == 0
    assert durability_check.verify().counts["acked"] == 1
    assert len(durability_check.producer_history) == 2

def test_a_check_that_saw_nothing_proves_nothing(kafka_cluster, kafka_topic, durability_check):
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    producer.produce(kafka_topic, b"without on_delivery")
    assert producer.flush(60) == 0
    with pytest.raises(AssertionError, match="nothing was sent to .* that the check knows of"):
        durability_check.verify()

@pytest.mark.kafka_topic(partition=2)
@pytest.mark.xfail(raises=pytest.UsageError, strict=True)
def test_a_mistyped_shape(kafka_topic):
    pass

def test_a_foreign_record_is_found(kafka_cluster, kafka_topic, durability_check):
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    producer.produce(kafka_topic, b"seen", on_delivery=durability_check.on_delivery)
    producer.produce(kafka_topic, b"not announced")
    assert producer.flush(60) == 0
    assert [value for _, _, value in durability_check.judge().foreign] == [b"not announced"]

def test_a_test_that_leaves_faults_behind(kafka_cluster, kafka_topic):
    kafka_cluster.kill(2)
    kafka_cluster.pause(1)
    kafka_cluster.cut(1, 3)

def test_finds_the_cluster_whole(kafka_cluster, kafka_topic):
    assert [kafka_cluster.state(node) for node in kafka_cluster.nodes] == ["up"] * 3
    kafka_cluster.wait_for_isr(kafka_topic, 0, 3)
"""


def test_the_durability_check_finds_what_is_wrong_and_faults_end_with_their_test(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    (tmp_path / "test_checks.py").write_text(CHECKS)
    ran = pytest_in(tmp_path, "-q")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "7 passed, 1 xfailed" in ran.stdout


def test_importing_the_package_loads_no_cluster(tmp_path: Path) -> None:
    looked = "import sys, highwater, highwater.pytest_plugin; print([m for m in sys.modules if 'highwater.c' in m])"
    assert run("-c", looked, at=tmp_path).stdout.strip() == "[]"
    ran = run("-c", "from highwater import Cluster; print(Cluster.__module__)", at=tmp_path)
    assert ran.stdout.strip() == "highwater.cluster.cluster"
