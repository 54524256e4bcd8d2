"""Apache Kafka itself, as a peer for tests: its brokers, its tools, its classes."""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from highwater.cluster.ports import HOST, OWN_PORTS

ROOT = Path(__file__).parents[1]
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
"""No JVM of a test lives long enough to earn back what its second compiler takes of two processors. Without that
compiler Java reserves 48 MiB for compiled code. The Spark session of the tests needs more, and a JVM that has no room
left for it throws a VirtualMachineError, on which Spark ends it."""
START_SECONDS = 240.0
"""For a JVM to come up, or several at once: a few seconds on a quiet machine."""
TOOL_HOST = Path(__file__).with_name("ToolHost.java")
COMPILED_TOOL_HOST = ROOT / ".apache/classes/ToolHost.class"


class Call(NamedTuple):
    """One run of a tool, by its main class."""

    main: str
    args: Sequence[str]
    input: str = ""


class Ran(NamedTuple):
    """What a program left behind."""

    stdout: str
    stderr: str
    rc: int


def why_unavailable() -> str | None:
    """What is missing to run Apache Kafka, or None."""
    if not classpath_file().is_file():
        return "Apache Kafka's jars are not there: run `make setup`"
    if shutil.which("java") is None:
        return "no java on the PATH: run `make setup`"
    return None


def classpath_file() -> Path:
    return Path(os.environ.get("HIGHWATER_KAFKA_CLASSPATH", ROOT / ".apache/classpath.txt"))


def java(*jvm_options: str) -> list[str]:
    """The beginning of a command line; a main class or a source file and its arguments follow."""
    log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", "-XX:+UseSerialGC", log, *jvm_options, "-cp", classpath_file().read_text().strip()]


def archive_of(jvms: str) -> Path:
    """Where tests/class_archives.py has put the classes of such JVMs: "spark", "broker" or "tools"."""
    return ROOT / f".apache/{jvms}.jsa"


def quick_start(jvms: str) -> list[str]:
    """Options of JVMs for a test. One that finds the archive made by another Java says so on its output, if it may."""
    archive = archive_of(jvms)
    return [*QUICK_START, *([f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"] if archive.is_file() else [])]


def bound_to_this_process(command: list[str]) -> list[str]:
    """A test run that is killed must not leave JVMs behind."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", *command] if setpriv else command


def run_tool(main: str, *args: str, input: str | None = None, timeout: float = START_SECONDS) -> Ran:
    """Runs one of Kafka's tools by its main class, or a single-file Java program by its path, to its end."""
    command = [*java("-Xmx256m", *quick_start("tools")), main, *args]
    done = subprocess.run(command, input=input, capture_output=True, text=True, check=False, timeout=timeout)
    return Ran(done.stdout, done.stderr, done.returncode)


class ToolHost:
    """A JVM in which tools run one after the other, as if each had one of its own."""

    def __init__(self, *jvm_options: str) -> None:
        command = self._command(java("-Xmx256m", *(jvm_options or quick_start("tools"))))
        self._process = subprocess.Popen(
            bound_to_this_process(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.stays = True
        """For further calls."""

    def _command(self, java: list[str]) -> list[str]:
        """Compiled anew by each JVM, unless tests/class_archives.py has done it."""
        compiled = COMPILED_TOOL_HOST
        if not compiled.is_file() or compiled.stat().st_mtime < TOOL_HOST.stat().st_mtime:
            return [*java, str(TOOL_HOST)]
        *options, classpath = java
        return [*options, f"{classpath}{os.pathsep}{compiled.parent}", compiled.stem]

    def run(self, calls: Sequence[Call], timeout: float = START_SECONDS) -> list[Ran]:
        """The limit is for all of them, and for the JVM's start; it only says that something hangs."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        self.stays = False
        process.stdin.write(json.dumps([call._asdict() for call in calls]) + "\n")
        process.stdin.flush()
        # It answers in one piece.
        if not select.select([process.stdout], [], [], timeout)[0]:
            raise TimeoutError(f"not within {timeout:g} s: {calls}")
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the tools' host has ended; its last words are on stderr")
        answer = json.loads(line)
        self.stays = answer["stays"]
        if not self.stays:
            process.wait(timeout)
        return [Ran(result["stdout"], result["stderr"], result["rc"]) for result in answer["results"]]

    def end(self, timeout: float) -> None:
        """In order, as the options of the JVM may ask for something at its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout)

    def close(self) -> None:
        self._process.kill()
        with self._process:  # waits, and closes the pipes
            pass


_hosts: list[ToolHost] = []


def run_tools(calls: Sequence[Call]) -> list[Ran]:
    """Runs several of Kafka's tools, in a JVM that stays for the next ones."""
    if not _hosts:
        _hosts.append(ToolHost())
    try:
        return _hosts[0].run(calls)
    finally:
        if not _hosts[0].stays:
            end_tool_host()


def end_tool_host() -> None:
    while _hosts:
        _hosts.pop().close()


class ApacheKafka:
    """One combined node, or several with a fixed quorum, on free ports of the loopback interface."""

    def __init__(
        self,
        directory: Path,
        nodes: int = 1,
        properties: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        jvm_options: Sequence[str] = (),
        listeners: Mapping[str, str] | None = None,
        format_options: Sequence[str] = (),
    ) -> None:
        """`listeners`: further ones of a single node, by name and security protocol."""
        self.directory = directory
        self.nodes = nodes
        self.protocols = dict(listeners or {})
        self._format_options = format_options
        self.properties = dict(properties or {})
        self.features = dict(features or {})
        self._jvm_options = jvm_options or quick_start("broker")
        ports = free_ports(2 * nodes + len(self.protocols))
        self.ports, self._controller_ports = ports[:nodes], ports[nodes : 2 * nodes]
        self.listener_ports = dict(zip(self.protocols, ports[2 * nodes :], strict=True))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    @property
    def log_dir(self) -> Path:
        """The data directory of the first node."""
        return self.log_dir_of(1)

    def log_dir_of(self, node: int) -> Path:
        return self.directory / f"node-{node}" / "data"

    def config_of(self, node: int) -> Path:
        return self.directory / f"node-{node}" / "server.properties"

    def start(self) -> ApacheKafka:
        """Formats what is not formatted yet, starts all nodes and waits until every broker serves."""
        for node in range(1, self.nodes + 1):
            self.start_node(node)
        self.wait_until_ready()
        return self

    def start_node(self, node: int) -> None:
        config = self.config_of(node)
        if not config.exists():
            config.parent.mkdir(parents=True)
            config.write_text("".join(f"{key}={value}\n" for key, value in self._server_properties(node).items()))
            options = ["--standalone"] if self.nodes == 1 else []
            options += [f"--feature={name}={level}" for name, level in self.features.items()]
            options += self._format_options
            format_it = Call("kafka.tools.StorageTool", ["format", "-t", CLUSTER_ID, "-c", str(config), *options])
            (done,) = run_tools([format_it])
            if done.rc != 0:
                raise RuntimeError(f"Apache Kafka could not be formatted: {done.stderr}{done.stdout}")
        command = bound_to_this_process([*java("-Xmx512m", *self._jvm_options), "kafka.Kafka", str(config)])
        with config.with_name("output.txt").open("ab") as output:
            self._processes[node] = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    def wait_until_ready(self, timeout: float = START_SECONDS) -> None:
        deadline = time.monotonic() + timeout
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while not self._all_brokers_seen_by(admin):
            dead = [node for node, process in self._processes.items() if process.poll() is not None]
            if dead or time.monotonic() > deadline:
                raise RuntimeError(f"Apache Kafka did not start (dead nodes: {dead}): {self._last_words()}")
            time.sleep(0.1)

    def _all_brokers_seen_by(self, admin: AdminClient) -> bool:
        try:
            return len(admin.list_topics(timeout=5).brokers) == self.nodes
        except KafkaException:
            return False

    def stop(self, timeout: float = 120) -> None:
        """A controlled shutdown of every node, which leaves clean-shutdown files; killed if it takes longer."""
        self._end(signal.SIGTERM, timeout)

    def kill(self) -> None:
        """As by a power cut, but for the page cache."""
        self._end(signal.SIGKILL)

    def kill_node(self, node: int) -> None:
        """The same for one of them; `start_node` brings it back."""
        process = self._processes.pop(node)
        process.kill()
        process.wait()

    def _end(self, how: signal.Signals, timeout: float = 120) -> None:
        for process in self._processes.values():
            process.send_signal(how)
        for process in self._processes.values():
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def _last_words(self) -> str:
        return "".join(
            f"\nnode {node}:\n{self.config_of(node).with_name('output.txt').read_text()[-3000:]}"
            for node in range(1, self.nodes + 1)
        )

    def _server_properties(self, node: int) -> dict[str, str]:
        client, controller = self.ports[node - 1], self._controller_ports[node - 1]
        voters = ",".join(f"{id}@127.0.0.1:{port}" for id, port in enumerate(self._controller_ports, start=1))
        replicas, quorum = str(min(3, self.nodes)), str(min(2, self.nodes))
        return {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "listeners": ",".join(
                f"{name}://127.0.0.1:{port}"
                for name, port in {"PLAINTEXT": client, "CONTROLLER": controller, **self.listener_ports}.items()
            ),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}"
                for name, protocol in {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT", **self.protocols}.items()
            ),
            **(
                {"controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}"}
                if self.nodes == 1
                else {"controller.quorum.voters": voters}
            ),
            "log.dirs": str(self.log_dir_of(node)),
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": quorum,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": quorum,
            "group.initial.rebalance.delay.ms": "0",
            **self.properties,
        }


_PORTS = range(10_000, OWN_PORTS.start)
"""None of those that a cluster may draw by itself."""
_SHARE = len(_PORTS) // 8
_given = itertools.count(SystemRandom().randrange(_SHARE))
"""From somewhere in the share on: runs at the same time, as of several people on one machine, have the same ones."""


def free_ports(count: int) -> list[int]:
    """In a row, free now, given to nobody else: each worker of a parallel run has its share, and goes through it."""
    first = _PORTS[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 8 * _SHARE]
    found: list[int] = []
    while len(found) < count:
        port = first + next(_given) % _SHARE
        if found and port != found[-1] + 1:
            found = []
        try:
            with socket.socket() as probe:
                probe.bind((HOST, port))
        except OSError:
            found = []
        else:
            found.append(port)
    return found
