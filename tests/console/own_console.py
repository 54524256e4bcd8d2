"""A console of its own process, for any cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_console(bootstrap: str | None, *options: str) -> Iterator[str]:
    """Its address. Without servers, the options name the cluster."""
    command = [sys.executable, "-m", "highwater", "console", "--port", "0", *options]
    command += [] if bootstrap is None else ["--bootstrap-server", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().partition(" ")[2].strip()
        finally:
            process.terminate()
            process.wait(60)
