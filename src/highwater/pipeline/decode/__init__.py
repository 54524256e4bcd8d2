"""Converts records to typed columns. A record that does not fit is kept with its reason and never fails the batch.

Start with `decoder`.
"""

from highwater.pipeline.decode.ddl import BadSchema, parse_schema
from highwater.pipeline.decode.decoder import (
    KEPT_COLUMNS,
    REASON,
    Decoded,
    Decoder,
    JsonDecoder,
    NullValues,
    Origin,
    RawDecoder,
)
from highwater.pipeline.decode.decoding import DECODINGS, Decoding, kept_beside

__all__ = [
    "DECODINGS",
    "KEPT_COLUMNS",
    "REASON",
    "BadSchema",
    "Decoded",
    "Decoder",
    "Decoding",
    "JsonDecoder",
    "NullValues",
    "Origin",
    "RawDecoder",
    "kept_beside",
    "parse_schema",
]
