"""A member of a group, and its JoinGroup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from highwater.effects import Caller
from highwater.wire.messages.join_group_request import JoinGroupRequest

Protocols = tuple[tuple[str, bytes], ...]
"""Names of protocols, the preferred ones first, each with the member's metadata for it."""

MOST_SAID: Final = 16 << 20
"""The most bytes of metadata that all members of one group may send: the coordinator keeps them, and sends them to the
group's leader."""
_PROTOCOL: Final = 200
"""The size of a protocol in memory, without its name and metadata."""


def size_of(protocols: Protocols) -> int:
    return sum(_PROTOCOL + len(name) + len(metadata) for name, metadata in protocols)


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup request, in one form for all versions."""

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
    """It still waits in its first JoinGroup, and may not know its member id yet."""
    weight: int = 0
    """The size of its content in bytes. The group keeps it up to date."""

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")
