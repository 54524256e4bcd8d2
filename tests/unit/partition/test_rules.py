"""What a topic's settings ask of the batches that clients write to it."""

from __future__ import annotations

import pytest

from highwater.partition.rules import rules_of
from highwater.wire.compression import Codec
from tests.unit.log.bench import settings


@pytest.mark.parametrize(
    ("compression", "codec", "level"),
    [
        ("producer", None, None),  # as it comes
        ("uncompressed", 0, None),
        ("snappy", Codec.SNAPPY, None),
        ("gzip", Codec.GZIP, 3),
        ("lz4", Codec.LZ4, 5),
        ("zstd", Codec.ZSTD, 7),
    ],
)
def test_batches_are_kept_in_the_codec_of_the_topic_with_its_level(
    compression: str, codec: int | None, level: int | None
) -> None:
    levels = {"compression_gzip_level": 3, "compression_lz4_level": 5, "compression_zstd_level": 7}
    rules = rules_of(settings(compression_type=compression, **levels))
    assert (rules.codec, rules.level) == (codec, level)


def test_sizes_keys_and_times_are_judged_by_the_settings_of_the_topic() -> None:
    rules = rules_of(
        settings(
            max_message_bytes=77,
            cleanup_policy=("compact",),
            message_timestamp_type="LogAppendTime",
            timestamp_before_max_ms=5,
            timestamp_after_max_ms=6,
        )
    )
    assert (rules.max_message_bytes, rules.compacted, rules.log_append_time) == (77, True, True)
    assert (rules.timestamp_before_max_ms, rules.timestamp_after_max_ms) == (5, 6)
