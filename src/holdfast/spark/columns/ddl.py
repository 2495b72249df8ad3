"""The shape of JSON data, in the words of Spark's DDL, as an Arrow type.

    id BIGINT NOT NULL, amount DECIMAL(10, 2), lines ARRAY<STRUCT<sku: STRING, pieces: INT>>, labels MAP<STRING, STRING>

It is read here and not by Spark, which needs a running session for that: executors have none. A name that is not a plain word
stands in backticks. The Arrow types are those that Spark itself makes of the same DDL.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from holdfast.errors import BadSetting

LEVELS_MAX = 50
DECIMAL_DIGITS_MAX = 38

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|\w+|[<>(),:])")
_WORD = re.compile(r"\w+\Z")
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
_DECIMAL = ("decimal", "dec", "numeric")
_POSSIBLE = (
    "boolean, tinyint, smallint, int, bigint, float, double, decimal(digits, scale), string, binary, date, timestamp, "
    "timestamp_ntz, array<…>, map<string, …>, struct<name: …>"
)


def parse(text: str) -> pa.StructType:
    """BadSetting, with the place, for what is not a list of fields."""
    reader = _Reader(text)
    is_whole = reader.peek().lower() == "struct" and reader.follows("<")
    made = reader.kind(0) if is_whole else pa.struct(reader.fields("", 0))
    if reader.peek():
        raise reader.complaint("nothing more was expected here")
    return made


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0

    def peek(self) -> str:
        """The next token; "" at the end."""
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def follows(self, token: str) -> bool:
        """Whether this is the token after the next."""
        return self._at + 1 < len(self._tokens) and self._tokens[self._at + 1][0] == token

    def take(self) -> str:
        found = self.peek()
        self._at += 1
        return found

    def expect(self, token: str) -> None:
        if self.peek().lower() != token:
            raise self.complaint(f"{token!r} was expected here")
        self._at += 1

    def complaint(self, problem: str) -> BadSetting:
        column = self._tokens[self._at][1] + 1 if self._at < len(self._tokens) else len(self._text) + 1
        return BadSetting(
            f"dataSchema {self._text!r:.200}, column {column}: {problem}; write it as 'id BIGINT NOT NULL, name STRING'",
            setting="dataSchema",
            column=column,
        )

    def fields(self, end: str, level: int) -> list[pa.Field]:
        made: list[pa.Field] = []
        while True:
            name = self._name({field.name for field in made})
            if self.peek() == ":":
                self.take()
            kind = self.kind(level)
            made.append(pa.field(name, kind, nullable=not self._is_required()))
            if self.peek() == "," and self.take():
                continue
            if self.peek() == end:
                return made
            raise self.complaint(f"a comma or {'the end' if not end else repr(end)} was expected here")

    def _name(self, taken: set[str]) -> str:
        token = self.peek()
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        if not token.startswith("`") and not _WORD.match(token):
            raise self.complaint("the name of a field was expected here")
        if name in taken:
            raise self.complaint(f"there are two fields {name!r}")
        self._at += 1
        return name

    def _is_required(self) -> bool:
        is_required = self.peek().lower() == "not"
        if is_required:
            self.take()
            self.expect("null")
        if self.peek().lower() == "comment":
            self.take()
            if self.peek()[:1] not in ("'", '"'):
                raise self.complaint("a comment in quotes was expected here")
            self.take()
        return is_required

    def kind(self, level: int) -> pa.DataType:
        word = self.peek().lower()
        if level >= LEVELS_MAX:
            raise self.complaint(f"more than {LEVELS_MAX} levels")
        if word in _PLAIN:
            self.take()
            return _PLAIN[word]
        if word in _DECIMAL:
            return self._decimal()
        if word in ("array", "map", "struct"):
            return self._nested(word, level + 1)
        raise self.complaint(f"there is no type {self.peek()!r}; there are {_POSSIBLE}")

    def _nested(self, word: str, level: int) -> pa.DataType:
        self.take()
        self.expect("<")
        made: pa.DataType
        if word == "array":
            made = pa.list_(pa.field("element", self.kind(level)))
        elif word == "struct":
            made = pa.struct(self.fields(">", level))
        else:
            made = self._map(level)
        self.expect(">")
        return made

    def _map(self, level: int) -> pa.DataType:
        if self.peek().lower() != "string":
            raise self.complaint("the keys of a map are strings in JSON")
        self.take()
        self.expect(",")
        return pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", self.kind(level)))

    def _decimal(self) -> pa.DataType:
        self.take()
        if self.peek() != "(":
            return pa.decimal128(10, 0)
        self.take()
        digits = self._number()
        scale = 0
        if self.peek() == "," and self.take():
            scale = self._number()
        if not 1 <= digits <= DECIMAL_DIGITS_MAX or scale > digits:
            raise self.complaint(f"a decimal has 1 to {DECIMAL_DIGITS_MAX} digits, of which the scale is a part")
        self.expect(")")
        return pa.decimal128(digits, scale)

    def _number(self) -> int:
        if not (self.peek().isascii() and self.peek().isdigit() and len(self.peek()) < 4):
            raise self.complaint("a number was expected here")
        return int(self.take())


def _tokens(text: str) -> list[tuple[str, int]]:
    if not isinstance(text, str) or not text.strip():
        raise BadSetting("dataSchema is empty; write it as 'id BIGINT NOT NULL, name STRING'", setting="dataSchema")
    found: list[tuple[str, int]] = []
    at = 0
    while text[at:].strip():
        match: Any = _TOKEN.match(text, at)
        if match is None:
            column = len(text) - len(text[at:].lstrip()) + 1
            raise BadSetting(
                f"dataSchema {text!r:.200}, column {column}: {text[column - 1]!r} has no place in a schema; "
                "write names that are not plain words in `backticks`",
                setting="dataSchema",
                column=column,
            )
        found.append((match[1], match.start(1)))
        at = match.end()
    return found
