"""The terms of a request of HTTP: entity tags, conditions and ranges (RFC 9110, sections 8.8, 13 and 14). Pure.

The tag of a file is its digest in quotes: strong, because equal bytes have equal tags, at every place and for ever.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from holdfast.continuity.storage.write import ANY, Condition

_TAG = re.compile(r'(?:W/)?"([^"]*)"')
_RANGE = re.compile(r"bytes=(\d*)-(\d*)\Z")


class Stretch(NamedTuple):
    """Bytes from `begin` up to `end`, which is not included."""

    begin: int
    end: int


class Unsatisfiable(ValueError):
    """The range begins behind the end of the file."""


def tag_of(digest: str) -> str:
    return f'"{digest}"'


def condition_in(header: str, *, weak: bool) -> Condition:
    """The digests that If-Match or If-None-Match names. Weak tags match only where a weak comparison is meant (13.1.2)."""
    header = header.strip()
    if not header:
        return ()
    if header == "*":
        return ANY
    found = tuple(tag[1] for tag in _TAG.finditer(header) if weak or not tag[0].startswith("W/"))
    return found or ("",)  # a condition that names nothing we know holds for no file


def stretch_in(header: str, size: int) -> Stretch | None:
    """The stretch that a Range header asks for; None where the whole file is to be sent: no range, several, or one of another
    form, which may be ignored (14.2). Unsatisfiable for one that begins behind the end."""
    found = _RANGE.match(header.strip().replace(" ", ""))
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        last = int(found[2])
        if not last or not size:
            raise Unsatisfiable(header)
        return Stretch(max(0, size - last), size)
    begin = int(found[1])
    if found[2] and int(found[2]) < begin:
        return None
    if begin >= size:
        raise Unsatisfiable(header)
    return Stretch(begin, min(int(found[2]) + 1, size) if found[2] else size)
