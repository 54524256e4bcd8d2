"""The commands that a page shows: typed, they do what the page did."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from highwater.cli.line_reader import LineReader, LineRecord
from highwater.console.commands import fault_command, produce_command


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


def test_an_order_for_nodes_names_the_directory_of_their_cluster() -> None:
    home = Path("/srv/my data")
    assert fault_command({"verb": "kill", "nodes": [2]}, home) == "highwater kill 2 --data-dir '/srv/my data'"
    cut = {"verb": "cut", "nodes": [1, 3], "one_way": True}
    assert fault_command(cut, home) == "highwater cut 1 3 --one-way --data-dir '/srv/my data'"
    slow = {"verb": "slow", "nodes": [1, 3], "ms": 200}
    assert fault_command(slow, None) == "highwater slow 1 3 --ms 200"
    assert fault_command({"verb": "heal"}, None) == "highwater heal"
