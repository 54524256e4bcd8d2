"""The rules that a topic's settings set for the batches that clients write."""

from __future__ import annotations

from highwater.config import LogConfig
from highwater.wire.compression import Codec
from highwater.wire.records.append import Rules

_CODECS = {"uncompressed": 0, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}


def rules_of(config: LogConfig) -> Rules:
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return Rules(
        max_message_bytes=config.max_message_bytes,
        compacted=config.compact,
        log_append_time=config.log_append_time,
        timestamp_before_max_ms=config.timestamp_before_max_ms,
        timestamp_after_max_ms=config.timestamp_after_max_ms,
        codec=None if config.compression_type == "producer" else _CODECS[config.compression_type],
        level=levels.get(config.compression_type),
    )
