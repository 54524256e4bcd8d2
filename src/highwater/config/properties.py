"""Java's .properties files, and the environment variables that replace them in Kafka's own image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Parses as java.util.Properties.load does; a later line wins. Raises ValueError for a broken \\uxxxx."""
    found = {}
    for line in _logical_lines(text):
        end = _key_end(line)
        rest = line[end:].lstrip(_BLANK)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANK)
        found[_unescape(line[:end])] = _unescape(rest)
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines, joined if one ends in an odd number of backslashes, without comments and blank lines."""
    pending = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANK)
        # A continuation of an empty line is a new line, even if it is a comment, as in Java since 9.
        if not pending and (not line or line[0] in "#!"):
            continue
        joined = pending + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = joined[:-1]
        else:
            pending = ""
            yield joined
    if pending:
        yield pending


def _key_end(line: str) -> int:
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANK:
        position += 2 if line[position] == "\\" else 1
    return min(position, len(line))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    if re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})", text):
        raise ValueError("Malformed \\uxxxx encoding")  # the text may be a password
    # A surrogate pair in two escapes is one character.
    plain = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.?))", replace, text, flags=re.DOTALL)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def format_properties(properties: Mapping[str, str]) -> str:
    """A file that `parse_properties` and Java read back unchanged."""
    return "".join(f"{_escape(key, key=True)}={_escape(value, key=False)}\n" for key, value in properties.items())


def _escape(text: str, *, key: bool) -> str:
    named = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    out = []
    for index, char in enumerate(text):
        if char in named:
            out.append(named[char])
        elif (char == " " and (key or index == 0)) or char in "=:#!":
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            out.extend(f"\\u{unit:04x}" for unit in _utf16_units(char))
    return "".join(out)


def _utf16_units(char: str) -> Iterator[int]:
    raw = char.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(raw), 2):
        yield int.from_bytes(raw[at : at + 2], "big")


NOT_SETTINGS = frozenset(
    {
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION",
    }
)
"""Variables that Kafka's image uses for its scripts and its JVM."""


def environment_overrides(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings in KAFKA_ variables: `_` is a dot, `__` an underscore, `___` a dash."""
    return {
        name.removeprefix("KAFKA_").lower().replace("_", ".").replace("...", "-").replace("..", "_"): value
        for name, value in sorted(environment.items())
        if name.startswith("KAFKA_") and name not in NOT_SETTINGS
    }
