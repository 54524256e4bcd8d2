"""One change of a setting by IncrementalAlterConfigs, the value after it, and how many settings a resource may have."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from highwater.config.kinds import LIST, ConfigError, text_of
from highwater.config.node import SETTINGS
from highwater.config.setting import Setting
from highwater.config.topic import TOPIC_SETTINGS, TopicSetting
from highwater.errors import Code, KafkaError

MAX_VALUE: Final = 32767
MOST_SETTINGS: Final = 1_000
"""The most settings of one broker, or of all brokers' default. They may have names that no node knows, and every image,
snapshot and DescribeConfigs answer carries them. Those of a topic are all known, and too few for either bound."""
MOST_CHARACTERS: Final = 1 << 20
"""The most characters of their names and values together."""


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    name: str
    operation: int
    value: str | None

    def of(self, current: str | None, *, of_topic: bool) -> str | None:
        """The value after the change, or None if it is not set any more; for a topic or a broker. Raises KafkaError."""
        name, operation, value = self
        if operation == Operation.DELETE or value is None:
            return None
        if operation in (Operation.APPEND, Operation.SUBTRACT):
            parts = _list_parts(name, Operation(operation), current, of_topic)
            given = [part for part in value.split(",") if part]
            if operation == Operation.APPEND:
                value = ",".join(dict.fromkeys([*parts, *given]))
            else:
                gone = set(given)  # either list may have thousands of parts
                value = ",".join(part for part in parts if part not in gone)
        elif operation != Operation.SET:
            raise KafkaError(Code.INVALID_REQUEST, f"Unknown operation {operation} on configuration {name}.")
        if len(value.encode()) > MAX_VALUE:
            raise KafkaError(
                Code.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value size of"
                f" {MAX_VALUE} bytes.",
            )
        return value


def _list_parts(name: str, operation: Operation, current: str | None, of_topic: bool) -> list[str]:
    """The list that the change adds to or subtracts from: the value that is set, or else the setting's default."""
    setting: Setting[Any] | TopicSetting[Any] | None = SETTINGS.get(name)
    if of_topic:
        setting = TOPIC_SETTINGS.get(name)
        if setting is not None and setting.fallbacks:
            setting = setting.fallbacks[0].setting
    if setting is None or setting.kind.name != LIST.name:
        raise KafkaError(Code.INVALID_CONFIG, f"Can't {operation.name} to key {name} because its type is not LIST.")
    text = (text_of(setting.default) or "") if current is None else current
    return [part for part in text.split(",") if part]


def check_bounds(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raises ConfigError if a resource would have too many or too long settings. What another version left above the
    bounds may still be made less."""
    if len(before) < len(after) > MOST_SETTINGS:
        raise ConfigError(f"The resource would have {len(after)} settings, and {MOST_SETTINGS} are the most.")
    if _characters(before) < (size := _characters(after)) > MOST_CHARACTERS:
        raise ConfigError(
            f"The settings of the resource would have {size} characters in their names and values, and"
            f" {MOST_CHARACTERS} are the most."
        )


def _characters(settings: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in settings.items())
