"""Properties files and the environment. That files are read as Java reads them is in test_against_apache.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.config import environment_overrides, format_properties, parse_properties


def test_a_file_with_comments_continuations_and_every_separator() -> None:
    text = "# a comment\n! another\n\n  a = 1\nb:2\nc 3\nd\\ e=f\\\n   g\nlast=\\u00e9\\t\nempty\n"
    text += "listeners=A://:1,\\\r\n  B://:2"
    assert parse_properties(text) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d e": "fg",
        "last": "é\t",
        "empty": "",
        "listeners": "A://:1,B://:2",
    }


def test_a_later_line_wins() -> None:
    assert parse_properties("a=1\na=2") == {"a": "2"}


def test_a_broken_unicode_escape_is_an_error() -> None:
    with pytest.raises(ValueError, match="Malformed"):
        parse_properties("a=\\u12")
    assert parse_properties("a=\\\\u12") == {"a": "\\u12"}


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
def test_properties_that_are_written_are_read_back(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties


def test_kafka_variables_become_settings() -> None:
    environment = {
        "KAFKA_LOG_RETENTION_MS": "1",
        "KAFKA_PROCESS_ROLES": "broker",
        "KAFKA_A__B_C": "underscore",
        "KAFKA_A___B": "dash",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "HOME": "/nowhere",
    }
    assert environment_overrides(environment) == {
        "log.retention.ms": "1",
        "process.roles": "broker",
        "a_b.c": "underscore",
        "a-b": "dash",
    }
