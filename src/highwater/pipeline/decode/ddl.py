"""Spark's schema strings (`id BIGINT NOT NULL, tags ARRAY<STRING>`) as Arrow schemas, without a JVM to parse them."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

import pyarrow as pa

_PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMALS = ("decimal", "dec", "numeric")
_COMPOSED = ("array", "map", "struct")
_LARGEST_PRECISION = 38
_DEFAULT_DECIMAL = (10, 0)

TYPE_NAMES = (*_PLAIN, "decimal(p, s)", "array<…>", "map<string, …>", "struct<…>")

_TOKEN = re.compile(
    r"\s*(?:(?P<word>\w+)|`(?P<quoted>(?:[^`]|``)+)`|'(?P<text>(?:[^'\\]|\\.|'')*)'|(?P<mark>[<>(),:]))", re.DOTALL
)


class BadSchema(ValueError):
    """The schema string cannot be read; the message says where and why."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse_schema(ddl: str) -> pa.Schema:
    """The fields of a schema string. Raises BadSchema."""
    schema = pa.schema(_Parser(ddl).fields(end=""))
    if not schema.names:
        raise BadSchema("the schema is empty: it needs at least one field, such as 'id BIGINT'")
    return schema


class _Parser:
    def __init__(self, ddl: str) -> None:
        self._ddl = ddl
        self._tokens = self._read(ddl)
        self._next = 0

    def _read(self, ddl: str) -> list[_Token]:
        tokens, at = [], 0
        while ddl[at:].strip():
            match = _TOKEN.match(ddl, at)
            if match is None:
                start = at + len(ddl[at:]) - len(ddl[at:].lstrip())
                raise BadSchema(f"cannot read {ddl[start : start + 12]!r} at character {start + 1} of the schema")
            kind = str(match.lastgroup)
            text = match[kind].replace("``", "`") if kind == "quoted" else match[kind]
            tokens.append(_Token(kind, text, match.start(kind)))
            at = match.end()
        return [*tokens, _Token("end", "", len(ddl))]

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _takes(self, mark: str) -> bool:
        found = self._peek().kind == "mark" and self._peek().text == mark
        self._next += found
        return found

    def _takes_word(self, word: str) -> bool:
        found = self._peek().kind == "word" and self._peek().text.lower() == word
        self._next += found
        return found

    def _expect(self, mark: str, where: str) -> None:
        if not self._takes(mark):
            self._refuse(f"expected {mark!r} {where}")

    def _refuse(self, reason: str) -> NoReturn:
        token = self._peek()
        found = "the schema ends" if token.kind == "end" else f"found {token.text!r} at character {token.at + 1}"
        raise BadSchema(f"{reason}, {found}")

    def fields(self, end: str) -> list[pa.Field]:
        """Fields with commas between, up to the mark `end` ("" = the end of the string), which is taken."""
        fields: list[pa.Field] = []
        names: set[str] = set()
        while not self._ends(end):
            if fields:
                self._expect(",", "between two fields")
            field = self._field()
            if field.name.lower() in names:
                raise BadSchema(f"the field {field.name} is declared twice")
            names.add(field.name.lower())
            fields.append(field)
        return fields

    def _ends(self, end: str) -> bool:
        return self._takes(end) if end else self._peek().kind == "end"

    def _field(self) -> pa.Field:
        name = self._peek()
        if name.kind not in ("word", "quoted"):
            self._refuse("expected the name of a field")
        self._take()
        self._takes(":")
        kind = self._type(f"of the field {name.text}")
        nullable = True
        if self._takes_word("not"):
            if not self._takes_word("null"):
                self._refuse(f"expected NULL after NOT of the field {name.text}")
            nullable = False
        if self._takes_word("comment"):
            if self._peek().kind != "text":
                self._refuse(f"expected a quoted text after COMMENT of the field {name.text}")
            self._take()
        return pa.field(name.text, kind, nullable=nullable)

    def _type(self, owner: str) -> pa.DataType:
        token = self._peek()
        if token.kind != "word":
            self._refuse(f"expected the type {owner}")
        word = token.text.lower()
        if word in _PLAIN:
            self._take()
            return _PLAIN[word]
        if word in _DECIMALS:
            self._take()
            return self._decimal(owner)
        if word in _COMPOSED:
            self._take()
            return self._composed(word, owner)
        raise BadSchema(f"unknown type {token.text!r} {owner}; known are {', '.join(TYPE_NAMES)}")

    def _decimal(self, owner: str) -> pa.DataType:
        precision, scale = _DEFAULT_DECIMAL
        if self._takes("("):
            precision = self._number(owner)
            scale = self._number(owner) if self._takes(",") else 0
            self._expect(")", f"after the decimal {owner}")
        if not 1 <= precision <= _LARGEST_PRECISION or not 0 <= scale <= precision:
            raise BadSchema(
                f"decimal({precision}, {scale}) {owner}: the precision must be 1 to {_LARGEST_PRECISION}, "
                "the scale 0 to the precision"
            )
        return pa.decimal128(precision, scale)

    def _number(self, owner: str) -> int:
        if not re.fullmatch("[0-9]+", self._peek().text):
            self._refuse(f"expected a number in the decimal {owner}")
        return int(self._take().text)

    def _composed(self, word: str, owner: str) -> pa.DataType:
        self._expect("<", f"after {word} {owner}")
        if word == "struct":
            return pa.struct(self.fields(end=">"))
        if word == "array":
            element = self._type(f"of the elements {owner}")
            self._expect(">", f"after the element type {owner}")
            return pa.list_(pa.field("element", element))
        key = self._type(f"of the keys {owner}")
        self._expect(",", f"after the key type {owner}")
        if key != pa.string():
            raise BadSchema(f"the keys {owner} are {key}: keys of JSON are strings")
        value = self._type(f"of the values {owner}")
        self._expect(">", f"after the value type {owner}")
        return pa.map_(key, value)
