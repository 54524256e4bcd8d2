"""`highwater node`: one node in the foreground, as `kafka-server-start.sh` runs one."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from threading import RLock
from types import FrameType

import click

from highwater import kernel
from highwater.broker.lifecycle import NotRegistered
from highwater.cli.server_properties import read_config
from highwater.cli.steering import Steered
from highwater.cli.stop_signals import let_through, stop_signals
from highwater.cluster.garbage import leave_what_is_there
from highwater.cluster.holder import holder_of_port, named
from highwater.cluster.lock import when_released
from highwater.config import ConfigError, NodeConfig
from highwater.config.names import near
from highwater.node import Node, NotStarted
from highwater.wire import compression
from highwater.world import AlreadyLocked
from highwater.world.descriptors import raise_limit
from highwater.world.real import RealWorld, new_event_loop

LAST_SECONDS = 20.0
"""The longest shutdown of a node that no process waits for."""
RECOVERS_SECONDS = 1.0
_log = logging.getLogger("highwater")


def run_node(
    config: NodeConfig, ready: Callable[[Node], None], recovers: Callable[[], None], steered: Steered | None = None
) -> int:
    """Runs the node until SIGTERM, SIGINT or SIGHUP, which shut it down in order. Returns 1 if it could not start or
    failed. `recovers` is called again and again while its logs are opened."""
    for name in config.unknown:
        meant = near(name)
        _log.warning("unknown setting %s is ignored%s", name, f"; did you mean {meant}?" if meant else "")
    raise_limit()
    _log.log(logging.INFO if kernel.IMPLEMENTATION == "cython" else logging.WARNING, "kernel: %s", kernel.DESCRIPTION)
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(_live(config, ready, recovers, steered))
    finally:
        for number in stop_signals():
            signal.signal(number, signal.SIG_IGN)  # all is done: one that is repeated must not make another end of it
        loop.close()


async def _live(
    config: NodeConfig, ready: Callable[[Node], None], recovers: Callable[[], None], steered: Steered | None
) -> int:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[BaseException | None] = loop.create_future()

    woken = asyncio.Event()

    def end(why: BaseException | None = None) -> None:
        if not ended.done():
            ended.set_result(why)

    def stop(number: int, frame: FrameType | None) -> None:
        if not ended.done():
            loop.call_soon_threadsafe(end)

    for number in stop_signals():  # a handler of the loop would be taken away by its close, before the process ends
        signal.signal(number, stop)
    compression.ALONE = RLock()
    world = RealWorld(loop, lambda name, failed: end(failed))
    if steered is not None:
        steered.install(world, loop)

    nodes: list[Node] = []

    async def start() -> None:
        node = await Node.open(world, config, end, recovers)
        nodes.append(node)
        await node.start()

    starting = loop.create_task(start())
    starting.add_done_callback(lambda _: woken.set())
    ended.add_done_callback(lambda _: woken.set())
    await woken.wait()
    if not starting.done():
        starting.cancel()
        await asyncio.wait([starting])
        why = ended.result()
    elif (why := starting.exception()) is None:
        leave_what_is_there()
        ready(nodes[0])
        why = await ended
    if why is None or is_expected(why):
        for node in nodes:  # a node that has not started also marks its logs as closed
            await node.stop()
        world.close()
    return exit_code(why)


def exit_code(why: BaseException | None) -> int:
    if why is None:
        return 0
    _log.critical("the node stops: %s%s", why, _holder(why), exc_info=None if is_expected(why) else why)
    return 1


def is_expected(why: BaseException) -> bool:
    """Whether the cause is outside of this node."""
    if isinstance(why, OSError):
        return isinstance(why, AlreadyLocked) or why.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)
    return isinstance(why, ConfigError | NotRegistered | NotStarted)


def _holder(why: BaseException) -> str:
    """The process that has the node's listener address. asyncio gives it only as text."""
    if not isinstance(why, OSError) or why.errno != errno.EADDRINUSE:
        return ""
    address = re.search(r"', (\d+)", str(why))
    holder = None if address is None else holder_of_port(int(address[1]))
    by = "" if holder is None else f" by {named(holder)}"
    return f"{by}: end that process, or give another port in listeners"


class News(Enum):
    RECOVERS = b"."
    READY = b"+"
    ENDED = b""


class Readiness:
    """The reading end of a pipe. A forked node writes to it while it recovers and when it is ready. It can be
    selected."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def fileno(self) -> int:
        return self._pipe

    def news(self) -> News:
        """Waits for the next news. If it is not that the node recovers, no more news follow."""
        news = News(os.read(self._pipe, 1))
        if news is not News.RECOVERS:
            self.close()
        return news

    def close(self) -> None:
        os.close(self._pipe)


def fork_node(
    path: Path, pid_file: Path, output: Path, cluster_lock: Path, let_go: Callable[[], None], steered: Steered
) -> tuple[int, Readiness]:
    """Starts a node in a fork of this process, which has imported everything, so the node is ready at once. `let_go` is
    called in the fork, for what belongs to this process only."""
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()
    pid = os.fork()
    if pid:
        os.close(write_end)
        return pid, Readiness(read_end)
    code = 1
    try:
        os.close(read_end)
        os.setsid()
        let_go()
        for number in stop_signals():
            signal.signal(number, signal.SIG_DFL)
        let_through()
        _log_to(output)
        if when_released(cluster_lock, _end_with_the_cluster):
            news = NewsSender(write_end)
            code = serve(path, (), pid_file, lambda node: news.ready(), {}, news.recovers, steered)
        else:
            _log.warning("the process that ran the cluster has ended before this node began: it does not begin")
    finally:
        logging.shutdown()
        os._exit(code)


class NewsSender:
    """The writing end of that pipe, in the node."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._sent_at = 0.0

    def ready(self) -> None:
        self._send(News.READY)

    def recovers(self) -> None:
        """Reports at most once in a second: a pipe that is never read would be full some day."""
        now = time.monotonic()
        if now - self._sent_at >= RECOVERS_SECONDS:
            self._sent_at = now
            self._send(News.RECOVERS)

    def _send(self, news: News) -> None:
        with contextlib.suppress(BrokenPipeError):  # no process waits for a node that was started again
            os.write(self._pipe, news.value)


def _end_with_the_cluster() -> None:
    _log.warning("the process that ran the cluster has ended without stopping this node: it stops by itself")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LAST_SECONDS)
    os._exit(1)


def serve(
    path: Path,
    overrides: tuple[str, ...],
    pid_file: Path | None,
    ready: Callable[[Node], None],
    environment: Mapping[str, str],
    recovers: Callable[[], None] = lambda: None,
    steered: Steered | None = None,
) -> int:
    try:
        config = read_config(path, overrides, environment)
    except ConfigError as wrong:
        _log.critical("%s", wrong)
        return 1
    if pid_file is not None:
        aside = pid_file.with_suffix(".tmp")
        aside.write_text(str(os.getpid()))
        aside.replace(pid_file)
    return run_node(config, ready, recovers, steered)


def _log_to(output: Path | None) -> None:
    """Logs to a file, with the state changes in state-change.log beside it; or everything to standard error."""
    layout = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
    logging.basicConfig(level=logging.INFO, format=layout, filename=output, force=True)
    if output is not None:
        changes = logging.FileHandler(output.with_name("state-change.log"))
        changes.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(message)s"))
        state_change_log = logging.getLogger("highwater.state_change")
        state_change_log.addHandler(changes)
        state_change_log.propagate = False
        log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)


@click.command("node")
@click.option("--config", "path", required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="The node's server.properties.")  # fmt: skip
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="A setting over the file's.")
@click.option("--no-environment", is_flag=True, help="Pass over KAFKA_ variables, as the nodes of `up` do.")
@click.option("--pid-file", type=click.Path(path_type=Path), help="Where to write this process's id.")
@click.option("--log-file", type=click.Path(path_type=Path), help="Where to log, instead of standard error.")
@click.option("--while-locked", "cluster_lock", type=click.Path(path_type=Path), metavar="FILE",
              help="Stop when the holder of the lock on this file has ended, as for the nodes of `up`.")  # fmt: skip
@click.option("--steered-by", "steered_by", type=int, hidden=True)
def command(
    path: Path,
    overrides: tuple[str, ...],
    no_environment: bool,
    pid_file: Path | None,
    log_file: Path | None,
    cluster_lock: Path | None,
    steered_by: int | None,
) -> None:
    """Run one node in the foreground until SIGTERM or Ctrl-C, which stop it in order. So does a closed terminal, unless
    the node was started by nohup.

    Its directory must be formatted (highwater storage format). Environment variables that begin with KAFKA_ override
    the file as in Kafka's own image: KAFKA_LOG_RETENTION_MS is log.retention.ms.
    """
    _log_to(log_file)
    if cluster_lock is not None and cluster_lock.exists():
        when_released(cluster_lock, _end_with_the_cluster)

    def ready(node: Node) -> None:
        at = ",".join(f"{name}://{endpoint}" for name, endpoint in sorted(node.server.endpoints.items()))
        click.echo(f"ready node={node.config.node_id} listeners={at}")

    steered = None if steered_by is None else Steered.inherited(steered_by)
    environment = {} if no_environment else os.environ
    sys.exit(serve(path, overrides, pid_file, ready, environment, steered=steered))
