"""The systems under test: Highwater and Apache Kafka, started the same way and asked the same questions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from bench import processes
from bench.gauge import Gauge
from highwater.client import Admin, Client, ClientFailure, NewTopic
from highwater.cluster.ports import free_ports
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition
from tests.apache import CLUSTER_ID, ApacheKafka, classpath_file, run_tool

PATIENCE = 90.0
POLL = 0.005
JVM_OPTIONS = (
    "-server -Xms1G -Xmx1G -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35"
    " -XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true"
)
"""Those of Kafka's own start script."""


class System(ABC):
    """A cluster on the loopback interface, with its data in a directory of its own."""

    name: str
    bootstrap: str

    def __init__(self, directory: Path, nodes: int, properties: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.nodes = nodes
        self.properties = dict(properties or {})
        self._topics = 0

    def start(self) -> float:
        """Seconds until a topic of full replication could be made."""
        self.prepare()
        begin = time.perf_counter()
        self.launch()
        self._await_topic(time.monotonic() + PATIENCE)
        return time.perf_counter() - begin

    def prepare(self) -> None:  # noqa: B027 most systems need nothing
        """What a user does once, before the first start: it is not timed."""

    @abstractmethod
    def launch(self) -> None:
        """Start the processes, and return at once."""

    @abstractmethod
    def pids(self) -> list[int]: ...

    @abstractmethod
    def log_dirs(self) -> list[Path]: ...

    @abstractmethod
    def stop(self) -> None:
        """In order."""

    @abstractmethod
    def kill(self) -> None:
        """With -9; the data stays."""

    @abstractmethod
    def kill_node(self, node: int) -> None:
        """One of them, with -9; the others go on."""

    @abstractmethod
    def words(self) -> str:
        """What it said last: for when it did not start."""

    def cpu_seconds(self) -> float:
        return processes.cpu_seconds(self.pids())

    def memory(self) -> int:
        return processes.memory(self.pids())

    def take_lag(self) -> float | None:
        """The loop's worst lag since the last call, in seconds, where there is a loop that tells."""
        return None

    def create_topic(self, partitions: int, configs: Mapping[str, str] | None = None) -> str:
        self._topics += 1
        name = f"bench-{os.getpid()}-{self._topics}"
        replicas = min(self.nodes, 3)
        settings = {"min.insync.replicas": str(min(2, replicas)), "file.delete.delay.ms": "1000", **(configs or {})}
        with Client(self.bootstrap) as client:
            Admin(client).create_topics([NewTopic(name, partitions, replicas, configs=settings)])
            for index in range(partitions):
                client.retrying(partial(client.leader, TopicPartition(name, index)), await_topic=True)
        return name

    def delete_topic(self, name: str) -> None:
        with Client(self.bootstrap) as client:
            Admin(client).delete_topics([name])

    @property
    def deletes(self) -> bool:
        """Whether a deleted topic still has its files, and they their place in memory."""
        return any(True for home in self.log_dirs() for _ in home.glob("*-delete"))

    def _await_topic(self, deadline: float) -> None:
        topic = NewTopic(f"ready-{time.monotonic_ns()}", 1, min(self.nodes, 3))
        while True:
            try:
                with Client(self.bootstrap, timeout=2, request_timeout=2) as client:
                    Admin(client).create_topics([topic])
                    return
            except (KafkaError, ClientFailure) as failed:
                if isinstance(failed, KafkaError) and failed.code is Code.TOPIC_ALREADY_EXISTS:
                    return  # made by a request whose answer was not waited for
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} did not start: {failed}\n{self.words()}") from failed
            time.sleep(POLL)


class Highwater(System):
    """`highwater up`, as a user starts it; with `measured`, its nodes tell about their loops."""

    name = "Highwater"

    def __init__(
        self,
        directory: Path,
        nodes: int,
        properties: Mapping[str, str] | None = None,
        *,
        measured: bool = True,
        stalls: bool = False,
        tree: Path | None = None,
    ) -> None:
        super().__init__(directory, nodes, properties)
        self._python = sys.executable if tree is None else str(tree / ".venv/bin/python")
        self.port = free_ports(nodes)
        self.bootstrap = ",".join(f"127.0.0.1:{self.port + index}" for index in range(nodes))
        self._measured = measured
        self._stalls = stalls
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self.gauges = [Gauge(directory / f"node-{node}.gauge") for node in range(1, nodes + 1)] if measured else []

    @property
    def _has_console(self) -> bool:
        """An older tree has no console and refuses its option."""
        words = subprocess.run(
            [self._python, "-m", "highwater", "up", "--help"], capture_output=True, text=True, check=True
        )
        return "--console-port" in words.stdout

    def launch(self) -> None:
        program = [str(Path(__file__).with_name("measured.py"))] if self._measured else ["-m", "highwater"]
        settings = [part for key, value in self.properties.items() for part in ("--set", f"{key}={value}")]
        up = ["up", "--brokers", str(self.nodes), "--port", str(self.port), "--data-dir", str(self.directory)]
        if self._has_console:
            up += ["--console-port", "off"]
        environment = {**os.environ, "HIGHWATER_BENCH_GAUGES": str(self.directory)}
        if self._stalls:
            environment["HIGHWATER_BENCH_STALLS"] = "1"
        with (self.directory / "up.txt").open("ab") as output:
            self._process = subprocess.Popen(
                [self._python, *program, *up, *settings],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
            )

    def pids(self) -> list[int]:
        return [] if self._process is None else processes.tree(self._process.pid)

    def log_dirs(self) -> list[Path]:
        return [self.directory / f"node-{node}" / "data" for node in range(1, self.nodes + 1)]

    def take_lag(self) -> float | None:
        return max((gauge.take() for gauge in self.gauges), default=None)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE)
            self._process = None

    def kill(self) -> None:
        pids = self.pids()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait(PATIENCE)
            self._process = None
        deadline = time.monotonic() + PATIENCE
        while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
            time.sleep(POLL)

    def kill_node(self, node: int) -> None:
        nodes = json.loads((self.directory / "nodes.json").read_text())["nodes"]
        os.kill(next(each["pid"] for each in nodes if each["id"] == node), signal.SIGKILL)

    @property
    def http(self) -> str:
        """Where the first node serves its status and metrics."""
        found: str = json.loads((self.directory / "nodes.json").read_text())["nodes"][0]["http"]
        return found

    def words(self) -> str:
        logs = [self.directory / "up.txt", *self.directory.glob("node-*/node.log")]
        return "\n".join(log.read_text()[-3000:] for log in logs)

    def profile(self, wanted: bool) -> list[Path]:
        """Switch the nodes' profilers; when they go off, where the profiles are."""
        for gauge in self.gauges:
            gauge.profile_dumped = False
            gauge.profile_wanted = wanted
        deadline = time.monotonic() + 5
        while not wanted and not all(gauge.profile_dumped for gauge in self.gauges) and time.monotonic() < deadline:
            time.sleep(POLL)
        time.sleep(0.05)
        return [] if wanted else sorted(self.directory.glob("node-*.pstats"))


class Apache(System):
    """Apache Kafka on a JVM with the options of its own start script."""

    name = "Apache Kafka"

    def __init__(
        self,
        directory: Path,
        nodes: int,
        properties: Mapping[str, str] | None = None,
        *,
        jvm_options: str = JVM_OPTIONS,
    ) -> None:
        super().__init__(directory, nodes, properties)
        self._kafka = _Kafka(directory, nodes, self.properties)
        self._kafka.options = jvm_options.split()
        self.bootstrap = self._kafka.bootstrap

    def prepare(self) -> None:
        self._kafka.prepare()

    def launch(self) -> None:
        self._kafka.launch()

    def pids(self) -> list[int]:
        return [pid for process in self._kafka.running() for pid in processes.tree(process.pid)]

    def log_dirs(self) -> list[Path]:
        return [self._kafka.log_dir_of(node) for node in range(1, self.nodes + 1)]

    def stop(self) -> None:
        self._kafka.stop()

    def kill(self) -> None:
        self._kafka.kill()

    def kill_node(self, node: int) -> None:
        self._kafka.kill_node(node)

    def words(self) -> str:
        return self._kafka._last_words()


class _Kafka(ApacheKafka):
    """The harness of the tests, with formatting apart from starting and a JVM of one's choice."""

    options: Sequence[str] = ()

    def prepare(self) -> None:
        quorum = ["--standalone"] if self.nodes == 1 else []
        for node in range(1, self.nodes + 1):
            config = self.config_of(node)
            if config.exists():
                continue
            config.parent.mkdir(parents=True)
            config.write_text("".join(f"{key}={value}\n" for key, value in self._server_properties(node).items()))
            done = run_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config), *quorum)
            if done.rc != 0:
                raise RuntimeError(f"Apache Kafka could not be formatted: {done.stderr}{done.stdout}")

    def launch(self) -> None:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        java = ["java", *self.options, quiet, "-cp", classpath_file().read_text().strip(), "kafka.Kafka"]
        for node in range(1, self.nodes + 1):
            config = self.config_of(node)
            with config.with_name("output.txt").open("ab") as output:
                self._processes[node] = subprocess.Popen(
                    [*java, str(config)], stdin=subprocess.DEVNULL, stdout=output, stderr=output
                )

    def running(self) -> list[subprocess.Popen[bytes]]:
        return list(self._processes.values())

    def kill_node(self, node: int) -> None:
        self._processes[node].kill()
