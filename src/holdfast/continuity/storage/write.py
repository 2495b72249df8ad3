"""The writes of a file store, as events of its topic: put, delete and move; and `join`, with which a place says that it is there.

A name is a path without a leading or trailing slash, as in `reports/2026/may.csv`. Bytes are named by their SHA-256, in hex. A
condition (`if_match`, `if_none_match`) is a tuple of digests, or `("*",)` for any; an empty tuple is no condition.
"""

from __future__ import annotations

import re
import unicodedata

import msgspec

from holdfast.errors import BadName

WRITE = "holdfast.store.write"
JOIN = "holdfast.store.join"

NAME_BYTES_MAX = 1024
DIGEST = re.compile(r"[0-9a-f]{64}\Z")
ANY = ("*",)
# Categories of Unicode: control characters, line and paragraph separators.
_CONTROLS = frozenset(("Cc", "Zl", "Zp"))

Condition = tuple[str, ...]


class Put(msgspec.Struct, frozen=True, tag="put"):
    """Give a name these bytes. `body` is None if they are staged under their digest."""

    name: str
    digest: str
    size: int
    body: bytes | None = None
    content_type: str = ""
    if_match: Condition = ()
    if_none_match: Condition = ()


class Delete(msgspec.Struct, frozen=True, tag="delete"):
    name: str
    if_match: Condition = ()


class Move(msgspec.Struct, frozen=True, tag="move"):
    """Give the bytes of a name to another one, which is replaced."""

    name: str
    to: str
    if_match: Condition = ()
    if_none_match: Condition = ()  # of `to`


Write = Put | Delete | Move

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Write)


def encode(write: Write) -> bytes:
    return _encoder.encode(write)


def decode(data: bytes) -> Write:
    """The write in the data of an event. ValueError if it is none."""
    write: Write = _decoder.decode(data)
    return write


def checked_file(name: str) -> str:
    """The name of a file, if it is one; BadName says what a name is made of."""
    parts = name.split("/")
    if not name or len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX or "\0" in name or {"", ".", ".."} & set(parts):
        raise BadName(
            f"{name!r:.80} is no name of a file: use up to {NAME_BYTES_MAX} bytes, no empty part, no '.' and '..', "
            "and no slash at the beginning or the end"
        )
    try:
        name.encode()
    except UnicodeEncodeError as problem:
        raise BadName(f"{name!r:.80} is no name of a file: it is no valid Unicode") from problem
    return name


def checked_new_file(name: str) -> str:
    """The name of a file that is to be written. It has no line break: listings, logs and scripts take names line by line.

    A file that got such a name from an earlier release can still be read, moved and deleted.
    """
    if any(unicodedata.category(each) in _CONTROLS for each in checked_file(name)):
        raise BadName(f"{name!r:.80} is no name of a new file: leave out line breaks and other control characters")
    return name
