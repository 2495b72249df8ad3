"""Effects as events: asks in the effects queue, and what became of them in the results topic.

    domain.NAME.effects    queue   asks: one from each server, with what is to be sent to which far side
    domain.NAME.results    topic   what became of them

    kind        kept    says
    begun       yes     the call to the far side begins: without a result after it, nobody knows whether it was done
    result      yes     the answer of the far side
    not done    yes     it was certainly not done: it may be carried out
    again       no      the result once more, for a server that asked later
    refused     no      a server gets no result, and why

Kept ones are in the subscription `history` of the results. The others are for egresses that wait at the moment; one that missed
its note asks again.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.continuity.machines.effects import How, Identity, Result
from holdfast.continuity.request import CONTENT_TYPE, Headers

ASK = "holdfast.effect.ask"
OUTCOME = "holdfast.effect.outcome"

OutcomeKind = Literal["begun", "result", "not done", "again", "refused"]
_PASSING = ("again", "refused")


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """The data of an ask: who asks, for which effect, and what is to be sent."""

    identity: Identity
    server: str
    how: How
    far: str  # the name of the far side
    method: str
    target: str
    headers: Headers
    body: bytes = b""
    is_replay: bool = False  # the server is being rebuilt
    place: int = 0  # of the request that asks


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """The data of an outcome."""

    identity: Identity
    kind: OutcomeKind
    result: Result | None = None
    server: str = ""  # with `refused`
    reason: str = ""
    stops_rebuild: bool = False
    place: int = 0  # of the request that asked; 0 if it is not known


_encoder = msgspec.msgpack.Encoder()
_asks = msgspec.msgpack.Decoder(Ask)
_outcomes = msgspec.msgpack.Decoder(Outcome)


def ask_fields() -> dict[str, Any]:
    return {"type": ASK, "datacontenttype": CONTENT_TYPE}


def outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """The fields with which `send` takes an outcome; one that passes says so, and is not kept."""
    fields: dict[str, Any] = {"type": OUTCOME, "datacontenttype": CONTENT_TYPE, "subject": outcome.identity.key}
    return fields | {"properties": {"passing": True}} if outcome.kind in _PASSING else fields


def encode(told: Ask | Outcome) -> bytes:
    return _encoder.encode(told)


def decode_ask(data: bytes) -> Ask:
    """The ask in an event; ValueError for an event that is none."""
    return _asks.decode(data)


def decode_outcome(data: bytes) -> Outcome:
    """The outcome in an event; ValueError for an event that is none."""
    return _outcomes.decode(data)


def identity_of(key: str) -> Identity:
    """The effect whose key this is. ValueError for a text that is no key."""
    try:
        transaction, digest, number = key.rsplit(".", 2)
        return Identity(transaction, bytes.fromhex(digest), int(number))
    except ValueError as problem:
        raise ValueError(f"{key!r:.120} is no key of an effect; copy it from the log of the carrier") from problem
