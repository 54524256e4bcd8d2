"""DescribeConfigs for a topic or a broker: each value, its source, and its name at that source.

Rows are made only for the `wanted` names, or for all if there are none: a request may ask thousands of times for one
name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from typing import NamedTuple

from highwater.config.kinds import UNKNOWN_KIND, text_of
from highwater.config.node import SETTINGS, NodeConfig, synonyms
from highwater.config.setting import REQUIRED, Update
from highwater.config.topic import TOPIC_SETTINGS, LogConfig


class Source(IntEnum):
    """Kafka's numbers. The source with the highest priority comes first."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: Source


class Row(NamedTuple):
    name: str
    value: str | None
    """None if it is not set, or if it is sensitive."""
    source: Source
    kind: int
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    doc: str


def describe_topic(node: NodeConfig, overrides: Mapping[str, str], wanted: Collection[str] = ()) -> list[Row]:
    """Settings of a topic, by name. Raises ConfigError if an override cannot be parsed."""
    names = _wanted(TOPIC_SETTINGS, wanted)
    if not names:
        return []
    log = LogConfig.resolve(node, overrides)
    rows = []
    for name in names:
        setting = TOPIC_SETTINGS[name]
        overridden = name in overrides
        if setting.internal and not overridden:
            continue
        value = text_of(setting.parse(overrides[name]) if overridden else getattr(log, setting.field))
        found = _found(node, setting.fallbacks[0].setting.name) if setting.fallbacks else []
        if overridden:
            found.insert(0, Synonym(name, value, Source.TOPIC))
        rows.append(Row(name, value, _source(found), setting.kind.code, False, False, tuple(found), setting.doc))
    return rows


def describe_broker(node: NodeConfig, wanted: Collection[str] = ()) -> list[Row]:
    """Settings of this broker, by name. Undeclared keys are included, with their values hidden."""
    given = (node.static, node.dynamic_default, node.dynamic)
    shown = {name for name in wanted or SETTINGS if name in SETTINGS and not SETTINGS[name].internal}
    shown.update(name for layer in given for name in (wanted or layer) if name in layer)
    return [_broker_row(node, name, _found(node, name)) for name in sorted(shown)]


def describe_broker_default(node: NodeConfig, wanted: Collection[str] = ()) -> list[Row]:
    """The settings that were changed for all brokers of the cluster, by name."""
    return [
        _broker_row(
            node,
            name,
            [synonym for synonym in _found(node, name) if synonym.source is Source.DYNAMIC_DEFAULT_BROKER],
            value=node.dynamic_default[name],
        )
        for name in _wanted(node.dynamic_default, wanted)
    ]


def _wanted(names: Collection[str], wanted: Collection[str]) -> list[str]:
    return sorted(name for name in wanted or names if name in names)


def _broker_row(node: NodeConfig, name: str, found: list[Synonym], value: str | None = None) -> Row:
    setting = SETTINGS.get(name)
    if setting is None:
        return Row(name, None, _source(found), UNKNOWN_KIND, True, True, tuple(found), "")
    if value is None:
        value = text_of(node.get(setting))
    return Row(
        name,
        None if setting.sensitive else value,
        _source(found),
        setting.kind.code,
        setting.update is Update.READ_ONLY,
        setting.sensitive,
        tuple(found),
        setting.doc,
    )


def _source(found: list[Synonym]) -> Source:
    return found[0].source if found else Source.DEFAULT


def _found(node: NodeConfig, name: str) -> list[Synonym]:
    """The places where a node setting is given, by priority. Kafka drops those before the requested name, so
    log.retention.hours in the file leaves the topic's retention.ms without synonyms."""
    layers: tuple[tuple[Source, Callable[[str], str | None]], ...] = (
        (Source.DYNAMIC_BROKER, node.dynamic.get),
        (Source.DYNAMIC_DEFAULT_BROKER, node.dynamic_default.get),
        (Source.STATIC_BROKER, node.static.get),
        (Source.DEFAULT, _default_text),
    )
    declared = SETTINGS.get(name)
    hidden = declared is None or declared.sensitive
    found = [
        Synonym(synonym, None if hidden else text, source)
        for source, read in layers
        for synonym in synonyms(name)
        if (text := read(synonym)) is not None
    ]
    first = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
    return found[first:]


def _default_text(name: str) -> str | None:
    setting = SETTINGS.get(name)
    return None if setting is None or setting.default is REQUIRED else text_of(setting.default)
