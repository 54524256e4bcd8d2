"""The JSON files of kafka-reassign-partitions.sh: topics to move, and plans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from highwater.model import TopicPartition

ANY_DIRECTORY = "any"
_VERSION = 1

Plan = dict[TopicPartition, list[int]]


def plan_text(replicas: Mapping[TopicPartition, Sequence[int]]) -> str:
    partitions = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "replicas": list(replicas[tp]),
            "log_dirs": [ANY_DIRECTORY] * len(replicas[tp]),
        }
        for tp in sorted(replicas)
    ]
    return json.dumps({"version": _VERSION, "partitions": partitions}, separators=(",", ":"), ensure_ascii=False)


def parse_topics(text: str) -> list[str]:
    """The topics of --topics-to-move-json-file. Raises ValueError."""
    topics = [_field(each, "topic", str) for each in _document(text).get("topics", ())]
    twice = _repeated(topics)
    if twice:
        raise ValueError(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return topics


def parse_rows(text: str) -> list[tuple[TopicPartition, list[int]]]:
    """The rows of --reassignment-json-file, in their order. Raises ValueError."""
    rows = []
    for each in _document(text).get("partitions", ()):
        tp = TopicPartition(_field(each, "topic", str), _field(each, "partition", int))
        replicas = [_checked("replicas", broker, int) for broker in _field(each, "replicas", list)]
        directories = each.get("log_dirs", [ANY_DIRECTORY] * len(replicas))
        if len(directories) != len(replicas):
            raise ValueError(
                f"Size of replicas list {_shown(replicas)} is different from size of log dirs list "
                f"{_shown(directories)} for partition {tp}"
            )
        if any(directory != ANY_DIRECTORY for directory in directories):
            raise ValueError(f"{tp} names a directory: replicas are not moved between directories")
        rows.append((tp, replicas))
    return rows


def parse_plan(text: str) -> Plan:
    """As `parse_rows`, and no row is empty or repeated. Raises ValueError."""
    rows = parse_rows(text)
    if not rows:
        raise ValueError("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in rows):
        raise ValueError("Partition replica list cannot be empty")
    twice = _repeated([str(tp) for tp, _ in rows])
    if twice:
        raise ValueError(f"Partition reassignment contains duplicate topic partitions: {','.join(twice)}")
    several = [
        f"{tp} contains multiple entries for {','.join(found)}"
        for tp, replicas in rows
        if (found := _repeated(map(str, replicas)))
    ]
    if several:
        raise ValueError(f"Partition replica lists may not contain duplicate entries: {'. '.join(several)}")
    return dict(rows)


def parse_brokers(text: str) -> list[int]:
    """The ids of --broker-list. Raises ValueError."""
    parts = text.split(",")
    wrong = next((part for part in parts if not part.strip().lstrip("-").isdecimal()), None)
    if wrong is not None:
        raise ValueError(f'For input string: "{wrong}"')
    brokers = [int(part) for part in parts]
    twice = _repeated(map(str, brokers))
    if twice:
        raise ValueError(f"Broker list contains duplicate entries: [{', '.join(twice)}]")
    return brokers


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        raise ValueError("The input string is not a valid JSON") from None
    if not isinstance(document, dict):
        raise ValueError(f"Expected JSON object, received {json.dumps(document)}")
    version = document.get("version", _VERSION)
    if version != _VERSION:
        raise ValueError(f"Not supported version field value {version}")
    return document


def _field(entry: object, name: str, kind: type) -> Any:
    if not isinstance(entry, dict):
        raise ValueError(f"Expected JSON object, received {json.dumps(entry)}")
    if name not in entry:
        raise ValueError(f"No such field exists: `{name}`")
    return _checked(name, entry[name], kind)


def _checked(name: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"Expected `{kind.__name__}` value for {name}, received {json.dumps(value)}")
    return value


def _repeated(words: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for word in words:
        if word in seen:
            twice[word] = None
        seen.add(word)
    return list(twice)


def _shown(values: Sequence[object]) -> str:
    return f"[{', '.join(map(str, values))}]"
