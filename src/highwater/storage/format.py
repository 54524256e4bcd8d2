"""Formats a node's directories, so that Highwater and Apache Kafka 4.3 can start on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from highwater.controller.features import BOOTSTRAP_LEVELS, bootstrap_records
from highwater.log.checkpoint import replace_file
from highwater.log.meta_properties import MetaProperties, read_meta_properties
from highwater.log.names import LOG, META_PROPERTIES, partition_of
from highwater.metadata.features import METADATA_VERSION
from highwater.metadata.records import encode
from highwater.model import METADATA_TOPIC, Endpoint, NodeId, Uuid, uuid_from_text, uuid_text
from highwater.quorum.voters import ReplicaKey, VoterListener, VoterNode, VoterSet
from highwater.storage.releases import release_name
from highwater.wire.codec import Message
from highwater.wire.messages.kraft_version_record import KRaftVersionRecord
from highwater.wire.messages.snapshot_footer_record import SnapshotFooterRecord
from highwater.wire.messages.snapshot_header_record import SnapshotHeaderRecord
from highwater.wire.records import build
from highwater.wire.records.control import ControlType, build_control
from highwater.world import Disk

if TYPE_CHECKING:
    from random import Random

BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"
FIRST_SNAPSHOT = "00000000000000000000-0000000000.checkpoint"
RESERVED_IDS = 100
"""Ids below this number stand for unassigned, lost and migrating directories."""


class FormatError(ValueError):
    """The reason why the directories were not formatted."""


@dataclass(frozen=True, slots=True)
class InitialVoter:
    """A controller of the first voter set: `id@host:port:directory-id`."""

    id: NodeId
    endpoint: Endpoint
    directory_id: Uuid

    @classmethod
    def parse(cls, text: str) -> InitialVoter:
        """Raises FormatError."""
        number, at, rest = text.strip().partition("@")
        address, _, directory = rest.rpartition(":")
        host, _, port = address.rpartition(":")
        if not at or not number.isdigit() or not host or not port.isdigit() or int(port) > 65535:
            raise FormatError(f"Cannot read the voter {text!r}; expected id@host:port:directory-id")
        try:
            directory_id = uuid_from_text(directory)
        except ValueError:
            raise FormatError(f"Failed to parse directory ID in dynamic voter string {text!r}") from None
        return cls(NodeId(int(number)), Endpoint(host.strip("[]"), int(port)), directory_id)


@dataclass(frozen=True, slots=True)
class Format:
    """What to write into the directories of one node."""

    cluster_id: str
    node_id: NodeId
    directories: Sequence[PurePath]
    metadata_directory: PurePath
    controller_listener: str
    voters: Sequence[InitialVoter] = ()
    """The first voter set (kraft.version 1); empty for a fixed quorum, or a node that joins one later."""
    features: Mapping[str, int] = field(default_factory=lambda: dict(BOOTSTRAP_LEVELS))
    has_lost_its_voter: bool = False
    """The directory replaces a lost one, which stays the voter. So this one has no vote (KIP-853)."""


def format_directories(
    disk: Disk,
    wanted: Format,
    *,
    now_ms: int,
    random: Random,
    ignore_formatted: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> None:
    """For jobs only. Directories of this node and cluster that are already formatted are refused, or skipped.
    meta.properties is written last, so after a crash a directory is formatted or not, but never half."""
    formatted = _formatted(disk, wanted)
    if formatted and not ignore_formatted:
        raise FormatError(
            f"Log directory {min(formatted)} is already formatted. Use --ignore-formatted to ignore this directory and "
            "format the others."
        )
    taken = {meta.directory_id for meta in formatted.values()}
    remaining = sorted(set(wanted.directories) - set(formatted))
    if not remaining:
        report("All of the log directories are already formatted.")
        return
    for directory in remaining:
        _check_empty(disk, directory)
    report(f"Bootstrap metadata: {_bootstrap_text(wanted.features)}")
    release = release_name(wanted.features[METADATA_VERSION])
    for directory in remaining:
        own = _own_voter(wanted) if directory == wanted.metadata_directory else None
        directory_id = own.directory_id if own is not None else _new_directory_id(random, taken)
        taken.add(directory_id)
        report(f"Formatting {_kind(directory, wanted)} {directory} with {METADATA_VERSION} {release}.")
        make_directory(disk, directory)
        _replace(disk, directory / BOOTSTRAP_SNAPSHOT, bootstrap_snapshot(wanted.features, now_ms))
        if directory == wanted.metadata_directory and wanted.voters:
            log_directory = directory / f"{METADATA_TOPIC}-0"
            disk.mkdir(log_directory)
            _replace(disk, log_directory / FIRST_SNAPSHOT, voters_snapshot(_voter_set(wanted), now_ms))
            disk.sync_dir(directory)
        meta = MetaProperties(wanted.cluster_id, wanted.node_id, directory_id)
        _replace(disk, directory / META_PROPERTIES, meta.encode())


def _check_empty(disk: Disk, directory: PurePath) -> None:
    """Raises FormatError if a node has run here: formatted again, the directory would be a new one for the cluster.
    Leftovers of an earlier attempt to format it contain no log yet."""
    if disk.stat(directory) is None:
        return
    for name in disk.list(directory):
        status = disk.stat(directory / name)
        if status is None or not status.is_dir or partition_of(name) is None:
            continue
        if any(file.endswith(LOG) for file in disk.list(directory / name)):
            raise FormatError(
                f"Log directory {directory} has no {META_PROPERTIES}, but holds {name}: it is not formatted, since its "
                f"data would be lost to the cluster. Restore {META_PROPERTIES} from a copy, or move the directory away."
            )


def make_directory(disk: Disk, path: PurePath) -> None:
    """Creates the directory and its parents durably."""
    if disk.stat(path) is None:
        make_directory(disk, path.parent)
        disk.mkdir(path)
        disk.sync_dir(path.parent)


def random_directory_id(random: Random) -> Uuid:
    """Made as `random-uuid` does: never reserved, and without a leading dash, which a shell would take for an
    option."""
    return _new_directory_id(random, set())


def bootstrap_snapshot(features: Mapping[str, int], now_ms: int) -> bytes:
    """`bootstrap.checkpoint`: the feature levels that the first controller writes into the metadata log."""
    values = [(now_ms, None, encode(record), ()) for record in bootstrap_records(features)]
    header = [(ControlType.SNAPSHOT_HEADER, _body(SnapshotHeaderRecord(last_contained_log_timestamp=0)))]
    footer = [(ControlType.SNAPSHOT_FOOTER, _body(SnapshotFooterRecord()))]
    return b"".join(
        (
            build_control(header, timestamp=now_ms, leader_epoch=0),
            build(values, base_offset=1, leader_epoch=0),
            build_control(footer, timestamp=now_ms, base_offset=1 + len(values), leader_epoch=0),
        )
    )


def voters_snapshot(voters: VoterSet, now_ms: int) -> bytes:
    """The snapshot at offset 0, epoch 0: it contains only the first voter set (KIP-853)."""
    header = [
        (ControlType.SNAPSHOT_HEADER, _body(SnapshotHeaderRecord(last_contained_log_timestamp=now_ms))),
        (ControlType.KRAFT_VERSION, _body(KRaftVersionRecord(kraft_version=1))),
        (ControlType.KRAFT_VOTERS, _body(voters.to_record())),
    ]
    footer = [(ControlType.SNAPSHOT_FOOTER, _body(SnapshotFooterRecord()))]
    return bytes(
        build_control(header, timestamp=now_ms, leader_epoch=0)
        + build_control(footer, timestamp=now_ms, base_offset=len(header), leader_epoch=0)
    )


def _body(message: Message) -> bytes:
    """The version of these records is their first field."""
    return message.encode(0)


def _formatted(disk: Disk, wanted: Format) -> dict[PurePath, MetaProperties]:
    formatted = {}
    for directory in wanted.directories:
        try:
            meta = read_meta_properties(disk, directory)
        except ValueError as error:
            raise FormatError(str(error)) from error
        if meta is None:
            continue
        path = directory / META_PROPERTIES
        if meta.cluster_id != wanted.cluster_id:
            raise FormatError(
                f"Invalid cluster.id in: {path}. Expected {wanted.cluster_id}, but read {meta.cluster_id}"
            )
        if meta.node_id != wanted.node_id:
            raise FormatError(
                f"Stored node id {meta.node_id} doesn't match previous node id {wanted.node_id} in {path}. If you "
                "moved your data, make sure your configured node id matches. If you intend to create a new node, you "
                "should remove all data in your data directories."
            )
        formatted[directory] = meta
    return formatted


def _own_voter(wanted: Format) -> InitialVoter | None:
    if wanted.has_lost_its_voter:
        return None
    return next((voter for voter in wanted.voters if voter.id == wanted.node_id), None)


def _voter_set(wanted: Format) -> VoterSet:
    return VoterSet.of(
        VoterNode(
            ReplicaKey(voter.id, voter.directory_id),
            (VoterListener(wanted.controller_listener, voter.endpoint.host, voter.endpoint.port),),
        )
        for voter in wanted.voters
    )


def _kind(directory: PurePath, wanted: Format) -> str:
    if directory != wanted.metadata_directory:
        return "data directory"
    if not wanted.voters:
        return "metadata directory"
    return "dynamic metadata voter directory" if _own_voter(wanted) else "dynamic metadata directory"


def _new_directory_id(random: Random, taken: set[Uuid | None]) -> Uuid:
    while True:
        raw = bytearray(random.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        new = Uuid(bytes(raw))
        reserved = int.from_bytes(new, "big") < RESERVED_IDS
        if not reserved and not uuid_text(new).startswith("-") and new not in taken:
            return new


def _replace(disk: Disk, path: PurePath, data: bytes) -> None:
    for _ in replace_file(disk, path, data):
        pass


def _bootstrap_text(features: Mapping[str, int]) -> str:
    levels = [f"(name='{record.name}', featureLevel={record.feature_level})" for record in bootstrap_records(features)]
    records = ", ".join(f"ApiMessageAndVersion(FeatureLevelRecord{level} at version 0)" for level in levels)
    level = features[METADATA_VERSION]
    return f"BootstrapMetadata(records=[{records}], metadataVersionLevel={level}, source=format command)"
