"""The disks of a cluster's log directories: by what brokers tell (KIP-827), and by what this machine sees."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from highwater.cli.doctor.finding import DISKS, Finding
from highwater.client.client import Client
from highwater.client.failures import ClientFailure
from highwater.client.log_dirs import describe_log_dirs
from highwater.errors import Code, KafkaError
from highwater.model import NodeId

LEAST_SHARE = 0.05
LEAST_BYTES = 10 << 30
"""A disk is nearly full if less than both is free: of a large one, five percent is much."""
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


class Space(NamedTuple):
    total: int
    free: int
    files_left: bool = True

    @property
    def is_short(self) -> bool:
        return not self.files_left or self.free < min(LEAST_SHARE * self.total, LEAST_BYTES)

    def __str__(self) -> str:
        if not self.files_left:
            return "no file can be made any more (no inode is free)"
        return f"{_readable(self.free)} of {_readable(self.total)} are free"


def examine_brokers_disks(client: Client, brokers: Iterable[NodeId], seen_here: frozenset[NodeId]) -> Iterator[Finding]:
    """`seen_here` are brokers whose disks this machine sees; of them, only failed directories are told."""
    for broker in brokers:
        try:
            directories = describe_log_dirs(client, [broker])[broker]
        except (KafkaError, ClientFailure) as failed:
            yield DISKS.unknown(f"the disks of broker {broker}: {failed}")
            continue
        for each in directories:
            where = f"{each.path} of broker {broker}"
            if each.error is not Code.NONE:
                yield DISKS.wrong(
                    f"{where} is offline: {each.error.description}",
                    "Look into the broker's log for the first error, replace the disk, and start the broker again.",
                )
            elif each.total_bytes < 0:
                yield DISKS.unknown(f"{where}: the broker does not tell its room")
            elif broker not in seen_here:
                yield judged(where, Space(each.total_bytes, each.usable_bytes))


def space_of(path: Path) -> Space:
    """Raises OSError."""
    disk = os.statvfs(path)
    blocks = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail  # some are kept for root alone
    return Space(disk.f_blocks * disk.f_frsize, blocks * disk.f_frsize, not disk.f_files or disk.f_ffree > 0)


def judged(where: str, space: Space) -> Finding:
    if space.is_short:
        return DISKS.wrong(
            f"{where} is nearly full: {space}",
            "Make room, or let topics keep less (retention.bytes, retention.ms). On a full disk writes are refused.",
        )
    return DISKS.well(f"{where}: {space}")


def _readable(size: float) -> str:
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.0f} {_UNITS[-1]}"
