"""What may keep a cluster from answering: brokers that are away, and brokers of this machine with a full disk."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from highwater.client.admin import Admin
from highwater.client.client import Broker, Client
from highwater.client.failures import ClientFailure
from highwater.client.security import PLAINTEXT, Security
from highwater.cluster.room import LEAST_BYTES, shortage
from highwater.errors import KafkaError
from highwater.log.meta_properties import read_meta_properties
from highwater.model import ResourceType
from highwater.world.real_disk import RealDisk

ANSWER_SECONDS = 1.0


def troubles(servers: list[str], security: Security = PLAINTEXT) -> Iterator[str]:
    """One line for each broker that does not answer, and for each full directory of brokers on this machine;
    directories of other machines cannot be checked. Nothing is tried twice, because a user waits."""
    with Client(servers, timeout=0, request_timeout=ANSWER_SECONDS, security=security) as client:
        try:
            client.refresh([])
        except (KafkaError, ClientFailure):
            return
        for broker in client.view.brokers.values():
            try:
                client.connection(broker.endpoint, dial_timeout=ANSWER_SECONDS)
            except ClientFailure:
                yield f"broker {broker.id} at {broker.endpoint} does not answer"
                continue
            for directory in _directories(client, broker):
                short = _shortage(directory)
                if short is not None:
                    yield f"the disk of node {broker.id} ({directory}) is full ({short}): it goes on once there is room"


def _shortage(directory: Path) -> str | None:
    try:
        return shortage(directory, LEAST_BYTES)
    except OSError:
        return None


def _directories(client: Client, broker: Broker) -> list[Path]:
    """The directories of a broker that runs on this machine: another machine may have a directory of this name, too."""
    try:
        if not ip_address(broker.endpoint.host).is_loopback:
            return []
        described = Admin(client).describe_configs(ResourceType.BROKER, [str(broker.id)])[str(broker.id)]
    except (ValueError, KafkaError, ClientFailure):
        return []
    settings = {setting.name: setting.value for setting in described}
    named = settings.get("log.dirs") or settings.get("log.dir") or ""
    paths = dict.fromkeys(Path(each.strip()) for each in f"{named},{settings.get('metadata.log.dir') or ''}".split(","))
    return [path for path in paths if path.is_absolute() and _is_of(path, client, broker)]


def _is_of(path: Path, client: Client, broker: Broker) -> bool:
    try:
        meta = read_meta_properties(RealDisk(), path)
    except (OSError, ValueError):
        return False
    return meta is not None and (meta.node_id, meta.cluster_id) == (broker.id, client.view.cluster_id)
