"""The report of compaction: how dirty the logs are, what is being cleaned, and what could not be cleaned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from highwater import config as settings
from highwater.broker.broker import Broker
from highwater.log.compaction.account import Account, Cleaning, Pass, Setback
from highwater.log.compaction.plan import Dirt
from highwater.log.log import Log
from highwater.net.metrics import Family, counter, gauge, labels
from highwater.partition.partition import Partition


def describe_cleaner(broker: Broker) -> dict[str, Any]:
    """For /status: the cleaner of the whole node."""
    account, get = broker.cleaner.account, broker.metadata.config.get
    return {
        "enabled": get(settings.LOG_CLEANER_ENABLE),
        "threads": get(settings.LOG_CLEANER_THREADS),
        "max_bytes_per_second": get(settings.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND),
        "cleanings": account.cleanings,
        "failures": account.failures,
        "bytes_read": account.bytes_read,
        "bytes_written": account.bytes_written,
        "under_way": [str(partition) for partition in sorted(account.under_way)],
        "uncleanable": [str(partition) for partition in sorted(account.setbacks) if account.uncleanable(partition)],
    }


def describe_log(broker: Broker, log: Log) -> dict[str, Any] | None:
    """None for a log that is not compacted."""
    if not log.config.compact:
        return None
    account, now = broker.cleaner.account, broker.world.clock.monotonic()
    dirt = broker.cleaner.dirt_of(log)
    under_way, last = account.under_way.get(log.partition), account.passes.get(log.partition)
    setback = account.setbacks.get(log.partition)
    return {
        "clean_end": dirt.clean_end,
        "dirty_end": dirt.dirty_end,
        "clean_bytes": dirt.clean_bytes,
        "dirty_bytes": dirt.dirty_bytes,
        "dirty_ratio": round(dirt.ratio, 4),
        "min_cleanable_dirty_ratio": log.config.min_cleanable_dirty_ratio,
        "due": dirt.wants_cleaning(log.config),
        "under_way": None if under_way is None else _under_way(under_way, now),
        "last": None if last is None else _last(last, now),
        "failed": None if setback is None else _setback(setback, now),
    }


def _under_way(cleaning: Cleaning, now: float) -> dict[str, Any]:
    return {
        "seconds": round(now - cleaning.begun, 3),
        "share": round(cleaning.share, 4),
        "bytes_read": cleaning.done.mapped + cleaning.done.read,
        "bytes_written": cleaning.done.written,
    }


def _last(last: Pass, now: float) -> dict[str, Any]:
    return {
        "seconds_ago": round(now - last.ended, 3),
        "seconds": round(last.seconds, 3),
        "bytes_read": last.cleaned.bytes.mapped + last.cleaned.bytes.read,
        "bytes_written": last.cleaned.bytes.written,
        "keys": last.cleaned.keys,
        "key_map_share": round(last.cleaned.table_share, 4),
    }


def _setback(setback: Setback, now: float) -> dict[str, Any]:
    return {
        "seconds_ago": round(now - setback.at, 3),
        "reason": setback.reason,
        "tried_again": not setback.final,
    }


def cleaner_families(broker: Broker, hosted: list[Partition]) -> Iterator[Family]:
    """The metrics of Kafka's LogCleaner and LogCleanerManager, and further ones that Kafka does not have."""
    compacted = [each for each in hosted if each.log.config.compact]
    dirt = [(each, broker.cleaner.dirt_of(each.log)) for each in compacted]
    yield from _last_cleanings(broker.cleaner.account)
    yield from _logs_to_clean(broker, dirt)
    names = [labels(topic=each.tp.topic, partition=each.tp.partition) for each in compacted]
    for name, text, values in (
        ("bytes", "Not compacted yet.", [each.dirty_bytes for _, each in dirt]),
        ("ratio", "The share that is not compacted yet.", [round(each.ratio, 6) for _, each in dirt]),
    ):
        yield gauge(f"highwater_log_dirty_{name}", text, zip(names, values, strict=True))
    account = broker.cleaner.account
    for name, text, total in (
        ("cleanings", "Logs cleaned, each time.", account.cleanings),
        ("failures", "Cleanings that failed.", account.failures),
        ("read_bytes", "Read by the cleaner.", account.bytes_read),
        ("written_bytes", "Written by the cleaner.", account.bytes_written),
    ):
        yield counter(f"highwater_cleaner_{name}", text, total)


def _last_cleanings(account: Account) -> Iterator[Family]:
    """From the last cleaning of each log. Kafka uses the last one of each thread."""
    passes = list(account.passes.values())
    read, written = sum(each.cleaned.bytes.read for each in passes), sum(each.cleaned.bytes.written for each in passes)
    fullest = max((each.cleaned.table_share for each in passes), default=0)
    latest_ms = max((each.overdue_ms for each in passes), default=0)
    for name, text, value in (
        ("max_buffer_utilization_percent", "How full the key map got.", 100 * fullest),
        ("cleaner_recopy_percent", "Written of what was read.", 100 * written / max(read, 1)),
        ("max_clean_time_secs", "The longest cleaning.", max((each.seconds for each in passes), default=0)),
        ("max_compaction_delay_secs", "How long max.compaction.lag.ms was over when one began.", latest_ms / 1000),
        ("deadthreadcount", "Broke off, and not made up for yet.", sum(not x.final for x in account.setbacks.values())),
    ):
        yield gauge(f"kafka_log_logcleaner_{name}", text, int(value))


def _logs_to_clean(broker: Broker, dirt: list[tuple[Partition, Dirt]]) -> Iterator[Family]:
    account, manager = broker.cleaner.account, "kafka_log_logcleanermanager_"
    here = labels(logDirectory=broker.store.directory)
    stuck = [each.dirty_bytes for partition, each in dirt if account.uncleanable(partition.tp)]
    since = 0 if account.looked_at is None else broker.world.clock.monotonic() - account.looked_at
    yield gauge(manager + "uncleanable_partitions_count", "Not cleaned before a restart.", [(here, len(stuck))])
    yield gauge(manager + "uncleanable_bytes", "How dirty those are.", [(here, sum(stuck))])
    yield gauge(manager + "max_dirty_percent", "Of the dirtiest log, as last seen.", int(100 * account.max_ratio))
    yield gauge(manager + "time_since_last_run_ms", "Since dirty logs were last looked for.", int(1000 * since))
