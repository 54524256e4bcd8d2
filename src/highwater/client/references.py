"""References to secrets, in the syntax of Kafka's config providers (KIP-297): a setting names where its value is.

`${env:NAME}` is a variable of the environment, `${file:/path:key}` a key of a properties file, and
`${directory:/path:name}` the content of a file in a folder, as Kubernetes and Docker mount secrets. They are looked up
where a connection is made, in each process anew, so that a secret travels nowhere.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from highwater.config.properties import parse_properties

FORMS = "${env:NAME}, ${file:/path:key} or ${directory:/path:name}"

_REFERENCE = re.compile(r"\$\{(env|file|directory):([^{}]+)\}")


def is_reference(text: str) -> bool:
    """Whether the text is exactly one reference."""
    return _REFERENCE.fullmatch(text.strip()) is not None


def resolved(text: str) -> str:
    """The text with the values in the place of its references. Raises ValueError, which has no value in it."""
    return _REFERENCE.sub(lambda found: _value(found[1], found[2]), text)


def _value(provider: str, place: str) -> str:
    if provider == "env":
        if (value := os.environ.get(place)) is None:
            raise ValueError(f"${{env:{place}}}: the environment of this process has no variable {place}")
        return value
    path, colon, key = place.rpartition(":")
    if not colon or not path or not key:
        raise ValueError(
            f"${{{provider}:{place}}}: expected ${{{provider}:/path:{'key' if provider == 'file' else 'name'}}}"
        )
    if provider == "directory":
        if "/" in key or key == "..":
            raise ValueError(f"${{directory:{place}}}: {key} is not the name of a file in {path}")
        try:
            return _content(Path(path) / key).rstrip("\r\n")
        except ValueError as error:
            raise ValueError(f"${{directory:{place}}}: {error}") from None
    try:
        values = parse_properties(_content(Path(path)))
    except ValueError as error:
        raise ValueError(f"${{file:{place}}}: {error}") from None
    if key not in values:
        raise ValueError(f"${{file:{place}}}: {path} has no key {key}")
    return values[key]


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8") from None
