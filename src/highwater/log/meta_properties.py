"""`meta.properties`: the cluster, the node and the directory id of a log directory. Without it, the directory is not
formatted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from highwater.config.properties import format_properties, parse_properties
from highwater.log.checkpoint import read_file
from highwater.log.names import META_PROPERTIES
from highwater.model import NodeId, Uuid, uuid_from_text, uuid_text
from highwater.world import Disk

VERSION = 1


@dataclass(frozen=True, slots=True)
class MetaProperties:
    cluster_id: str
    node_id: NodeId
    directory_id: Uuid | None = None
    """None only if a Kafka before 3.7 formatted the directory."""

    def to_properties(self) -> dict[str, str]:
        """Required properties come last, so a file that ends early lacks at least one of them."""
        directory = {} if self.directory_id is None else {"directory.id": uuid_text(self.directory_id)}
        return {**directory, "node.id": str(self.node_id), "version": str(VERSION), "cluster.id": self.cluster_id}

    def encode(self) -> bytes:
        return format_properties(self.to_properties()).encode("ascii")

    @classmethod
    def parse(cls, text: str) -> MetaProperties:
        """Raises ValueError. Version 0 belonged to ZooKeeper's clusters."""
        properties = parse_properties(text)
        version = properties.get("version", "0")
        if version != str(VERSION):
            raise ValueError(f"Unsupported meta.properties version {version}")
        for required in ("cluster.id", "node.id"):
            if required not in properties:
                raise ValueError(f"{required} was not found.")
        directory = properties.get("directory.id")
        return cls(
            properties["cluster.id"],
            NodeId(int(properties["node.id"])),
            None if directory is None else uuid_from_text(directory),
        )


def read_meta_properties(disk: Disk, directory: PurePath) -> MetaProperties | None:
    """For jobs only. None if the directory is missing or not formatted. Raises ValueError if the file is damaged."""
    data = read_file(disk, directory / META_PROPERTIES)
    if data is None:
        return None
    try:
        _check_whole(data)
        return MetaProperties.parse(data.decode("latin-1"))
    except ValueError as error:
        raise ValueError(f"{directory / META_PROPERTIES}: {error}") from error


def _check_whole(data: bytes) -> None:
    """Raises ValueError if the disk has lost part of the file: the rest could look like the id of another cluster."""
    if b"\0" in data:
        raise ValueError("The file is damaged: it has zeros. Restore it from a copy.")
    if not data.isascii():
        raise ValueError("The file is damaged: it has bytes that are not ASCII. Restore it from a copy.")
    if not data.endswith(b"\n"):
        raise ValueError("The file is damaged: it ends amid a line. Restore it from a copy.")
