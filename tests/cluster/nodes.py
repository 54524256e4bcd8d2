"""A node of ours in a process of its own, laid out on disk as the harness lays out Apache Kafka's."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.apache import CLUSTER_ID, free_ports
from tests.heeding import heed_signals


class Node:
    """What `highwater node` makes of a server.properties; its directory has been formatted."""

    def __init__(self, config: Path) -> None:
        self.config = config
        lines = (line.partition("=") for line in config.read_text().splitlines())
        self.properties = {key: value for key, _, value in lines}
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def fresh(cls, directory: Path, properties: Mapping[str, str] | None = None) -> Node:
        """A new node with an empty, formatted directory and free ports."""
        home = directory / "node-1"
        home.mkdir(parents=True)
        config = home / "server.properties"
        settings = {**default_properties(home / "data", *free_ports(2)), **(properties or {})}
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        run("storage", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(config))
        return cls(config)

    @property
    def port(self) -> int:
        return self.port_of("PLAINTEXT")

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_dir(self) -> Path:
        return Path(self.properties["log.dirs"])

    @property
    def output(self) -> str:
        """What the process logged, over all its lives."""
        return self._output_file.read_text()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def _output_file(self) -> Path:
        return self.config.with_name("highwater.txt")

    def port_of(self, listener: str) -> int:
        listeners = (each.partition("://") for each in self.properties["listeners"].split(","))
        return next(int(at.rpartition(":")[2]) for name, _, at in listeners if name == listener)

    def start(self, ulimit: str = "") -> Node:
        """Returns when the node says that it is ready. `ulimit`: the limits of the shell that starts it."""
        command = [sys.executable, "-m", "highwater", "node", "--config", str(self.config)]
        if ulimit:
            command = ["sh", "-c", f'ulimit {ulimit} && exec "$@"', "sh", *command]
        if setpriv := shutil.which("setpriv"):
            # A test run that is killed must not leave nodes behind.
            command = [setpriv, "--pdeathsig", "KILL", *command]
        with self._output_file.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=self.config.parent,
                preexec_fn=heed_signals,
            )
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith(b"ready "):
            self.kill()
            raise RuntimeError(f"the node did not start: {self.output[-3000:]}")
        return self

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """A controlled shutdown; gives the exit code."""
        return self._end(how)

    def ends_after(self, *signals: signal.Signals) -> bool:
        """Sends them, and says whether it has ended. `stop` gives the exit code then."""
        assert self._process is not None
        for each in signals:
            self._process.send_signal(each)
        return self._process.poll() is not None

    def kill(self) -> None:
        """As by a power cut, but for the page cache."""
        self._end(signal.SIGKILL)

    def restart(self) -> Node:
        """Killed with -9, and started again."""
        self.kill()
        return self.start()

    def _end(self, how: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(how)
        try:
            return process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()


def default_properties(log_dir: Path, client: int, controller: int) -> dict[str, str]:
    """As in Kafka's own example of a combined node."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "log.dirs": str(log_dir),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }


def run(*arguments: str) -> str:
    """One of our own commands, to its end; gives what it printed."""
    command = [sys.executable, "-m", "highwater", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} failed: {done.stderr}{done.stdout}")
    return done.stdout


def wait_until(condition: Callable[[], object], seconds: float = 120) -> None:
    """A change is answered when it is committed, and seen by clients once the broker has applied it, a moment later."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)
