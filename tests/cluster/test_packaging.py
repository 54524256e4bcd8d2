"""The container, the compose file, the GitHub Action and the wheel: what they run is run here, without an engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from highwater.cli import main
from highwater.cli.node_process import Handle
from highwater.client import Admin, Client, NewTopic
from highwater.config.node import SETTINGS
from tests.apache import free_ports

ROOT = Path(__file__).parents[2]
LAUNCH = ROOT / "docker" / "launch.py"
SECONDS = 120
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("HIGHWATER_", "KAFKA_"))}
DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
NEEDED = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")


def compose() -> dict[str, Any]:
    service: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["kafka"]
    return service


@contextmanager
def launched(tmp_path: Path, environment: Mapping[str, str], shared: str = "") -> Iterator[None]:
    (tmp_path / "shared").mkdir(exist_ok=True)
    if shared:
        (tmp_path / "shared" / "server.properties").write_text(shared)
    process = subprocess.Popen(
        [sys.executable, str(LAUNCH), str(tmp_path / "shared"), str(tmp_path / "work")],
        env=CLEAN | environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert any(line.startswith("ready node=") for line in process.stdout), "it ended before it was ready"
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
        assert process.returncode == 0


def test_a_container_s_node_takes_its_settings_from_the_variables_of_apache_s_image(tmp_path: Path) -> None:
    """The variables of the compose file, at other ports and in another directory. It is started twice: as the second
    start of a container, that one finds the directory formatted."""
    host, services, controller = free_ports(3)
    ports = {"19092": services, "9092": host, "9093": controller}
    environment = {
        name: re.sub(r":(\d{4,5})\b", lambda found: f":{ports[found[1]]}", str(value).replace("kafka:", "127.0.0.1:"))
        for name, value in compose()["environment"].items()
    }
    environment["KAFKA_LOG_DIRS"] = str(tmp_path / "data")
    environment["CLUSTER_ID"] = "MkU3OEVBNTcwNTJENDM2Qk"
    for round_ in range(2):
        with launched(tmp_path, environment), Client(f"127.0.0.1:{host}") as client:
            assert Admin(client).describe_cluster().cluster_id == "MkU3OEVBNTcwNTJENDM2Qk"
            if round_ == 0:
                Admin(client).create_topics([NewTopic("kept")])
            assert "kept" in Admin(client).list_topics()


def test_a_container_s_node_takes_a_file_and_variables_win(tmp_path: Path) -> None:
    client_port, controller = free_ports(2)
    shared = (ROOT / "docker" / "server.properties").read_text().replace("9093", str(controller))
    shared = shared.replace("/var/lib/kafka/data", str(tmp_path / "data")).replace(":9092", ":1")
    environment = {
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{controller}",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{controller}",
    }
    with launched(tmp_path, environment, shared), Client(f"127.0.0.1:{client_port}") as client:
        assert Admin(client).describe_cluster().cluster_id == "5L6g3nShT-eMCtK--X86sw"


def test_every_setting_of_the_image_and_of_the_compose_file_exists() -> None:
    lines = (ROOT / "docker" / "server.properties").read_text().splitlines()
    named = {line.partition("=")[0] for line in lines if not line.startswith("#")}
    named |= {name.removeprefix("KAFKA_").lower().replace("_", ".") for name in compose()["environment"]}
    assert not named - set(SETTINGS)
    assert compose()["ports"] == ["9092:9092"] and "EXPOSE 9092" in DOCKERFILE


def test_the_dockerfile_copies_what_is_there_and_runs_what_it_copied() -> None:
    instructions = [line.split() for line in DOCKERFILE.splitlines() if line and not line.startswith("#")]
    assert {words[0] for words in instructions} <= {"FROM", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "VOLUME", "CMD"}
    copied = [words[1:-1] for words in instructions if words[0] == "COPY" and not words[1].startswith("--from")]
    sources = [source for each in copied for source in each]
    assert {"src", *NEEDED, "docker/launch.py", "docker/server.properties"} == set(sources)
    kept = {line.strip("!/") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert {source.partition("/")[0] for source in sources} == kept
    [run] = [json.loads(line.partition(" ")[2]) for line in DOCKERFILE.splitlines() if line.startswith("CMD")]
    assert run == ["python", "/opt/highwater/launch.py"]
    assert "COPY docker/launch.py docker/server.properties /opt/highwater/" in DOCKERFILE
    volumes = [json.loads(line.partition(" ")[2]) for line in DOCKERFILE.splitlines() if line.startswith("VOLUME")]
    assert [volume.partition(":")[2] for volume in compose()["volumes"]] == [volumes[0][0]]


def test_the_health_check_of_the_compose_file_is_a_command_that_exists() -> None:
    kind, tool, *arguments = compose()["healthcheck"]["test"]
    assert (kind, tool) == ("CMD", "highwater")
    command = main.get_command(click.Context(main), arguments[0])
    assert command is not None
    command.make_context(arguments[0], arguments[1:])


def action_steps() -> list[dict[str, Any]]:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    steps: list[dict[str, Any]] = action["runs"]["steps"]
    named = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert named == set(action["inputs"])
    assert all(step["shell"] == "bash" and step["run"] for step in steps)
    return steps


def test_the_action_starts_a_cluster_and_tells_its_address(tmp_path: Path) -> None:
    install, start = action_steps()
    assert install["run"] == 'python -m pip install "$GITHUB_ACTION_PATH"'
    environment = CLEAN | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path), "GITHUB_ENV": str(tmp_path / "env"), "GITHUB_OUTPUT": str(tmp_path / "output"),
        "BROKERS": "1", "PORT": str(free_ports(1)[0]),
    }  # fmt: skip
    bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", start["run"]]
    done = subprocess.run(bash, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    handle = Handle(int((tmp_path / "highwater" / "up.pid").read_text()))
    try:
        servers = f"127.0.0.1:{environment['PORT']}"
        assert (tmp_path / "env").read_text() == f"HIGHWATER_BOOTSTRAP={servers}\n"
        assert (tmp_path / "output").read_text() == f"bootstrap-servers={servers}\n"
        with Client(servers) as client:
            assert Admin(client).list_topics() == {}
    finally:
        handle.signal(signal.SIGTERM)
        assert handle.wait(SECONDS)
        handle.close()
    taken = subprocess.run(
        bash, env=environment | {"BROKERS": "none"}, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert taken.returncode == 1 and "'none' is not a valid integer" in taken.stderr


def declared_by(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    return [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]


def with_their_needs(waiting: list[str]) -> set[str]:
    """The distributions that these requirements name without extras, and those that they need."""
    found: set[str] = set()
    while waiting:
        wanted = Requirement(waiting.pop())
        name = canonicalize_name(wanted.name)  # one asks for typing_extensions, another for typing-extensions
        if name not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            found.add(name)
            waiting += metadata.requires(name) or ()
    return found


def build_wheel(folder: Path) -> Path:
    source = folder / "source"
    ignored = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    for name in NEEDED:
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    built = subprocess.run(build, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("highwater-*.whl")
    return wheel


def fresh_environment(folder: Path, wheel: Path, *beside: str) -> Path:
    """With the wheel, what it declares, and what is named beside it, and no others: they are linked from here, since a
    test downloads nothing."""
    venv.create(folder, with_pip=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in with_their_needs([*declared_by(wheel), *beside]):
        for file in metadata.files(name) or ():
            target = packages / file
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(file.locate())
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "-q", "--no-index", str(wheel)]
    installed = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    return folder


def first_example() -> str:
    """The test on README's first screen."""
    return (ROOT / "README.md").read_text().partition("```python\n# test_orders.py\n")[2].partition("```")[0]


FIRST_HOUR = """
highwater up --brokers 1 --port "$PORT" >up.out &
up=$!
trap 'kill -TERM $up; wait $up' EXIT
until grep -q '^ready ' up.out; do kill -0 $up; done
highwater topics create orders --partitions 3
echo hello | highwater console-producer --topic orders
highwater console-consumer --topic orders --from-beginning --max-messages 1
highwater status --topic orders >status.txt
python -m pytest -q test_orders.py >pytest.txt
highwater --version
trap - EXIT
highwater down
wait $up
"""


@pytest.mark.slow
def test_the_first_hour_goes_well_with_a_wheel_in_a_fresh_environment(tmp_path: Path) -> None:
    fresh = fresh_environment(tmp_path / "fresh", build_wheel(tmp_path), "pytest", "confluent-kafka")
    (tmp_path / "test_orders.py").write_text(first_example())
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-m", "-c", FIRST_HOUR], cwd=tmp_path, capture_output=True, text=True,
        env={"PATH": f"{fresh / 'bin'}:/usr/bin:/bin", "PORT": str(free_ports(1)[0])}, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[:2] == ["Created topic orders.", "hello"]
    assert "kernel: cython (compiled)" in done.stdout
    assert done.stdout.splitlines()[-1] == "stopped"
    assert "orders" in (tmp_path / "status.txt").read_text()
    assert "1 passed" in (tmp_path / "pytest.txt").read_text()
