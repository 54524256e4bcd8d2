"""`meta.properties`: what is read out of it, and what is refused rather than guessed."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest

from highwater.log.meta_properties import MetaProperties, read_meta_properties
from highwater.log.names import META_PROPERTIES
from highwater.model import NodeId, Uuid
from highwater.world.real_disk import RealDisk

OURS = MetaProperties("MkU3OEVBNTcwNTJENDM2Qg", NodeId(3), Uuid(bytes(range(16))))


def read(directory: Path, content: bytes | None) -> MetaProperties | None:
    if content is not None:
        (directory / META_PROPERTIES).write_bytes(content)
    return read_meta_properties(RealDisk(), PurePath(directory))


def test_written_meta_properties_are_read_back(tmp_path: Path) -> None:
    assert read(tmp_path, OURS.encode()) == OURS
    older = MetaProperties(OURS.cluster_id, OURS.node_id)
    assert read(tmp_path, older.encode()) == older, "a Kafka before 3.7 knew no ids of directories"


def test_a_directory_without_it_is_not_formatted(tmp_path: Path) -> None:
    assert read(tmp_path, None) is None
    assert read(tmp_path / "missing", None) is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"version=0\nbroker.id=3\n", "Unsupported meta.properties version 0"),
        (b"node.id=3\ncluster.id=c\n", "Unsupported meta.properties version 0"),
        (b"version=2\nnode.id=3\ncluster.id=c\n", "Unsupported meta.properties version 2"),
        (b"version=1\nnode.id=3\n", "cluster.id was not found"),
        (b"version=1\ncluster.id=c\n", "node.id was not found"),
        (b"version=1\nnode.id=three\ncluster.id=c\n", "three"),
        (b"version=1\nnode.id=3\ncluster.id=c\0c\n", "it has zeros"),
        (b"version=1\nnode.id=3\ncluster.id=c\xe9c\n", "bytes that are not ASCII"),
        (OURS.encode()[:-1], "it ends amid a line"),
        (OURS.encode()[:-5], "it ends amid a line"),
    ],
)
def test_damaged_or_foreign_meta_properties_are_refused(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        read(tmp_path, content)
    assert str(tmp_path / META_PROPERTIES) in str(refused.value)
