"""The console that `up` and the demo run beside their nodes: a process of its own, which starts when all are ready."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from highwater.cluster.ports import HOST
from highwater.console.listening import DEFAULT_PORT, PortTaken, address, listening

OFF: Final = "off"
TOKEN_VARIABLE: Final = "HIGHWATER_CONSOLE_TOKEN"
HELP_CHANGES: Final = "Let the pages change things: produce, settings, offsets of groups, leaders and replicas."
HELP_FAULTS: Final = "Let the pages kill, pause, cut and slow nodes of `highwater up`."
HELP_RECORDINGS: Final = "A folder with recordings of `highwater lab run --record`, to replay."
NEEDED: Final = ("starlette", "uvicorn")
LOG: Final = "console.log"
PORT_VARIABLE: Final = "HIGHWATER_CONSOLE_PORT"


class _Port(click.ParamType):  # type: ignore[type-arg]
    name = "port|off"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == OFF or isinstance(value, int):
            return value  # type: ignore[no-any-return]
        if not str(value).isdecimal() or int(value) > 65535:
            self.fail(f"{value} is neither a port nor {OFF}", param, ctx)
        return int(value)


def console_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--console-port",
        type=_Port(),
        envvar=PORT_VARIABLE,
        help=f"The port of the web console, or {OFF}. Without it: {DEFAULT_PORT}, or the next free one.",
    )(function)


class ConsoleProcess:
    """Ends with the process that started it, however that one ends."""

    def __init__(self, port: int | str | None, data_dir: Path, *options: str) -> None:
        """Raises PortTaken if this port was asked for and cannot be had."""
        self._port = port
        self._data_dir = data_dir
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.log = data_dir / LOG
        if isinstance(port, int):
            listening(HOST, port).close()

    def start(self, bootstrap: str, lock: Path) -> str | None:
        """Returns the address, with its token. A browser that opens it at once waits for the process. None if it is
        off. Raises PortTaken, or OSError if the process cannot start."""
        if self._port == OFF:
            return None
        missing = [name for name in NEEDED if find_spec(name) is None]
        if missing:
            raise OSError(f"the package {missing[0]} is not installed")
        from highwater.console.access import new_token  # only now, since nodes are forked from this process

        token = os.environ.get(TOKEN_VARIABLE) or new_token()
        with listening(HOST, self._port if isinstance(self._port, int) else None) as on, self.log.open("ab") as log:
            command = [sys.executable, "-m", "highwater", "console", "--socket", str(on.fileno())]
            command += ["--data-dir", str(self._data_dir), "--bootstrap-server", bootstrap]
            self._process = subprocess.Popen(
                [*command, "--while-locked", str(lock), *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(on.fileno(),),
                env=os.environ | {TOKEN_VARIABLE: token},
                start_new_session=True,
            )
            return address(HOST, on.getsockname()[1], "", token)

    def announce(self, bootstrap: str, lock: Path, say: Callable[[str], None], complain: Callable[[str], None]) -> None:
        """Starts it, and prints its address. A console that cannot start is no reason to end the cluster, unless its
        port was asked for: then it raises PortTaken."""
        try:
            found = self.start(bootstrap, lock)
        except PortTaken:
            if isinstance(self._port, int):
                raise
            complain("no console: no port is free")
        except OSError as failed:
            complain(f"no console: {failed.strerror or failed}")
        else:
            if found is not None:
                say(f"console {found}")

    def news(self) -> str | None:
        """One line if it has ended by itself, once."""
        if self._process is None or self._process.poll() is None:
            return None
        code, self._process = self._process.returncode, None
        return f"the console has ended (exit code {code}); its log is {self.log}"

    def stop(self) -> None:
        """At once: the console keeps nothing. `up` blocks SIGTERM, and a child inherits that."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
