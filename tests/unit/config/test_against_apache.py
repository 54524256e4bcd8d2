"""Our declarations beside Apache Kafka's own: every difference is in docs/divergence.md, and named here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from highwater.config import (
    SETTINGS,
    TOPIC_SETTINGS,
    ConfigError,
    NodeConfig,
    Row,
    Source,
    describe_broker,
    describe_broker_default,
    describe_topic,
    format_properties,
    parse_properties,
    validate_topic_config,
)
from highwater.config.kinds import text_of
from highwater.config.setting import REQUIRED
from highwater.config.unsupported import is_unsupported, is_unsupported_topic_setting
from tests.apache import ApacheKafka, run_tool

PROGRAM = str(Path(__file__).with_name("Settings.java"))
FIXED_WHILE_RUNNING = {"listeners", "listener.security.protocol.map"}
"""Kafka changes these on a running broker; here they need a restart."""
OURS_ALONE = {"leader.imbalance.per.broker.percentage", "highwater.http.listener"}
"""The first Kafka had before 4.0, the second it never had."""
DYNAMIC_ALONE = {"leader.replication.throttled.rate", "follower.replication.throttled.rate"}
"""Kafka does not list them among the settings of a broker: they are there only once they are set while it runs."""
OTHER_DEFAULTS = {name for name, setting in SETTINGS.items() if setting.kafka_default is not None}


class Definition(NamedTuple):
    level: str
    name: str
    kind: str
    default: str
    allowed: str
    internal: str
    more: str


def ask(mode: str, *args: str, lines: Iterable[str] = ()) -> list[str]:
    ran = run_tool(PROGRAM, mode, *args, input="".join(f"{line}\n" for line in lines))
    assert ran.rc == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.fixture(scope="module")
def definitions(apache: None) -> list[Definition]:
    return [Definition(*line.split("\t")) for line in ask("definitions")]


def shown(value: object) -> str:
    """A default as the Java program prints it. Kafka's order of words in one of its maps is a hash order."""
    if value is REQUIRED:
        return "required"
    text = text_of(value)
    return r"\0" if text is None else text


def test_every_setting_of_kafka_is_declared_here_or_refused(definitions: list[Definition]) -> None:
    broker = {found.name for found in definitions if found.level == "broker"}
    topic = {found.name for found in definitions if found.level == "topic"}
    assert {name for name in broker if name not in SETTINGS and not is_unsupported(name)} == set()
    assert {name for name in topic if name not in TOPIC_SETTINGS and not is_unsupported_topic_setting(name)} == set()
    assert set(SETTINGS) - broker == OURS_ALONE | DYNAMIC_ALONE
    assert set(TOPIC_SETTINGS) <= topic


def test_broker_settings_have_kafkas_types_defaults_bounds_and_update_modes(definitions: list[Definition]) -> None:
    theirs = {found.name: found for found in definitions if found.level == "broker"}
    for name, setting in SETTINGS.items():
        if name in OURS_ALONE | DYNAMIC_ALONE:
            continue
        update = theirs[name].more if name in FIXED_WHILE_RUNNING else setting.update.value
        default = shown(setting.default) if setting.kafka_default is None else setting.kafka_default
        internal = "true" if setting.internal else "false"
        ours = Definition("broker", name, setting.kind.name, default, str(setting.allowed or ""), internal, update)
        assert ours == theirs[name]


def test_topic_settings_have_kafkas_types_bounds_and_fallbacks(definitions: list[Definition]) -> None:
    theirs = {found.name: found for found in definitions if found.level == "topic"}
    for name, setting in TOPIC_SETTINGS.items():
        fallbacks = " ".join(f"{fallback.setting.name}*{fallback.factor}" for fallback in setting.fallbacks)
        internal = "true" if setting.internal else "false"
        found = theirs[name]
        ours = Definition(
            "topic", name, setting.kind.name, found.default, str(setting.allowed or ""), internal, fallbacks
        )
        assert ours == found


VALUES = {
    "retention.ms": ["-1", "-2", "0", "abc", "", " 5 ", "9223372036854775808", "1_000", "+7", "٣"],
    "segment.bytes": ["1048576", "1048575", "2147483648", "1e6", "0x10"],
    "segment.ms": ["0", "1"],
    "max.message.bytes": ["-1", "0"],
    "cleanup.policy": ["compact", "delete,compact", "compact , delete", "", "keep", "delete,delete", "delete,", ","],
    "compression.type": ["zstd", "ZSTD", "none", "producer", ""],
    "compression.gzip.level": ["-1", "0", "1", "9", "10"],
    "compression.lz4.level": ["0", "1", "17", "18"],
    "compression.zstd.level": ["-131072", "-131073", "22", "23"],
    "message.timestamp.type": ["CreateTime", "createtime"],
    "min.cleanable.dirty.ratio": ["0", "1", "0.5", "1.1", "-0.1", ".5", "5e-1", "x"],
    "preallocate": ["true", "TRUE", "yes", " false "],
    "min.insync.replicas": ["0", "1", "99999999999"],
    "flush.ms": ["0", "-1"],
    "leader.replication.throttled.replicas": ["", "*", "0:1", "0:1,12:3", "0:1,", "0", "0:1,*", "a:b", " * ", "-1:0"],
    "no.such.setting": ["1"],
}


def test_topic_values_are_accepted_and_refused_in_kafkas_words(apache: None) -> None:
    cases = [(name, value) for name, values in VALUES.items() for value in values]
    answers = ask("topic-values", lines=(f"{name}\t{value}" for name, value in cases))
    for (name, value), answer in zip(cases, answers, strict=True):
        assert (name, value, our_answer(name, value)) == (name, value, answer)


def our_answer(name: str, value: str) -> str:
    try:
        validate_topic_config(name, value)
    except ConfigError as error:
        return str(error)
    return "ok"


def test_properties_files_are_read_as_java_reads_them(apache: None) -> None:
    random = Random(7)
    pieces = [
        "a",
        "key",
        "=",
        ":",
        " ",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "\\",
        "\\\n",
        "\\n",
        "\\u00e9",
        "\\u12",
        "#",
        "!",
        "é",
    ]
    files = ["".join(random.choices(pieces, k=random.randint(0, 30))) for _ in range(3000)]
    files += [format_properties({"a b": " c ", "d:e": "\\f\n", "é": "\U0001f600", "#x": "=y"})]
    answers = ask("properties", lines=(file.encode().hex() for file in files))
    for file, answer in zip(files, answers, strict=True):
        assert (file, our_reading(file)) == (file, answer)


def our_reading(file: str) -> str:
    try:
        found = parse_properties(file)
    except ValueError:
        return "malformed"
    found.pop("", None)
    return " ".join(part.encode().hex() for key in sorted(found) for part in (key, found[key])).strip()


SOURCES = {
    Source.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    Source.DYNAMIC_BROKER: "DYNAMIC_BROKER_CONFIG",
    Source.DYNAMIC_DEFAULT_BROKER: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    Source.STATIC_BROKER: "STATIC_BROKER_CONFIG",
    Source.DEFAULT: "DEFAULT_CONFIG",
}
KINDS = ("UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD")


def line_of(what: str, row: Row) -> str:
    synonyms = " ".join(
        f"{SOURCES[synonym.source]}:{synonym.name}={'null' if synonym.value is None else synonym.value}"
        for synonym in row.synonyms
    )
    value = r"\0" if row.value is None else row.value
    flags = [str(flag).lower() for flag in (row.read_only, row.sensitive)]
    return "\t".join([what, row.name, value, SOURCES[row.source], KINDS[row.kind], *flags, synonyms])


def test_descriptions_of_topics_and_brokers_equal_those_of_a_running_kafka(apache: None, tmp_path: Path) -> None:
    static = {"log.retention.hours": "5", "log.roll.hours": " 3", "my.own.key": "secret"}
    kafka = ApacheKafka(tmp_path, properties=static)
    try:
        theirs = ask("describe", kafka.start().bootstrap)
    finally:
        kafka.kill()
    node = NodeConfig.parse(
        parse_properties(kafka.config_of(1).read_text()),
        dynamic={"log.flush.interval.messages": "77", "log.roll.ms": "5000000"},
        # Formatting with eligible leader replicas makes a cluster-wide min.insync.replicas of the default.
        dynamic_default={"log.segment.bytes": "2000000", "message.max.bytes": "3000000", "min.insync.replicas": "1"},
    )
    topic = describe_topic(node, {"retention.ms": "123456", "cleanup.policy": "compact,delete"})
    ours = [line_of("topic", row) for row in topic]
    ours += [line_of("broker", row) for row in describe_broker(node)]
    ours += [line_of("default", row) for row in describe_broker_default(node)]
    differing = {line.split("\t")[1] for line in set(ours) ^ set(theirs)}
    expected = {name for name in differing if is_unsupported(name) or is_unsupported_topic_setting(name)}
    assert differing - expected == OTHER_DEFAULTS | FIXED_WHILE_RUNNING | OURS_ALONE
