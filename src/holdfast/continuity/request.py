"""A request, as it travels in the topic of its domain: what the client sent, and what makes it the same request everywhere.

    event id    the transaction number: one for each request, the same at all servers
    properties  domain, session, sequence, key, digest, engine, start: who asks, for whom, and where the answer goes
    data        method, target, headers, body, time and seed, packed; a body over BODY_MAX travels as a large event

`key` is the client's Idempotency-Key, or one that the engine made. The same key with another `digest` is another request, and is
refused. `sequence` informs; the order is that of the topic (continuity rule 16).
"""

from __future__ import annotations

import base64
from hashlib import blake2b
from typing import Any

import msgspec

Headers = list[tuple[bytes, bytes]]  # names in lower case, in the order in which they came

REQUEST = "holdfast.http.request"
ENGINE = "holdfast.domain.engine"
MEMBER = "holdfast.domain.member"
GIVEN = "holdfast.domain.given"
SKIP = "holdfast.domain.skip"
SNAPSHOT = "holdfast.domain.snapshot"
SESSION = "holdfast.domain.session"
# In the topic of disagreements: see `engine.disagreements`.
DISAGREEMENT = "holdfast.domain.disagreement"

CONTENT_TYPE = "application/x-msgpack"
# A body larger than this is streamed into the topic.
BODY_MAX = 1 << 20
DIGEST_BYTES = 16


class Content(msgspec.Struct, array_like=True, frozen=True):
    """The data of a request's event."""

    method: str
    target: str  # path and query, as the client wrote them
    headers: Headers
    body: bytes = b""
    time_us: int = 0  # Holdfast-Time
    seed: int = 0  # Holdfast-Seed


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request with everything that its event carries."""

    transaction: str
    domain: str
    session: str
    sequence: int
    key: str
    digest: bytes
    engine: str  # the name of the engine that asked
    start: str  # its start id: an engine that was started again has another
    content: Content


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Content)


def digest_of(method: str, target: str, headers: Headers, body: bytes, credentials: frozenset[bytes]) -> bytes:
    """The digest of a request: method, target, body and the headers that say who asks (continuity rule 18)."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    named = sorted([b"%s:%s" % each for each in headers if each[0] in credentials])
    for part in (method.encode(), target.encode(), *named):
        digest.update(len(part).to_bytes(8, "big") + part)
    digest.update(len(body).to_bytes(8, "big"))
    digest.update(body)
    return digest.digest()


def unknown_coding(headers: Headers) -> str:
    """The Transfer-Encoding of a body that nobody here can decode; nothing for none, and for `chunked`, which the parser undoes.

    The header concerns one connection, so it is not passed on: a server would take the coded bytes for the body itself.
    """
    told = ", ".join(value.decode("latin-1").strip() for name, value in headers if name == b"transfer-encoding")
    return told if told.lower() not in ("", "chunked") else ""


def fields_of(request: Request) -> dict[str, Any]:
    """The fields with which `send` takes a request: `topic.send(data_of(request), **fields_of(request))`."""
    return {
        "id": request.transaction,
        "type": REQUEST,
        "datacontenttype": CONTENT_TYPE,
        "properties": {
            "domain": request.domain,
            "session": request.session,
            "sequence": request.sequence,
            "key": request.key,
            "digest": request.digest.hex(),
            "engine": request.engine,
            "start": request.start,
        },
    }


def data_of(request: Request) -> bytes:
    return _encoder.encode(request.content)


def fields_of_large(request: Request) -> dict[str, Any]:
    """The fields with which `send_stream` takes a request whose body is streamed: everything but the body is in the head."""
    fields = fields_of(request)
    packed = _encoder.encode(msgspec.structs.replace(request.content, body=b""))
    fields["properties"]["content"] = base64.b64encode(packed).decode()
    return fields


def content_of_large(properties: Any) -> bytes:
    """The data of a request whose body is streamed, as `from_event` takes it; its body is empty."""
    return base64.b64decode(str(properties["content"]))


def from_event(id: str, properties: Any, data: bytes) -> Request:
    """The request in an event. ValueError for an event that is none."""
    try:
        return Request(
            transaction=id, domain=properties["domain"], session=properties["session"], sequence=properties["sequence"],
            key=properties["key"], digest=bytes.fromhex(properties["digest"]), engine=properties["engine"],
            start=properties["start"], content=_decoder.decode(data),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, msgspec.DecodeError) as problem:
        raise ValueError(f"event {id} is no request: {problem}") from problem
