"""Frames from before positions named their channel: a link between an older and a newer side goes on (ADR 22)."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.wire import frame
from holdfast.wire.frame import Message, Slice

# Recorded before the field came, and what they said.
RECORDED: dict[str, Message] = {
    "2e000000020100270000009801a8686f6c6466617374ce00110000cd138840cf000001a1b2bb9400a83730653966373037c3": frame.Welcome(
        1, "holdfast", frame.FRAME_BYTES_MAX, 5000, 64, 1_794_000_000_000, "70e9f707", True
    ),
    "210000000301001a00000094cf0001000000000000a473686f70a930314a2d372f616e6ec3": frame.OpenSession(
        1 << 48, "shop", "01J-7/ann", True
    ),
    "2e0000000401002700000094cf0001000000000000a930314a2d372f616e6ec410000102030405060708090a0b0c0d0e0fc3": frame.SessionOpened(
        1 << 48, "01J-7/ann", bytes(range(16)), True
    ),
    "150000000801000e00000095072901c391930002ce00010000": frame.Receipted(7, 41, 1, True, ((0, 2, 65_536),)),
    "210000000b01001a00000093039199ce002900000200c305a090cf00065fa22cba2000c2c3": frame.Deliver(
        3, [Slice(2_686_976, 2, 0, True, 5, "", (), 1_794_000_000_000_000, False)], True
    ),
    "450000000c01003e0000009ecf000100000000000103a772656c65617365c4100000000000000000000000000000000000cd01f4c3a462757379"
    "a00402ce00290000a56578616374a0": frame.Settle(
        (1 << 48) + 1, 3, "release", bytes(16), 0, 500, True, "busy", "", 4, 2, 2_686_976, "exact", ""
    ),
    "270000001c01002000000096cf000100000000000203ce0029000001a8676c6f623a612e2aa56175646974": frame.ReadFragment(
        (1 << 48) + 2, 3, 2_686_976, 1, "glob:a.*", "audit"
    ),
}
NEWER: dict[str, object] = {
    "channel": "m2",
    "channels": ["m1", "m2"],
    "incarnation": "m2",
    "link": 3,
    "local": "l",
    "heard_from": "h",
}
of_each = pytest.mark.parametrize(("recorded", "said"), RECORDED.items(), ids=[type(each).__name__ for each in RECORDED.values()])


@of_each
def test_a_frame_of_before_is_of_the_one_channel_that_has_no_name(recorded: str, said: Message) -> None:
    read = frame.decode(bytes.fromhex(recorded)).message
    assert read == said
    assert not getattr(read, said.__struct_fields__[-1])


@of_each
def test_a_side_of_before_passes_over_the_channel(recorded: str, said: Message) -> None:
    added = [name for name in said.__struct_fields__ if name in NEWER and not getattr(said, name)]
    fields = said.__struct_fields__[: -len(added)]
    assert (*fields, *added) == said.__struct_fields__  # they are the last ones
    newer = msgspec.structs.replace(said, **{name: NEWER[name] for name in added})
    head = frame.encode_lead(1, newer, 0)[frame.LEAD_BYTES :]
    older = msgspec.defstruct("Older", [(name, object) for name in fields], array_like=True)
    assert msgspec.structs.astuple(msgspec.msgpack.decode(head, type=older)) == tuple(
        msgspec.msgpack.decode(bytes.fromhex(recorded)[frame.LEAD_BYTES :])
    )
