"""The log directory of a node: it is locked by this process, and its meta.properties names this node."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import PurePath
from typing import NamedTuple

from highwater.config import ConfigError, NodeConfig
from highwater.log import names
from highwater.log.meta_properties import MetaProperties, read_meta_properties
from highwater.model import Uuid
from highwater.world import Disk, Step, World
from highwater.world.jobs import finished


class Home(NamedTuple):
    directory: PurePath
    cluster_id: str
    directory_id: Uuid
    release: Callable[[], None]
    """Releases the lock."""


async def open_home(world: World, config: NodeConfig) -> Home:
    """Locks the directory and reads its meta.properties. Raises ConfigError if it belongs to another node, and
    AlreadyLocked if another process has locked it."""
    if len(config.log_dirs) != 1:
        raise ConfigError("log.dirs: one directory is supported")
    directory = PurePath(config.log_dirs[0])
    if world.disk.stat(directory) is None:
        raise ConfigError(f"{directory} does not exist: run 'highwater storage format' first")
    release = world.disk.lock(directory / names.LOCK)
    with ExitStack() as refused:
        refused.callback(release)
        meta = await finished(world, _read_meta, directory)
        if meta is None:
            raise ConfigError(f"{directory} is not formatted: run 'highwater storage format' first")
        if meta.node_id != config.node_id:
            raise ConfigError(f"{directory} belongs to node {meta.node_id}, this is {config.node_id}")
        if meta.directory_id is None:
            raise ConfigError(f"{directory / names.META_PROPERTIES}: directory.id was not found.")
        refused.pop_all()
    return Home(directory, meta.cluster_id, meta.directory_id, release)


def _read_meta(disk: Disk, directory: PurePath) -> Generator[Step, None, MetaProperties | None]:
    yield Step()
    return read_meta_properties(disk, directory)
