"""Whether the parts of a definition fit each other, and what each part itself would refuse once Spark has started."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from highwater.pipeline.landing.options import Landing
from highwater.pipeline.options import SourceOptions
from highwater.pipeline.producing import ProducerSettings
from highwater.pipeline.secrecy import check_references, check_stores
from highwater.pipeline.sections import Mistake, Place
from highwater.pipeline.selection import Matching, Selection, selects

if TYPE_CHECKING:
    from highwater.pipeline.definition import Definition

_KEYS = {
    "kafka.bootstrap.servers": "bootstrap_servers",
    "kafka.group.id": "group",
    "maxBytesPerTrigger": "max_bytes_per_trigger",
    "maxOffsetsPerTrigger": "max_offsets_per_trigger",
    "startingOffsets": "starting_offsets",
    "subscribe": "topic",
    "subscribePattern": "pattern",
    "name": "name",
    "partitionBy": "partition_by",
    "path": "path",
    "table": "table",
    "topic": "topic",
}
"""Options that have a key of their own."""


def check_options(definition: Definition) -> None:
    """What the parts themselves would refuse once Spark has started."""
    try:
        selection = SourceOptions.parse(definition.source, streaming=True).selection
        check_references(definition.source)
    except ValueError as error:
        raise Mistake(_blamed("source", definition.source, str(error)), str(error)) from None
    try:
        if definition.sink_format == "highwater":
            ProducerSettings.from_options(definition.sink)
            check_references(definition.sink)
        else:
            Landing.from_options(definition.sink)
            check_stores(definition.sink)
    except ValueError as error:
        raise Mistake(_blamed("sink", definition.sink, str(error)), str(error)) from None
    _check_loops(definition, selection)


def _check_loops(definition: Definition, selection: Selection) -> None:
    """A pipeline that reads what it writes never ends, and fills its cluster."""
    letters = definition.dead_letter_topic
    if letters is not None and selects(selection, letters):
        raise Mistake(
            ("decode", "dead_letters"),
            f"is {letters!r}, which {_spoken(selection)} selects: the pipeline would read its own dead letters",
        )
    topic = definition.sink_topic
    if topic is not None and selects(selection, topic) and definition.sink_is_at_source:
        raise Mistake(
            ("sink", "topic"),
            f"is {topic!r}, which {_spoken(selection)} selects: the pipeline would read what it wrote",
        )


def _spoken(selection: Selection) -> str:
    match selection:
        case Matching(pattern):
            return f"source.pattern {pattern!r} (it is searched for anywhere in a name; ^{pattern}$ is the whole name)"
        case _:
            return "source.topic"


def _blamed(section: str, options: Mapping[str, str], reason: str) -> Place:
    """The key that gave the option of which a reason speaks."""
    found = {name: re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", reason, re.IGNORECASE) for name in options}
    # The one that it begins with; further on other words may be names of options by chance.
    named = sorted((match.start(), name) for name, match in found.items() if match is not None)
    if not named:
        return (section,)
    name = named[0][1]
    return (section, _KEYS[name]) if name in _KEYS else (section, "options", name)
