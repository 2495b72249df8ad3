"""A head template: the head of events whose fields are equal, encoded and checked once, with room for what differs.

    before │ time │ after                            events that differ in time and data alone
    begin │ time │ id │ middle │ properties │ end    events that also have an id or properties of their own

The fields stand in the order in which `encode_head` writes them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

import msgspec

from holdfast.client.sending.batch_builder import EVENT_BYTES
from holdfast.client.sending.outgoing import prepare
from holdfast.event.event import Event, PropertyValue, check_properties, encode_head, from_microseconds

# A time that is looked for in the encoded head, of the year 4271.
_MARKER_US = 0x0102_0304_0506_0708
_MARKER_TIME = from_microseconds(_MARKER_US)
_NAMED = b"\xa1m\xcf"  # the name of the time in a head, and that its number has eight bytes
_MARKED = _NAMED + _MARKER_US.to_bytes(8, "big")
_ID, _PROPERTIES = b"\xa1i", b"\xa1p"  # the names of these
_pack_time = struct.Struct(">Q").pack


class HeadTemplate:
    __slots__ = ("_begin", "_count", "_end", "_middle", "after", "before", "has_group", "pack", "size")

    def __init__(self, event: Event) -> None:
        """Take all fields of `event` but id and time. It has no expiry and no delay. BadEvent if such an event cannot be sent."""
        like = msgspec.structs.replace(event, data=b"", id=None, time=_MARKER_TIME)
        self.before, self.after = _around_time(like)
        self._middle = _around_time(
            msgspec.structs.replace(like, properties=None, group=None, correlation_id=None, reply_to=None)
        )[1]  # fmt: skip
        self._end = self.after[len(self._middle) :]
        self._count, self._begin = self.before[0], self.before[1:]
        # The head of an event: pack(before, time in microseconds, after).
        self.pack: Callable[[bytes, int, bytes], bytes] = struct.Struct(f">{len(self.before)}sQ{len(self.after)}s").pack
        self.size = len(self.before) + 8 + len(self.after) + EVENT_BYTES  # of an event, without its data
        self.has_group = event.group is not None

    def head_with(self, time_us: int, id: str | None, properties: Mapping[str, PropertyValue] | None) -> bytes:
        """Make a head with an id or properties, where the template has none. BadEvent for a property that cannot travel."""
        count, own_id, own_properties = self._count, b"", b""
        if id is not None:
            count, own_id = count + 1, _ID + encode_head(id)
        if properties:
            count, own_properties = count + 1, _PROPERTIES + encode_head(check_properties(properties))
        time = _pack_time(time_us)
        return b"".join((bytes((count,)), self._begin, time, own_id, self._middle, own_properties, self._end))


def _around_time(event: Event) -> tuple[bytes, bytes]:
    before, found, after = prepare(event, {}).head.partition(_MARKED)
    assert found
    return before + _NAMED, after
