"""Where each key of a TOML text stands, so that a mistake can be told with line and column.

The text is read by `tomllib`; this only walks over it a second time. It is for texts that are TOML: of others it finds some keys.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

Path = tuple[str | int, ...]


class Place(NamedTuple):
    line: int
    column: int


def places(text: str) -> Mapping[Path, Place]:
    """The place of each key, table and element of a list, by its path: ("rules", "disk", "actions", 0, "do")."""
    return _Walk(text.replace("\r\n", "\n")).places


def nearest(found: Mapping[Path, Place], path: Path) -> Place:
    """The place of a path, or of the table around it; the beginning if there is none."""
    for end in range(len(path), 0, -1):
        if path[:end] in found:
            return found[path[:end]]
    return Place(1, 1)


class _Walk:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self.places: dict[Path, Place] = {}
        self._counts: dict[Path, int] = {}  # tables of each list of tables
        self._table: Path = ()
        while self._skip(lines=True) < len(text):
            self._header() if text[self._at] == "[" else self._pair(self._table)

    def _header(self) -> None:
        begin = self._at
        is_list = self._text.startswith("[[", begin)
        self._at += 2 if is_list else 1
        path = self._keys()
        self._skip()
        self._at += 2 if is_list else 1
        own: Path = ()
        for step in path[:-1]:
            own = (*own, step)
            self._note(own, begin)
            if own in self._counts:
                own = (*own, self._counts[own] - 1)
        own = (*own, path[-1])
        if is_list:
            number = self._counts.get(own, 0)
            self._counts[own] = number + 1
            self._note(own, begin)
            own = (*own, number)
        self._table = own
        self._note(own, begin)

    def _pair(self, table: Path) -> None:
        begin = self._at
        keys = self._keys()
        path = (*table, *keys)
        for end in range(len(keys)):
            self._note((*table, *keys[: end + 1]), begin)
        self._skip()
        self._at += 1  # the sign =
        self._skip()
        self._value(path)

    def _value(self, path: Path) -> None:
        letter = self._text[self._at : self._at + 1]
        if letter == "[":
            self._list(path)
        elif letter == "{":
            self._inline(path)
        elif letter in ('"', "'"):
            self._string()
        else:
            while self._at < len(self._text) and self._text[self._at] not in ",]}\n#":
                self._at += 1

    def _list(self, path: Path) -> None:
        self._at += 1
        number = 0
        while self._skip(lines=True) < len(self._text) and self._text[self._at] != "]":
            self._note((*path, number), self._at)
            before = self._at
            self._value((*path, number))
            number += 1
            if self._skip(lines=True) < len(self._text) and self._text[self._at] == ",":
                self._at += 1
            elif self._at == before:
                return
        self._at += 1

    def _inline(self, path: Path) -> None:
        self._at += 1
        while self._skip(lines=True) < len(self._text) and self._text[self._at] != "}":
            before = self._at
            self._pair(path)
            if self._skip(lines=True) < len(self._text) and self._text[self._at] == ",":
                self._at += 1
            elif self._at == before:
                return
        self._at += 1

    def _keys(self) -> tuple[str, ...]:
        """A key, or several with dots between."""
        keys: list[str] = []
        while True:
            self._skip()
            begin = self._at
            if self._text[begin : begin + 1] in ('"', "'"):
                self._string()
            else:
                while self._at < len(self._text) and (self._text[self._at].isalnum() or self._text[self._at] in "_-"):
                    self._at += 1
            keys.append(_plain(self._text[begin : self._at]))
            self._skip()
            if self._text[self._at : self._at + 1] != ".":
                return tuple(keys)
            self._at += 1

    def _string(self) -> None:
        quote = self._text[self._at]
        end = quote * 3 if self._text.startswith(quote * 3, self._at) else quote
        self._at += len(end)
        while self._at < len(self._text) and not self._text.startswith(end, self._at):
            self._at += 2 if quote == '"' and self._text[self._at] == "\\" else 1
        self._at += len(end)
        while len(end) == 3 and self._text.startswith(quote, self._at):
            self._at += 1  # up to two quotes before the end belong to the text

    def _skip(self, lines: bool = False) -> int:
        """Pass over blanks and comments, and ends of lines if they mean nothing here."""
        while self._at < len(self._text):
            letter = self._text[self._at]
            if letter == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif letter in " \t" or (lines and letter == "\n"):
                self._at += 1
            else:
                break
        return self._at

    def _note(self, path: Path, at: int) -> None:
        begin = self._text.rfind("\n", 0, at) + 1
        self.places.setdefault(path, Place(self._text.count("\n", 0, at) + 1, at - begin + 1))


def _plain(key: str) -> str:
    if key[:1] not in ('"', "'"):
        return key
    try:
        value: Any = tomllib.loads(f"key = {key}")["key"]
        return str(value)
    except tomllib.TOMLDecodeError:
        return key
