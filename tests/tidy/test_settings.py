"""A setting is acted on, listed as doing nothing, or refused: there is no fourth way."""

from __future__ import annotations

import re

import pytest

from highwater import config
from highwater.config import SETTINGS, TOPIC_SETTINGS
from highwater.config.unsupported import UNSUPPORTED, UNSUPPORTED_PREFIXES, UNSUPPORTED_TOPIC_SETTINGS
from tests.tidy.repository import PACKAGE, ROOT, python_files

pytestmark = pytest.mark.slow

DIVERGENCE = (ROOT / "docs" / "divergence.md").read_text()
LISTED = set(re.findall(r"`([^`]+)`", DIVERGENCE))
CONSTANTS = {
    value.name: name for name, value in vars(config).items() if isinstance(value, config.Setting) and name.isupper()
}

READ_BY_CONFIG_ITSELF = {
    # NodeConfig turns these into its own attributes.
    "advertised.listeners": "advertised_listeners",
    "controller.listener.names": "controller_listeners",
    "controller.quorum.bootstrap.servers": "bootstrap_controllers",
    "controller.quorum.voters": "voters",
    "inter.broker.listener.name": "inter_broker_listener",
    "listeners": "broker_listeners",
    "log.dirs": "log_dirs",
    "max.connections.per.ip.overrides": "max_connections_per_ip_overrides",
    "metadata.log.dir": "metadata_log_dir",
    "node.id": "node_id",
    "process.roles": "is_controller",
}
ONLY_OTHER_NAMES = {
    # Another name or another unit of a setting that is read.
    "broker.id",
    "listener.security.protocol.map",
    "log.dir",
    "security.inter.broker.protocol",
}


def code_outside_config() -> str:
    here = PACKAGE / "config"
    return "\n".join(path.read_text() for path in python_files("src/highwater") if here not in path.parents)


def test_every_setting_that_is_not_listed_as_doing_nothing_is_read_by_the_code() -> None:
    code = code_outside_config()
    by_topic = {fallback.setting.name for setting in TOPIC_SETTINGS.values() for fallback in setting.fallbacks}
    unread = []
    for name, setting in SETTINGS.items():
        if setting.inert or name in by_topic or name in ONLY_OTHER_NAMES:
            continue
        word = READ_BY_CONFIG_ITSELF.get(name) or CONSTANTS[name]
        if not re.search(rf"\b{word}\b", code):
            unread.append(name)
    assert not unread, "accepted, not listed in docs/divergence.md, and read by nobody: " + ", ".join(unread)


def test_no_setting_that_is_read_is_listed_as_doing_nothing() -> None:
    code = code_outside_config()
    by_topic = {fallback.setting.name for setting in TOPIC_SETTINGS.values() for fallback in setting.fallbacks}
    inert = [name for name, setting in SETTINGS.items() if setting.inert and name not in by_topic]
    words = {name: READ_BY_CONFIG_ITSELF.get(name) or CONSTANTS[name] for name in inert}
    read = [name for name, word in words.items() if re.search(rf"\b{word}\b", code)]
    assert not read, "said to do nothing, and read all the same: " + ", ".join(read)


def test_every_topic_setting_that_is_not_listed_as_doing_nothing_is_read_by_the_code() -> None:
    code = code_outside_config()
    derived = {
        "cleanup_policy": r"(?:compact|delete)",
        "message_timestamp_type": "log_append_time",
        "segment_ms": "roll_ms",
    }
    unread = []
    for name, setting in TOPIC_SETTINGS.items():
        inert = any(fallback.setting.inert for fallback in setting.fallbacks)
        word = f"(?:{setting.field}|{derived.get(setting.field, setting.field)})"
        # Of a LogConfig, or resolved by itself.
        read = re.search(rf"\.{word}\b|\bTOPIC_{setting.field.upper()}\b", code)
        if not inert and not setting.internal and not read:
            unread.append(name)
    assert not unread, "accepted, not listed in docs/divergence.md, and read by nobody: " + ", ".join(unread)


def test_every_setting_without_effect_is_listed_as_a_divergence() -> None:
    inert = {name for name, setting in SETTINGS.items() if setting.inert}
    inert |= {
        name
        for name, setting in TOPIC_SETTINGS.items()
        if any(fallback.setting.inert for fallback in setting.fallbacks)
    }
    assert inert <= LISTED, sorted(inert - LISTED)


def test_every_refused_setting_is_listed_as_a_divergence() -> None:
    refused = UNSUPPORTED | UNSUPPORTED_TOPIC_SETTINGS | {f"{prefix}*" for prefix in UNSUPPORTED_PREFIXES}
    assert refused <= LISTED, sorted(refused - LISTED)


def test_every_default_that_differs_from_kafkas_is_listed_as_a_divergence() -> None:
    changed = {name for name, setting in SETTINGS.items() if setting.kafka_default is not None}
    assert changed
    assert changed <= LISTED
