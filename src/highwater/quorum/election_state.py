"""What a replica must not forget: its epoch, the leader of that epoch, and its own vote. The `quorum-state` file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from highwater.model import NO_NODE, ZERO_UUID, Epoch, NodeId, Uuid, uuid_from_text, uuid_text
from highwater.quorum.voters import ReplicaKey

DATA_VERSION = 1
LAST_EPOCH: Final = 2**31 - 1
"""The last epoch: it is an int32 in the file and in every message."""


class CorruptElectionState(ValueError):
    """Neither Kafka nor Highwater would have written this file. A guess could mean a second vote in one epoch."""


@dataclass(frozen=True, slots=True)
class ElectionState:
    epoch: Epoch = 0
    leader_id: NodeId | None = None
    voted: ReplicaKey | None = None

    def to_json(self) -> str:
        """Version 1 of Kafka's file, byte for byte."""
        fields = {
            "leaderId": NO_NODE if self.leader_id is None else self.leader_id,
            "leaderEpoch": self.epoch,
            "votedId": NO_NODE if self.voted is None else self.voted.id,
            "votedDirectoryId": uuid_text(ZERO_UUID if self.voted is None else self.voted.directory_id),
            "data_version": DATA_VERSION,
        }
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> ElectionState:
        """Versions 0 (static voters, no directory id) and 1. Raises CorruptElectionState."""
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CorruptElectionState(f"quorum-state is not JSON: {text[:200]!r}") from error
        if not isinstance(fields, dict):
            raise CorruptElectionState(f"quorum-state is not a JSON object: {text[:200]!r}")
        version = _int32(fields, "data_version")
        if version not in (0, DATA_VERSION):
            raise CorruptElectionState(f"quorum-state has data_version {version}, known are 0 and {DATA_VERSION}")
        leader_id, voted_id = _int32(fields, "leaderId"), _int32(fields, "votedId")
        directory_id = _directory_id(fields) if version >= 1 else ZERO_UUID
        return cls(
            epoch=_int32(fields, "leaderEpoch"),
            leader_id=None if leader_id == NO_NODE else NodeId(leader_id),
            voted=None if voted_id == NO_NODE else ReplicaKey(NodeId(voted_id), directory_id),
        )


def _int32(fields: dict[str, object], name: str) -> int:
    value = fields.get(name)
    if type(value) is not int or not -1 <= value <= LAST_EPOCH:
        raise CorruptElectionState(f"quorum-state has {name}={value!r}")
    return value


def _directory_id(fields: dict[str, object]) -> Uuid:
    text = fields.get("votedDirectoryId")
    try:
        if isinstance(text, str):
            return uuid_from_text(text)
    except ValueError as error:
        raise CorruptElectionState(f"quorum-state has votedDirectoryId={text!r}") from error
    raise CorruptElectionState(f"quorum-state has votedDirectoryId={text!r}")
