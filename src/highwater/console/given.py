"""What a browser gives: the fields of an order, the parameters of an address, and numbers in texts. Each has a
form, and anything else is refused with one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from starlette.requests import ClientDisconnect, Request

MOST_INT32: Final = (1 << 31) - 1
MOST_INT64: Final = (1 << 63) - 1
MOST_BYTES: Final = (1 << 15) - 1
"""Of a text in Kafka's protocol."""
MOST_LETTERS: Final = 1000
"""Of one parameter."""
MOST_TOPIC_LETTERS: Final = 249
"""Kafka's limit."""


class BadQuestion(ValueError):
    """The reason is for the viewer."""


class Form(NamedTuple):
    words: str
    is_met: Callable[[Any], bool]


def or_null(form: Form) -> Form:
    return Form(f"{form.words}, or null", lambda given: given is None or form.is_met(given))


def list_of(form: Form, words: str) -> Form:
    return Form(words, lambda given: isinstance(given, list) and all(map(form.is_met, given)))


def rows_with(**fields: Form) -> Form:
    """Rows that the console sent to the page and gets back. What else they have is passed over."""
    named = ", ".join(f"{name}: {form.words}" for name, form in fields.items())
    row = Form(
        "", lambda given: isinstance(given, dict) and all(form.is_met(given.get(at)) for at, form in fields.items())
    )
    return list_of(row, f"a list of rows with {named}")


def _is_number(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= MOST_INT32


def _is_header(given: object) -> bool:
    return isinstance(given, list) and len(given) == 2 and all(isinstance(each, str) for each in given)


TEXT: Final = Form("a text", lambda given: isinstance(given, str))
SHORT: Final = Form(
    f"a text of at most {MOST_BYTES} bytes", lambda given: isinstance(given, str) and len(given.encode()) <= MOST_BYTES
)
NAME: Final = Form(
    f"a name of 1 to {MOST_TOPIC_LETTERS} letters",
    lambda given: isinstance(given, str) and 0 < len(given) <= MOST_TOPIC_LETTERS,
)
NUMBER: Final = Form(f"a whole number from 0 to {MOST_INT32}", _is_number)
NUMBERS: Final = list_of(NUMBER, "a list of whole numbers")
TRUTH: Final = Form("true or false", lambda given: isinstance(given, bool))
TEXTS: Final = Form(
    "an object of texts",
    lambda given: isinstance(given, dict) and all(isinstance(each, str) for each in given.values()),
)
HEADERS: Final = list_of(Form("", _is_header), "a list of pairs of texts")
DIGITS: Final = Form("a number in a text", lambda given: isinstance(given, str) and _is_digits(given, MOST_INT64))

Fields = Mapping[str, Form]
"""What an order may hold, by name."""


async def order_of(request: Request, fields: Fields) -> dict[str, Any]:
    """The body of a POST. Raises BadQuestion if it is none, or holds what it should not."""
    try:
        text = (await request.body()).decode()
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
        json.dumps(found, ensure_ascii=False).encode()
    except BadQuestion:
        raise
    except (ValueError, RecursionError, ClientDisconnect) as wrong:
        raise BadQuestion("the body is a JSON object, in UTF-8") from wrong
    if not isinstance(found, dict):
        raise BadQuestion("the body is a JSON object")
    for name, given in found.items():
        if name not in fields:
            raise BadQuestion(f"unknown field {_short(name)}; there are {_listed(fields)}")
        if not fields[name].is_met(given):
            raise BadQuestion(f"{name} is {fields[name].words}")
    return found


def check_parameters(given: Iterable[tuple[str, str]], known: Collection[str]) -> None:
    """Raises BadQuestion for a parameter that is unknown, given twice, or very long."""
    seen = set()
    for name, text in given:
        if name not in known:
            raise BadQuestion(f"unknown parameter {_short(name)}; there are {_listed(known)}")
        if name in seen:
            raise BadQuestion(f"the parameter {name} is given twice")
        if len(text) > MOST_LETTERS:
            raise BadQuestion(f"the parameter {name} may have {MOST_LETTERS} letters")
        seen.add(name)


def number(text: str, what: str, most: int = MOST_INT64) -> int:
    """Raises BadQuestion."""
    if not _is_digits(text, most):
        raise BadQuestion(f"{what} is not a number from 0 to {most}: {_short(text)}")
    return int(text)


def _is_digits(text: str, most: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and int(text) <= most


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadQuestion("a field is given twice")
    return found


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _listed(names: Collection[str]) -> str:
    return ", ".join(names) or "none"


def _short(text: str) -> str:
    return text[:40]
