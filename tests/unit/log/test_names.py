"""The names of files and directories are Kafka's."""

from __future__ import annotations

from pathlib import PurePath
from uuid import uuid4

import pytest

from highwater.log import names
from highwater.model import TopicPartition

UNIQUE = "0123456789abcdef" * 2


def test_a_segments_files_carry_its_base_offset_in_twenty_digits() -> None:
    path = names.segment_file(PurePath("/logs/a-0"), 4711, names.INDEX)
    assert path == PurePath("/logs/a-0/00000000000000004711.index")
    assert names.base_offset_of(path.name) == 4711


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-0", TopicPartition("orders", 0)),
        ("a-b.c_d-12", TopicPartition("a-b.c_d", 12)),
        ("7-7", TopicPartition("7", 7)),
        ("orders", None),
        ("orders-", None),
        ("-1", None),
        ("orders-٣", None),
        (f"orders-0.{UNIQUE}-delete", None),
        (f"orders-0.{UNIQUE}-stray", None),
        (f"orders-0.{UNIQUE}-future", None),
        ("lost+found", None),
    ],
)
def test_a_partitions_directory_is_recognized_by_its_name(name: str, partition: TopicPartition | None) -> None:
    assert names.partition_of(name) == partition


def test_a_deleted_directory_keeps_within_what_a_file_system_takes() -> None:
    for topic in ("orders", "t" * 249):
        name = names.deleted_directory(TopicPartition(topic, 3), UNIQUE)
        assert names.is_deleted_directory(name)
        assert len(name) <= 255
        assert name.endswith(f"-3.{UNIQUE}-delete")
    assert not names.is_deleted_directory("orders-0")


def test_only_what_highwater_put_aside_is_its_own() -> None:
    name = names.stray_directory(TopicPartition("orders", 7), 1234, (1 << 60) - 1)
    assert (names.stray_partition(name), names.stray_high_watermark(name)) == (7, 1234)
    assert names.partition_of(name) is None
    kafkas = f"orders-7.{uuid4().hex}-stray"
    assert names.stray_partition(kafkas) is None and names.partition_of(kafkas) is None
    long = names.stray_directory(TopicPartition("o" * 249, 7), 2**63 - 1, 0)
    assert len(long) == 255 and names.stray_partition(long) == 7
