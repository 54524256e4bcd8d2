"""`partition.metadata`: which topic id a partition's directory belongs to. A re-created topic has another."""

from __future__ import annotations

from pathlib import PurePath

from highwater.log import names
from highwater.log.checkpoint import read_file
from highwater.model import Uuid, uuid_from_text, uuid_text
from highwater.world import Disk


def encode(topic_id: Uuid) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def read_topic_id(disk: Disk, directory: PurePath) -> Uuid | None:
    """None where the file is missing; ValueError where it says something else."""
    data = read_file(disk, directory / names.PARTITION_METADATA)
    if data is None:
        return None
    fields = dict(line.split(": ", 1) for line in data.decode("ascii").splitlines() if line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError(f"{directory / names.PARTITION_METADATA}: {data!r}")
    return uuid_from_text(fields["topic_id"])
