"""`partition.metadata`: the topic id of a partition's directory. A topic that is created anew has another one."""

from __future__ import annotations

from pathlib import PurePath

from highwater.log import names
from highwater.log.checkpoint import read_file
from highwater.model import Uuid, uuid_from_text, uuid_text
from highwater.world import Disk


def encode(topic_id: Uuid) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def read_topic_id(disk: Disk, directory: PurePath) -> Uuid | None:
    """None if the file is missing. Raises ValueError, which names the file, if it is damaged."""
    path = directory / names.PARTITION_METADATA
    data = read_file(disk, path)
    if data is None:
        return None
    try:
        fields = dict(line.split(": ", 1) for line in data.decode("ascii").splitlines() if line)
        if fields.get("version") != "0" or "topic_id" not in fields:
            raise ValueError("it has no version 0 or no topic_id")
        return uuid_from_text(fields["topic_id"])
    except ValueError as bad:
        raise ValueError(f"{path} is damaged, so the topic of these records is unknown: {data!r}") from bad
