"""What the brokers of a cluster speak: their software, the APIs that they answer, and the cluster's features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from highwater.cli.doctor.addresses import SeenBroker
from highwater.cli.doctor.clocks import NodeClock
from highwater.cli.doctor.finding import VERSIONS, Finding, brokers_named, listed
from highwater.cli.doctor.status_pages import is_highwater
from highwater.client.failures import ClientFailure
from highwater.client.versions import ask_versions
from highwater.errors import KafkaError
from highwater.model import SOFTWARE_VERSION, NodeId
from highwater.storage.releases import release_name
from highwater.wire.messages.api_versions_response import ApiVersionsResponse

_METADATA_VERSION = "metadata.version"


def examine_versions(brokers: Sequence[SeenBroker], nodes: Sequence[NodeClock]) -> Iterator[Finding]:
    answers: dict[NodeId, ApiVersionsResponse] = {}
    for broker in brokers:
        try:
            answers[broker.id] = ask_versions(broker.connection)
        except (KafkaError, ClientFailure) as failed:
            yield VERSIONS.wrong(f"broker {broker.id} does not tell its versions: {failed}", "Look into its log.")
    yield from _software(brokers, {each.node: each.version for each in nodes})
    yield from _apis(answers)
    yield from _features(answers)


def _software(brokers: Sequence[SeenBroker], versions: dict[NodeId, str | None]) -> Iterator[Finding]:
    kinds: dict[str, list[NodeId]] = {}
    for broker in brokers:
        if not broker.settings:
            kind = "software not known: the broker does not show its settings to this client"
        elif not is_highwater(broker):
            kind = "not Highwater: Apache Kafka, or another server with its protocol, which does not tell its version"
        else:
            version = versions.get(broker.id)
            kind = f"Highwater {version}" if version else "Highwater, of a version that only its status page tells"
        kinds.setdefault(kind, []).append(broker.id)
    text = "; ".join(f"{brokers_named(ids)}: {kind}" for kind, ids in kinds.items())
    if len(kinds) > 1:
        yield VERSIONS.wrong(f"brokers differ: {text}", "Run the same release on all of them.")
    elif kinds:
        yield VERSIONS.well(f"{text} (this tool: Highwater {SOFTWARE_VERSION})")


def _apis(answers: dict[NodeId, ApiVersionsResponse]) -> Iterator[Finding]:
    ranges = {
        broker: {(each.api_key, each.min_version, each.max_version) for each in answer.api_keys}
        for broker, answer in answers.items()
    }
    if not ranges:
        return
    shared = set.intersection(*ranges.values())
    differing = sorted({key for of_one in ranges.values() for key, _, _ in of_one - shared})
    if differing:
        yield VERSIONS.wrong(
            f"brokers answer different versions of the APIs with the keys {listed(differing)}",
            "An upgrade is under way or was left halfway: bring all brokers to one release.",
        )
    else:
        yield VERSIONS.well(f"{len(shared)} APIs, in the same versions at every broker that answers")


def _features(answers: dict[NodeId, ApiVersionsResponse]) -> Iterator[Finding]:
    newest = max(answers.values(), key=lambda each: each.finalized_features_epoch, default=None)
    if newest is None or newest.finalized_features_epoch < 0:
        yield from [VERSIONS.unknown("the cluster's features: no broker tells them")] if answers else []
        return
    levels = {each.name: each.max_version_level for each in newest.finalized_features}
    shown = [
        f"{name} {release_name(level) if name == _METADATA_VERSION else level}"
        for name, level in sorted(levels.items())
    ]
    yield VERSIONS.well(f"features: {', '.join(shown)}")
    for broker, answer in sorted(answers.items()):
        supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
        beyond = [
            name for name, level in sorted(levels.items())
            if name in supported and not supported[name][0] <= level <= supported[name][1]
        ]  # fmt: skip
        if beyond:
            yield VERSIONS.wrong(
                f"broker {broker} does not support the cluster's level of {', '.join(beyond)}",
                "Bring it to the release of the other brokers.",
            )
