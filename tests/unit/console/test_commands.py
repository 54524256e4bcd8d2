"""The commands that a page shows: typed, they do what the page did."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from highwater.cli.configs import parse_additions
from highwater.cli.line_reader import LineReader, LineRecord
from highwater.client.throttles import BROKER_THROTTLES, TOPIC_THROTTLES
from highwater.console.commands import fault_command, produce_command, setting_command, unthrottle_commands


def typed(command: str) -> tuple[str, list[str]]:
    """The line that goes to the tool, and what the tool is called with."""
    words = shlex.split(command)
    pipe = words.index("|")
    assert words[:2] == ["printf", "%s\\n"] and pipe == 3
    return words[2], words[pipe + 1 :]


@pytest.mark.parametrize(
    "key, value, headers",
    [
        (None, "it's here", []),
        ("k", "a:b", []),
        ("urn:order:7", "v", []),
        ("a:b|c", "v", [("source", b"web"), ("trace", b"1")]),
        (None, "v", [("source", b"web")]),
        ("k", None, []),
    ],
)
def test_the_tool_makes_the_same_record_of_the_line(
    key: str | None, value: str | None, headers: list[tuple[str, bytes]]
) -> None:
    line, words = typed(produce_command("h:9", "my topic", key, value, headers))
    assert words[:6] == ["highwater", "console-producer", "--bootstrap-server", "h:9", "--topic", "my topic"]
    properties = dict(word.partition("=")[::2] for word in words[6:] if word != "--reader-property")
    expected = LineRecord(None if key is None else key.encode(), None if value is None else value.encode(), headers)
    assert LineReader(properties).parse(line) == expected


@pytest.mark.parametrize("value", ["1000", "compact,delete", "0:1,0:2", "it's", "a b", ""])
def test_the_tool_sets_what_the_page_set_also_where_it_has_a_comma(value: str) -> None:
    words = shlex.split(setting_command("h:9", "my topic", "cleanup.policy", value))
    assert words[:9] == ["highwater", "configs", "--bootstrap-server", "h:9", "--alter", "--entity-type", "topics",
                         "--entity-name", "my topic"]  # fmt: skip
    assert words[9] == "--add-config" and parse_additions(words[10]) == {"cleanup.policy": value}


def test_the_tool_deletes_what_the_page_removed() -> None:
    words = shlex.split(setting_command("h:9", "t", "retention.ms", None))
    assert words[-4:] == ["--entity-name", "t", "--delete-config", "retention.ms"]


def test_throttles_are_removed_by_one_command_for_each_broker_and_topic() -> None:
    lines = [shlex.split(line) for line in unthrottle_commands("h:9", [1, 2], ["orders"]).splitlines()]
    assert [line[5:9] for line in lines] == [
        ["--entity-type", kind, "--entity-name", name]
        for kind, name in (("brokers", "1"), ("brokers", "2"), ("topics", "orders"))
    ]
    assert lines[0][-1].split(",") == list(BROKER_THROTTLES) and lines[2][-1].split(",") == list(TOPIC_THROTTLES)


def test_an_order_for_nodes_names_the_directory_of_their_cluster() -> None:
    home = Path("/srv/my data")
    assert fault_command({"verb": "kill", "nodes": [2]}, home) == "highwater kill 2 --data-dir '/srv/my data'"
    cut = {"verb": "cut", "nodes": [1, 3], "one_way": True}
    assert fault_command(cut, home) == "highwater cut 1 3 --one-way --data-dir '/srv/my data'"
    slow = {"verb": "slow", "nodes": [1, 3], "ms": 200}
    assert fault_command(slow, None) == "highwater slow 1 3 --ms 200"
    assert fault_command({"verb": "heal"}, None) == "highwater heal"
