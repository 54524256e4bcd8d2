"""A member of a group, and what it said when it joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from highwater.effects import Caller
from highwater.wire.messages.join_group_request import JoinGroupRequest

Protocols = tuple[tuple[str, bytes], ...]
"""Names, the preferred ones first, each with what the member has to say under it."""

MOST_SAID: Final = 16 << 20
"""Bytes that the members of one group may say, all together: the coordinator keeps them, and tells its leader."""
_PROTOCOL: Final = 200
"""What a protocol takes beside its bytes."""


def size_of(protocols: Protocols) -> int:
    return sum(_PROTOCOL + len(name) + len(metadata) for name, metadata in protocols)


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup, the same for all its versions."""

    caller: Caller
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int

    @classmethod
    def of(cls, request: JoinGroupRequest, caller: Caller) -> Join:
        protocols: dict[str, bytes] = {}
        for protocol in request.protocols:
            protocols.setdefault(protocol.name, protocol.metadata)
        return cls(
            caller,
            request.member_id,
            request.group_instance_id,
            request.protocol_type,
            tuple(protocols.items()),
            request.session_timeout_ms,
            # Version 0 has one time-out for both (KIP-62).
            request.rebalance_timeout_ms if caller.version >= 1 else request.session_timeout_ms,
        )


@dataclass(slots=True)
class Member:
    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """It still waits in its first JoinGroup, and may not even know its id."""
    weight: int = 0
    """Bytes that it takes: its group keeps count."""

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")
