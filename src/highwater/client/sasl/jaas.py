"""`sasl.jaas.config`: one login module with its options, in the syntax of Java's JAAS files.

No error of this module quotes the text: a password with a wrong quote would be in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_HEAD = re.compile(r"\s*([\w.$]+)\s+(\w+)")
_OPTION = re.compile(r"""\s*([\w.-]+)\s*=\s*(?:"((?:[^"\\\r\n]|\\.)*)"|'((?:[^'\\\r\n]|\\.)*)'|([^\s;"'=]+))""")
_END = re.compile(r"\s*;\s*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    name: str
    """Without the package, which differs where Kafka's classes are shaded."""
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Raises ValueError."""
    head = _HEAD.match(text)
    if head is None or head[2].lower() not in _FLAGS:
        raise ValueError(_wrong("it must begin with the class of a login module and the word required"))
    options: dict[str, str] = {}
    at = head.end()
    while (end := _END.match(text, at)) is None:
        found = _OPTION.match(text, at)
        if found is None:
            raise ValueError(_wrong(f'after character {at} an option such as username="alice" or the ; is expected'))
        quoted = found[2] if found[2] is not None else found[3]
        options[found[1]] = found[4] if quoted is None else _unescaped(quoted)
        at = found.end()
    if end.end() != len(text):
        raise ValueError(_wrong("there is more after its ; (it must be one login module)"))
    return LoginModule(head[1].rpartition(".")[2], options)


def _wrong(why: str) -> str:
    return f"sasl.jaas.config cannot be read: {why}"


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text)
