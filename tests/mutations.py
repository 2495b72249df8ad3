"""Frames that a broken or hostile client could send after it has logged in: valid ones, with something in them changed.

kind of frame ─▶ a valid head, as a list ─▶ one or two fields replaced, left out or added ─▶ bytes
                 a valid command in its body, the same way; a batch, with its fixed head or its heads changed and sealed anew
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.destination import command
from holdfast.errors import HoldfastError
from holdfast.event import batch
from holdfast.event.event import Head, encode_head
from holdfast.event.position import Ranges
from holdfast.node.administration.arguments import ACTIONS
from holdfast.wire import frame

NUMBERS = [0, 1, -1, 2, 4, 255, 256, 65_535, 65_536, 1 << 31, 1 << 32, (1 << 48) - 1, 1 << 53, 1 << 62, (1 << 63) - 1, 1 << 63,
           (1 << 64) - 1, -(1 << 31), -(1 << 63)]  # fmt: skip
TEXTS = ["", "q", "t", "_ADMIN", "_DMQ", "_LOG", "_temporary.x", "a.b.*", "glob:t", "regex:(", "\0", "ä€𝄞", "x" * 256,
         "y" * 70_000, "queue", "topic", "confirm", "release", "reject", "name", "glob", "regex", "unreadable",
         "type = 'x'", "a LIKE '%_%'", "((((", "create", "list", "describe", "extent"]  # fmt: skip
HEADS = [b"", b"\xc1", b"\x80", b"\x81\xa1t\x07", b"\x81\xa1t\xa2\xff\xff", b"\x81\xa1z" + b"\x91" * 5_000 + b"\xc0",
         encode_head(Head(type="x", group="g")), encode_head(Head(time_us=1 << 63, expires_at_ms=-5)),
         encode_head(Head(properties={"a": math.nan, "b": 1 << 63})), b"\x81\xa1l\x93\xff\x00\xc4\x00"]  # fmt: skip
BY_CLIENTS: list[type[frame.Message]] = [
    frame.Send, frame.Attach, frame.Credit, frame.Settle, frame.DetachReceiver, frame.ForgetProducer, frame.OpenProducer,
    frame.Manage, frame.Browse, frame.Part, frame.Commit, frame.Abandon, frame.ReadFragment, frame.Publish,
]  # fmt: skip


class Mutations:
    """`session`, `producer` and `position` are what a client that is logged in knows of itself."""

    def __init__(self, seed: int) -> None:
        self.session = self.producer = ""
        self.position = 0
        self._dice = random.Random(seed)
        self._token = 1 << 48

    # --- values ------------------------------------------------------------------------------------------------------

    def _number(self) -> int:
        return self._dice.choice([*NUMBERS, self.position, self.position + 1])

    def _nested(self) -> Any:
        """Something inside something, so often."""
        return msgspec.Raw(self._dice.choice([b"\x91", b"\x81\xa1a"]) * self._dice.choice([10, 400, 950, 20_000]) + b"\xc0")

    def _value(self) -> Any:
        dice = self._dice
        makers: list[Callable[[], Any]] = [
            self._number, self._number, lambda: dice.choice(TEXTS), lambda: dice.choice(TEXTS), lambda: dice.randbytes(16),
            lambda: dice.choice([None, True, False, 1.5, math.nan, math.inf, -0.0, b"", [], {}]), self._nested, self._ranges,
            lambda: [self._number() for _ in range(dice.randrange(4))], lambda: {dice.choice(TEXTS): self._number()},
            lambda: msgspec.msgpack.Ext(dice.randrange(128), b"x"), lambda: self.session, lambda: self.producer,
        ]  # fmt: skip
        return dice.choice(makers)()

    def _ranges(self) -> bytes:
        try:
            ends = sorted(abs(self._number()) for _ in range(2))
            return Ranges.of((ends[0], ends[1])).to_bytes()
        except OverflowError:
            return self._dice.randbytes(self._dice.choice([0, 7, 8, 16, 32]))

    def _changed(self, fields: list[Any]) -> list[Any]:
        """One or two of them are something else, or missing, or too many; now and then nothing is."""
        changed = list(fields)
        for _ in range(self._dice.choice([0, 1, 1, 1, 2])):
            at = self._dice.randrange(len(changed) + 1)
            if self._dice.random() < 0.02:
                del changed[at:]
            elif at == len(changed):
                changed.append(self._value())
            else:
                changed[at] = self._value() if self._dice.random() < 0.1 else self._like(changed[at])
        return changed

    def _like(self, value: Any) -> Any:
        """Another value of the same type, so that it is looked at more closely."""
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return self._number()
        if isinstance(value, str):
            return self._dice.choice(TEXTS)
        if isinstance(value, bytes):
            return self._ranges()
        if isinstance(value, dict):
            return {**value, self._dice.choice([*value, "x"]): self._value()}
        if isinstance(value, list):
            return [self._like(each) for each in value] * self._dice.choice([0, 1, 2])
        return self._value()

    # --- frames ------------------------------------------------------------------------------------------------------

    def next(self) -> bytes:
        """A frame. Most of them can be read, and are looked at more closely; one that cannot ends its link."""
        made = self._frame()
        while self._dice.random() < 0.97 and not _is_readable(made):
            made = self._frame()
        return made

    def _frame(self) -> bytes:
        kinds: list[type[frame.Message]] = [*BY_CLIENTS, frame.Send, frame.Send, frame.Part, frame.Manage, frame.Settle]
        kind = self._dice.choice([*frame.KINDS.values()] if self._dice.random() < 0.02 else kinds)
        head, body = self._changed(self._fields(kind)), self._body(kind)
        session = self._dice.choice([1] * 200 + [0, 2, 65_535])
        try:
            encoded = msgspec.msgpack.encode(head)
        except (ValueError, OverflowError):
            encoded = self._dice.randbytes(20)
        if self._dice.random() < 0.02:
            encoded = self._flipped(encoded)
        return framed(kind.KIND, session, encoded, body)

    def _fields(self, kind: type[frame.Message]) -> list[Any]:
        """Valid ones, as far as this client knows."""
        self._token += 1
        dice, token = self._dice, self._token
        where = dice.choice(["q", "t"])
        known: dict[type[frame.Message], list[Any]] = {
            frame.Hello: [frame.MAGIC, [1], "fuzz"],
            frame.OpenSession: [token, "fuzz", dice.choice(["", self.session])],
            frame.OpenProducer: [token, dice.choice(["", self.producer]), False, 1],
            frame.Send: [token, "queue"],
            frame.Attach: [token, dice.randrange(1, 5), where, "queue" if where == "q" else "topic", "s", b"", "", "name"],
            frame.Credit: [dice.randrange(1, 5), 10, 1 << 20],
            frame.Settle: [
                token,
                1,
                dice.choice(["confirm", "release", "reject"]),
                self._held(),
                self.position,
                0,
                True,
                "no",
                "",
            ],
            frame.DetachReceiver: [token, dice.randrange(2, 5)],
            frame.ForgetProducer: [token, self.producer],
            frame.Manage: [token, *self._management()],
            frame.Browse: [token, dice.choice(["q", "t", "_DMQ"]), "", 0, 10, "", 0, 0, [0, 1 << 62, 0, 1 << 62]],
            frame.Part: [token, "queue", "", False],
            frame.Commit: [token, "a", 1, [[1, self._held(), 0]]],
            frame.Abandon: [token, "a"],
            frame.ReadFragment: [token, 1, self.position, 0],
            frame.Publish: [token, "scope", 1, [["stage", 1]]],
            frame.CloseSession: [token],
        }
        return known.get(kind, [token, self._value(), self._value()])

    def _held(self) -> bytes:
        return Ranges.of((self.position, self.position)).to_bytes()

    def _management(self) -> tuple[str, dict[str, Any]]:
        action = self._dice.choice(list(ACTIONS))
        given: dict[str, Any] = {
            "name": self._dice.choice(["t", "fuzzed", "fuzzed.2", "_ADMIN"]), "kind": "queue", "topic": "t", "match": "name",
            "subscription": "s", "place": 0, "after": 0, "position": self.position, "names": ["stage"], "selector": "type = 'x'",
            "events_max": 7, "wait_ms": 0, "pieces": 2, "force": False,
        }  # fmt: skip
        known = ACTIONS[action].__struct_fields__
        chosen = {name: value for name, value in given.items() if name in known and self._dice.random() < 0.9}
        if chosen and self._dice.random() < 0.5:
            name = self._dice.choice(list(chosen))
            chosen[name] = self._like(chosen[name])
        return action, chosen

    # --- bodies ------------------------------------------------------------------------------------------------------

    def _body(self, kind: type[frame.Message]) -> bytes:
        if kind is frame.Send:
            fields = [
                self._dice.choice(["q", "q", "t", "_ADMIN"]),
                self.producer,
                self._dice.choice([0, 1, 2, 3, self._number()]),
            ]
            return self._command(command.BatchCommand.KIND, fields, self._batch())
        if kind is frame.Part:
            whose = self._dice.choice([self.session, "/"])
            fields = [whose, self._dice.choice(["a", "stage"]), self._dice.choice([1, 2, 3]), self._dice.choice(["q", ""])]
            fields += self._dice.choice([[], [[1, 2], 4, 8], [[0, 0], 0, 0]])
            return self._command(command.Part.KIND, fields, self._batch() if fields[3] else b"body")
        return self._dice.choice([b"", b"", b"x", self._dice.randbytes(50)])

    def _command(self, kind: int, fields: list[Any], payload: bytes) -> bytes:
        if self._dice.random() < 0.01:
            kind = self._dice.randrange(30)
        try:
            head = msgspec.msgpack.encode(self._changed(fields) if self._dice.random() < 0.4 else fields)
        except (ValueError, OverflowError):
            head = self._dice.randbytes(20)
        return bytes([kind]) + (len(head) & 0xFFFF).to_bytes(2, "little") + head + payload

    def _batch(self) -> bytes:
        dice, count = self._dice, self._dice.choice([1, 1, 2, 5])
        heads = [dice.choice([encode_head(Head()), dice.choice(HEADS)]) for _ in range(count)]
        bodies = [dice.choice([b"", b"7", b"[" * 2_000, b"\xff"]) for _ in range(count)]
        first_id = dice.choice([1, dice.getrandbits(128), (1 << 128) - 1, (1 << 128) - count])
        made = bytearray(
            batch.encode(heads, bodies, source=dice.choice(["", "fuzz", "ä"]), first_id=first_id, has_groups=count == 5)
        )
        if dice.random() < 0.4:
            # Flags, priority, how many, length of the source, times, lengths of heads and bodies.
            size, at = dice.choice([(1, 1), (1, 8), (2, 2), (2, 10), (8, 16), (8, 24), (8, 32), (4, 56), (4, 60)])
            made[at : at + size] = (self._number() % (1 << 8 * size)).to_bytes(size, "little")
        if dice.random() < 0.1:
            made = bytearray(self._flipped(bytes(made)))
        return batch.sealed(bytes(made[:64]), bytes(made[64:])) if dice.random() < 0.9 else bytes(made)

    def _flipped(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self._dice.randrange(1, 4)):
            if changed:
                changed[self._dice.randrange(len(changed))] = self._dice.randrange(256)
        return bytes(changed)


def _is_readable(made: bytes) -> bool:
    try:
        got = frame.decode(made)
        if isinstance(got.message, frame.Send | frame.Part):
            command.decode(got.body)
    except HoldfastError:
        return False
    return True


def framed(kind: int, session: int, head: bytes, body: bytes = b"") -> bytes:
    length = frame.LEAD_BYTES - 4 + len(head) + len(body)
    return (
        length.to_bytes(4, "little")
        + bytes([kind])
        + session.to_bytes(2, "little")
        + len(head).to_bytes(4, "little")
        + head
        + body
    )
