"""How console-consumer prints a record: Kafka's default formatter and its properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from highwater.kernel import Record

DEFAULT = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
SILENT = "org.apache.kafka.tools.consumer.NoOpMessageFormatter"

PRINTED = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value")
"""The columns in their order; `print.<name>` turns one on or off."""

PROPERTIES = (
    *(f"print.{name}" for name in PRINTED),
    *("key.separator", "line.separator", "headers.separator", "null.literal"),
    *("key.deserializer", "value.deserializer", "headers.deserializer"),
)

_SERIALIZATION = "org.apache.kafka.common.serialization."
Deserializer = Callable[[bytes], bytes]


def _integer(kind: str, size: int) -> Deserializer:
    def read(data: bytes) -> bytes:
        if len(data) != size:
            raise ValueError(f"Size of data received by {kind}Deserializer is not {size}")
        return str(int.from_bytes(data, "big", signed=True)).encode()

    return read


def _string(data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode()


DESERIALIZERS: dict[str, Deserializer] = {
    _SERIALIZATION + "StringDeserializer": _string,
    _SERIALIZATION + "LongDeserializer": _integer("Long", 8),
    _SERIALIZATION + "IntegerDeserializer": _integer("Integer", 4),
    _SERIALIZATION + "ShortDeserializer": _integer("Short", 2),
}


class RecordFormatter:
    """Raises ValueError for an unknown deserializer; `format` raises it for bytes that the deserializer cannot read."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._columns = [
            name
            for name in PRINTED
            if properties.get(f"print.{name}", "true" if name == "value" else "false").strip().lower() == "true"
        ]
        self._separator = properties.get("key.separator", "\t").encode()
        self._end = properties.get("line.separator", "\n").encode()
        self._between_headers = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._deserialize = {
            "key": _deserializer(properties, "key.deserializer"),
            "value": _deserializer(properties, "value.deserializer"),
            "headers": _deserializer(properties, "headers.deserializer"),
        }

    def format(self, partition: int, timestamp_type: str, record: Record) -> bytes:
        if not self._columns:
            return b""
        texts = (self._column(name, partition, timestamp_type, record) for name in self._columns)
        return self._separator.join(texts) + self._end

    def _column(self, name: str, partition: int, timestamp_type: str, record: Record) -> bytes:
        match name:
            case "timestamp":
                return f"{timestamp_type}:{record.timestamp}".encode()
            case "partition":
                return b"Partition:%d" % partition
            case "offset":
                return b"Offset:%d" % record.offset
            case "headers":
                return self._headers(record)
            case "key":
                return self._text("key", record.key)
            case "value":
                return self._text("value", record.value)
            case _:
                # Delivery counts belong to share groups, and Kafka's console consumer drops the epoch.
                return f"{name.capitalize()}:NOT_PRESENT".encode()

    def _headers(self, record: Record) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self._between_headers.join(
            key.encode("utf-8", "surrogateescape") + b":" + self._text("headers", value)
            for key, value in record.headers
        )

    def _text(self, what: str, data: bytes | None) -> bytes:
        shown = self._null if data is None else data
        deserialize = self._deserialize[what]
        return shown if deserialize is None else deserialize(shown)


def _deserializer(properties: Mapping[str, str], key: str) -> Deserializer | None:
    name = properties.get(key)
    if name is None or name == _SERIALIZATION + "ByteArrayDeserializer":
        return None
    if name not in DESERIALIZERS:
        raise ValueError(f"The deserializer {name} is not available; there are {', '.join(DESERIALIZERS)}")
    return DESERIALIZERS[name]
