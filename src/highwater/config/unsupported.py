"""Settings of Kafka that would change a node's behaviour in a way that Highwater does not support. To set one is an
error.

It would be worse to ignore them: an operator could believe that a listener is encrypted, or that a quota is in force.
Each name or prefix is listed in docs/divergence.md.
"""

from __future__ import annotations

UNSUPPORTED_PREFIXES = (
    "delegation.token.",
    "group.consumer.",
    "group.coordinator.",
    "group.share.",
    "group.streams.",
    "listener.name.",
    "remote.",
    "sasl.",
    "share.",
    "ssl.",
)

UNSUPPORTED = frozenset(
    {
        "add.partitions.to.txn.retry.backoff.max.ms",
        "add.partitions.to.txn.retry.backoff.ms",
        "alter.config.policy.class.name",
        "alter.log.dirs.replication.quota.window.num",
        "alter.log.dirs.replication.quota.window.size.seconds",
        "authorizer.class.name",
        "client.quota.callback.class",
        "config.providers",
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "controller.quota.window.num",
        "controller.quota.window.size.seconds",
        "cordoned.log.dirs",
        "create.topic.policy.class.name",
        "early.start.listeners",
        "follower.fetch.last.tiered.offset.enable",
        "kafka.metrics.polling.interval.secs",
        "kafka.metrics.reporters",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "num.replica.alter.log.dirs.threads",
        "principal.builder.class",
        "quota.window.num",
        "quota.window.size.seconds",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "replication.quota.window.num",
        "replication.quota.window.size.seconds",
        "security.providers",
        "telemetry.max.bytes",
        "transaction.two.phase.commit.enable",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
    }
)

UNSUPPORTED_TOPIC_SETTINGS = frozenset(
    {
        "local.retention.bytes",
        "local.retention.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
)


def is_unsupported(name: str) -> bool:
    """Only for names that are not declared."""
    return name in UNSUPPORTED or name.startswith(UNSUPPORTED_PREFIXES)


def is_unsupported_topic_setting(name: str) -> bool:
    return name in UNSUPPORTED_TOPIC_SETTINGS
