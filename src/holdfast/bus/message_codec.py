"""Messages of the bus as bytes, for the bus of a cluster.

    run      msgpack array of messages
    message  [subject, code, fields]     the codes are in `KINDS`, and are never used again

New fields go last, with a default. A node that does not know a field leaves it out; one that does not know a code passes the
message over. So nodes of two versions talk to each other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from holdfast.bus import message as messages
from holdfast.bus.message import BrowsedPage, CopyState, Delivered, DeliveredSlice
from holdfast.errors import HoldfastError, by_code
from holdfast.event.extent import Bounds
from holdfast.event.position import Ranges

log = logging.getLogger("holdfast.bus")

KINDS: dict[int, type[Any]] = {
    1: messages.Holding,
    2: messages.NoLongerHeld,
    3: messages.NotAttached,
    4: messages.CreditGranted,
    5: messages.HandedOn,
    6: messages.LinkDown,
    7: messages.SessionGone,
    8: messages.LinkCongested,
    9: messages.WatermarksAsked,
    10: messages.AdministrationAsked,
    11: messages.Watermark,
    12: messages.Question,
    13: messages.Reply,
    14: messages.BrowseAsked,
    15: messages.Delivered,
    16: messages.ReceiverGone,
    17: messages.Heartbeat,
    18: messages.ViewAsked,
    19: messages.ViewAnswered,
    20: messages.ApplyNowAsked,
    30: messages.NodeAsked,
    31: messages.NodeAnswered,
    32: messages.TransactionsInDoubt,
    33: messages.WatermarksTold,
}
CODES = {kind: code for code, kind in KINDS.items()}

_PAGE = "page"

Converter = Callable[[Any], Any]


def _error_out(error: HoldfastError | None) -> Any:
    return None if error is None else [error.code, error.family, error.sentence, error.fields]


def _error_in(said: Any) -> HoldfastError | None:
    if said is None:
        return None
    code, family, sentence, fields = said
    return by_code(code, sentence, fields, family)


def _value_out(value: Any) -> Any:
    return [_PAGE, value] if isinstance(value, BrowsedPage) else ["", value]


def _value_in(said: Any) -> Any:
    kind, value = said
    return BrowsedPage(_slices_in(value[0]), *value[1:]) if kind == _PAGE else value


def _slices_in(said: Sequence[Sequence[Any]]) -> list[DeliveredSlice]:
    made = (_made(DeliveredSlice, fields) for fields in said)
    return [each._replace(deaths=tuple(each.deaths)) if each.deaths else each._replace(deaths=()) for each in made]


def _made(kind: type[Any], fields: Sequence[Any]) -> Any:
    """A message of these fields; a newer sender may have more of them, an older one fewer."""
    return kind(*fields[: len(kind._fields)])


def _pairs_in(said: list[list[int]] | None) -> list[tuple[int, int]] | None:
    return None if said is None else [(first, last) for first, last in said]


# Fields that msgpack does not give back as they were: how they travel, and how they are made again.
_AS_THEY_ARE: Converter = lambda value: value  # noqa: E731
_FIELDS: dict[tuple[type[Any], str], tuple[Converter, Converter]] = {
    (messages.Holding, "held"): (Ranges.to_bytes, Ranges.from_bytes),
    (messages.Holding, "ahead"): (_AS_THEY_ARE, _pairs_in),
    (messages.NoLongerHeld, "lost"): (Ranges.to_bytes, Ranges.from_bytes),
    (messages.Reply, "value"): (_value_out, _value_in),
    (messages.Reply, "error"): (_error_out, _error_in),
    (messages.BrowseAsked, "within"): (_AS_THEY_ARE, lambda said: _made(Bounds, said)),
    (messages.Delivered, "slices"): (_AS_THEY_ARE, _slices_in),
    (messages.Heartbeat, "copies"): (_AS_THEY_ARE, lambda said: [_made(CopyState, fields) for fields in said]),
    (messages.TransactionsInDoubt, "transactions"): (
        _AS_THEY_ARE,
        lambda said: [(names, [tuple(each) for each in keys]) for names, keys in said],
    ),
    (messages.WatermarksTold, "levels"): (_AS_THEY_ARE, lambda said: [_made(messages.Watermark, fields) for fields in said]),
    (messages.ViewAnswered, "error"): (_error_out, _error_in),
    (messages.NodeAnswered, "error"): (_error_out, _error_in),
}


class MessageCodec:
    def __init__(self, arguments: Iterable[type[msgspec.Struct]] = ()) -> None:
        """`arguments` are the structs that Questions may carry, which the bus does not know by itself."""
        self._arguments = {kind.__name__: kind for kind in arguments}
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder().decode
        fields: dict[type[Any], list[tuple[int, Converter, Converter]]] = {}
        for (kind, name), (out, back) in _FIELDS.items():
            fields.setdefault(kind, []).append((kind._fields.index(name), out, back))
        place = messages.Question._fields.index("arguments")
        fields[messages.Question] = [(place, self._arguments_out, self._arguments_in)]
        self._fields = fields

    def encode(self, subject: str, message: Any) -> bytes:
        kind = type(message)
        converted = self._fields.get(kind)
        fields: Any = message
        if converted is not None and kind is not Delivered:  # its slices travel as they are
            fields = list(message)
            for place, out, _ in converted:
                fields[place] = out(fields[place])
        return self._encode((subject, CODES[kind], fields))

    def run(self, encoded: Iterable[bytes]) -> bytes:
        """Join messages that go together."""
        return self._encode([msgspec.Raw(each) for each in encoded])

    def decode(self, run: bytes) -> list[tuple[str, Any]]:
        """The messages of a run, each with its subject."""
        found = []
        for subject, code, fields in self._decode(run):
            kind = KINDS.get(code)
            if kind is None:
                log.warning("a message of kind %d on %s is passed over: a newer node has sent it", code, subject)
                continue
            for place, _, back in self._fields.get(kind, ()):
                if place < len(fields):
                    fields[place] = back(fields[place])
            found.append((subject, _made(kind, fields)))
        return found

    def _arguments_out(self, asked: Any) -> Any:
        return [type(asked).__name__, msgspec.to_builtins(asked, builtin_types=(bytes,))]

    def _arguments_in(self, said: Any) -> Any:
        name, fields = said
        return msgspec.convert(fields, self._arguments[name])
