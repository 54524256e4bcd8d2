"""The settings of a producer as `kafka.…` options give them: all are acted on, and what is not known is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from highwater.client.batch_sender import MAX_IN_FLIGHT, BatchSender
from highwater.client.client import Client, parse_bootstrap_servers
from highwater.client.producer import ACKS_ALL
from highwater.client.sealing import Shrink
from highwater.client.security import PLAINTEXT, Security
from highwater.client.security import SETTINGS as SECURITY_SETTINGS
from highwater.pipeline.secrecy import security_of
from highwater.wire.compression import Codec

CLIENT_ID = "highwater-spark"
PREFIX = "kafka."
UNDERSTOOD = (
    "acks",
    "batch.size",
    "bootstrap.servers",
    "client.id",
    "compression.type",
    "delivery.timeout.ms",
    "enable.idempotence",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "request.timeout.ms",
    *SECURITY_SETTINGS,
)
BATCH_BYTES = 128 << 10
"""A task has its rows at hand and waits for none, so its batches can be larger than those of Kafka's producers."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Pickles with a task."""

    bootstrap_servers: str
    client_id: str = CLIENT_ID
    acks: int = ACKS_ALL
    idempotent: bool = True
    codec: Codec = Codec.NONE
    batch_bytes: int = BATCH_BYTES
    max_request_bytes: int = 1 << 20
    max_in_flight: int = MAX_IN_FLIGHT
    request_seconds: float = 30.0
    delivery_seconds: float = 120.0
    security: Security = PLAINTEXT

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> ProducerSettings:
        """Names count in any case. Raises ValueError."""
        given = {name.lower()[len(PREFIX) :]: text for name, text in options.items() if name.lower().startswith(PREFIX)}
        for name in given:
            _check_known(name)
        if "bootstrap.servers" not in given:
            raise ValueError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer")
        parse_bootstrap_servers(given["bootstrap.servers"])
        acks = _parsed(given, "acks", _acks, ACKS_ALL)
        idempotent = _parsed(given, "enable.idempotence", _flag, acks == ACKS_ALL)
        if idempotent and acks != ACKS_ALL:
            raise ValueError("kafka.acks must be all where kafka.enable.idempotence is true")
        return cls(
            bootstrap_servers=given["bootstrap.servers"],
            client_id=given.get("client.id", CLIENT_ID),
            acks=acks,
            idempotent=idempotent,
            codec=_parsed(given, "compression.type", _codec, Codec.NONE),
            batch_bytes=_parsed(given, "batch.size", _positive, BATCH_BYTES),
            max_request_bytes=_parsed(given, "max.request.size", _positive, 1 << 20),
            max_in_flight=min(
                MAX_IN_FLIGHT, _parsed(given, "max.in.flight.requests.per.connection", _positive, MAX_IN_FLIGHT)
            ),
            request_seconds=_parsed(given, "request.timeout.ms", _positive, 30_000) / 1000,
            delivery_seconds=_parsed(given, "delivery.timeout.ms", _positive, 120_000) / 1000,
            security=security_of(options),
        )

    def client(self) -> Client:
        return Client(
            self.bootstrap_servers,
            client_id=self.client_id,
            timeout=self.delivery_seconds,
            request_timeout=self.request_seconds,
            security=self.security,
        )

    def sender(self, client: Client, shrink: Shrink | None = None) -> BatchSender:
        return BatchSender(
            client,
            acks=self.acks,
            codec=self.codec,
            idempotent=self.idempotent,
            delivery_timeout=self.delivery_seconds,
            max_request_bytes=self.max_request_bytes,
            max_in_flight=self.max_in_flight,
            shrink=shrink,
        )


def _check_known(name: str) -> None:
    if name in ("key.serializer", "value.serializer"):
        raise ValueError(
            f"Kafka option '{name}' is not supported: keys and values are taken as the bytes or the text they are"
        )
    if name not in UNDERSTOOD:
        raise ValueError(
            f"'kafka.{name}' is not a setting of this producer; it knows kafka. followed by {', '.join(UNDERSTOOD)}"
        )


def _parsed(given: Mapping[str, str], name: str, parse: Callable[[str], T], default: T) -> T:
    text = given.get(name)
    if text is None:
        return default
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"kafka.{name} is {text!r}: it must be {error}") from None


def _acks(text: str) -> int:
    levels = {"all": ACKS_ALL, "-1": ACKS_ALL, "1": 1}
    if text.lower() not in levels:
        raise ValueError("all, -1 or 1 (with 0 it would be unknown what was stored)")
    return levels[text.lower()]


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _codec(text: str) -> Codec:
    if text.upper() not in Codec.__members__:
        raise ValueError(f"one of {', '.join(name.lower() for name in Codec.__members__)}")
    return Codec[text.upper()]


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**31:
        raise ValueError("a whole number of at least 1")
    return int(text)
