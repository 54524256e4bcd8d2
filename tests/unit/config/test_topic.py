"""A topic's settings: its own, or the node's."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from highwater.config import (
    ConfigError,
    LogConfig,
    NodeConfig,
    Row,
    Source,
    describe_broker,
    describe_broker_default,
    describe_topic,
    validate_topic_config,
    validate_topic_configs,
)
from highwater.config.kinds import PASSWORD, text_of
from highwater.config.setting import Setting
from tests.unit.config.test_node import COMBINED

NODE = NodeConfig.parse(COMBINED)


def test_a_topic_takes_its_own_values_before_the_nodes() -> None:
    node = NodeConfig.parse(
        COMBINED | {"log.segment.bytes": "2097152", "message.max.bytes": "9", "log.roll.hours": "1"}
    )
    log = LogConfig.resolve(node, {"max.message.bytes": "10", "cleanup.policy": "compact"})
    assert (log.segment_bytes, log.max_message_bytes, log.segment_ms) == (2097152, 10, 3_600_000)
    assert (log.compact, log.delete) == (True, False)
    assert log.flush_ms == 2**63 - 1
    assert not log.log_append_time


def test_internal_segment_bytes_has_no_lower_bound() -> None:
    assert LogConfig.resolve(NODE, {"internal.segment.bytes": "100"}).segment_bytes == 100


def test_a_compacted_topic_rolls_by_its_longest_lag() -> None:
    overrides = {"max.compaction.lag.ms": "50", "segment.ms": "80"}
    assert LogConfig.resolve(NODE, overrides).roll_ms == 80
    assert LogConfig.resolve(NODE, overrides | {"cleanup.policy": "compact,delete"}).roll_ms == 50


def test_resolving_passes_over_names_it_does_not_know_and_refuses_values_it_cannot_read() -> None:
    assert LogConfig.resolve(NODE, {"from.the.future": "x"}) == LogConfig.resolve(NODE, {})
    with pytest.raises(ConfigError, match="retention.ms"):
        LogConfig.resolve(NODE, {"retention.ms": "x"})


def test_overrides_are_validated_alone_and_together() -> None:
    with pytest.raises(ConfigError, match="^Unknown topic config name: retention$"):
        validate_topic_config("retention", "1")
    with pytest.raises(ConfigError, match="remote.storage.enable: Not supported"):
        validate_topic_config("remote.storage.enable", "true")
    with pytest.raises(ConfigError) as refusal:
        validate_topic_configs(NODE, {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"})
    assert str(refusal.value) == ("conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)")


def test_a_topics_row_names_every_place_it_could_come_from() -> None:
    node = NodeConfig.parse(
        COMBINED | {"log.segment.bytes": "3000000"},
        dynamic={"log.segment.bytes": "4000000"},
        dynamic_default={"log.segment.bytes": "5000000"},
    )
    [row] = [row for row in describe_topic(node, {"segment.bytes": "2000000"}) if row.name == "segment.bytes"]
    assert (row.value, row.source, row.read_only, row.sensitive) == ("2000000", Source.TOPIC, False, False)
    assert row.synonyms == (
        ("segment.bytes", "2000000", Source.TOPIC),
        ("log.segment.bytes", "4000000", Source.DYNAMIC_BROKER),
        ("log.segment.bytes", "5000000", Source.DYNAMIC_DEFAULT_BROKER),
        ("log.segment.bytes", "3000000", Source.STATIC_BROKER),
        ("log.segment.bytes", "1073741824", Source.DEFAULT),
    )
    assert row.doc


def test_a_synonym_before_the_name_asked_for_is_left_out() -> None:
    node = NodeConfig.parse(COMBINED | {"log.retention.hours": "5"})
    [topic] = [row for row in describe_topic(node, {}) if row.name == "retention.ms"]
    assert (topic.value, topic.source, topic.synonyms) == ("18000000", Source.DEFAULT, ())
    [hours] = [row for row in describe_broker(node) if row.name == "log.retention.hours"]
    assert hours.synonyms[0] == ("log.retention.hours", "5", Source.STATIC_BROKER)


def test_the_clusters_own_changes_are_described_apart() -> None:
    node = NodeConfig.parse(COMBINED | {"num.io.threads": "2"}, dynamic_default={"num.io.threads": "3"})
    [row] = describe_broker_default(node)
    assert (row.name, row.value, row.source) == ("num.io.threads", "3", Source.DYNAMIC_DEFAULT_BROKER)
    assert row.synonyms == (("num.io.threads", "3", Source.DYNAMIC_DEFAULT_BROKER),)


def test_internal_settings_are_shown_only_where_they_are_set() -> None:
    assert "internal.segment.bytes" not in {row.name for row in describe_topic(NODE, {})}
    assert "internal.segment.bytes" in {row.name for row in describe_topic(NODE, {"internal.segment.bytes": "9"})}
    assert "log.initial.task.delay.ms" not in {row.name for row in describe_broker(NODE)}
    set_node = NodeConfig.parse(COMBINED | {"log.initial.task.delay.ms": "1"})
    assert "log.initial.task.delay.ms" in {row.name for row in describe_broker(set_node)}


DESCRIBED: dict[str, Callable[..., list[Row]]] = {
    "a broker": partial(
        describe_broker,
        NodeConfig.parse(
            COMBINED | {"my.own": "1"},
            dynamic={"log.retention.ms": "5"},
            dynamic_default={"num.io.threads": "3", "theirs": "2"},
        ),
    ),
    "all brokers": partial(
        describe_broker_default, NodeConfig.parse(COMBINED, dynamic_default={"num.io.threads": "3", "theirs": "2"})
    ),
    "a topic": partial(describe_topic, NODE, {"retention.ms": "5", "internal.segment.bytes": "9"}),
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_wanted_settings_are_described_as_among_all_and_no_other_is_looked_at(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request may ask for the same settings thousands of times, each time with another name that is not there."""
    describe = DESCRIBED[name]
    everything = {row.name: row for row in describe()}
    for wanted in (*([each] for each in everything), [*everything, "nope"]):
        assert describe(wanted) == [everything[each] for each in sorted(wanted) if each in everything]
    monkeypatch.setattr("highwater.config.describe._found", lambda *_: pytest.fail("it is not asked for"))
    monkeypatch.setattr("highwater.config.describe.LogConfig.resolve", lambda *_: pytest.fail("it is not asked for"))
    assert describe(["nope"]) == []


def test_values_of_unknown_keys_are_never_shown() -> None:
    node = NodeConfig.parse(COMBINED | {"my.password": "hush"})
    [row] = [row for row in describe_broker(node) if row.name == "my.password"]
    assert row.sensitive
    assert "hush" not in repr(row)


def test_a_password_is_kept_out_of_error_messages() -> None:
    class Never:
        def check(self, name: str, value: str, /) -> None:
            from highwater.config.kinds import Refusal

            raise Refusal("never")

    secret = Setting("my.password", PASSWORD, "", "A secret.", Never())
    assert secret.sensitive
    with pytest.raises(ConfigError) as refusal:
        secret.parse("hush")
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-2.5e-9, "-2.5E-9"),
        (True, "true"),
        (("a", "b"), "a,b"),
        (None, None),
    ],
)
def test_values_are_printed_as_java_prints_them(value: object, text: str | None) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [("min.cleanable.dirty.ratio", "1" * 32_000 + "x"), ("cleanup.policy", "delete" + " " * 32_000 + "x")],
)
def test_a_long_value_that_is_none_is_refused_without_looking_at_it_again_and_again(name: str, text: str) -> None:
    """By the square of its length a value of 32 KB would hold a node for a minute. CPU time, whatever the load."""
    begun = time.process_time()
    with pytest.raises(ConfigError):
        validate_topic_config(name, text)
    assert time.process_time() - begun < 0.5
