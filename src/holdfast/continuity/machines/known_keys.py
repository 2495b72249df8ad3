"""Known keys: which requests are known already, so that a retry through any engine is answered and never called again.

                      the key is not known       New        it is known from now on; the request is called
    judge(key, …) ──▶ known, the same digest     Known      place of the first, and the digest of the answer that was given
                      known, another digest      Clash      another request or other credentials: 422

    buckets by time    │ 14:00 │ 15:30 │ … │ 12:30 │ 14:00 │      one is forgotten as a whole, when all in it are old enough
                       └───────────────── kept ───────────┘      so a key is known for `kept` at least, a sixteenth more at most

All listeners must forget a key at the same event, or a retry would be called at one server and answered from the store at another
(continuity rule 1). So the clock is made of the times of events alone, in the order of the topic. It is the latest time so far:
an event with an earlier time does not turn it back. No other call moves it, and nothing else makes a key forgotten. Hand in the
time at which Holdfast accepted the event. With times of engines, one wrong clock would make all keys forgotten at once.

A key costs about 170 bytes, with the digest of its answer: a name of 15 bytes, made from the key, a value of 40, and a slot of a
dict (measured once: 173 bytes of resident memory for each of a million keys). Twelve requests a second, kept for a day, are a
million keys.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from holdfast.continuity.request import DIGEST_BYTES

# Enough that little is kept too long, few enough to look into each. The image says the number by its width.
BUCKETS = 16
# Just what fits into a 48-byte block. Of a hundred million keys, two are alike with a probability of 10 to the -20.
NAME_BYTES = 15
_GIVEN_FROM = DIGEST_BYTES + 8
_IMAGE_VERSION = 1


class New(NamedTuple):
    """The key was not known."""


class Known(NamedTuple):
    """The key is known with this digest."""

    place: int  # of the first request with it
    given: bytes | None  # the digest of the answer that was given, once an engine has published it


class Clash(NamedTuple):
    """The key is known with another digest."""

    place: int = 0  # of the first request with it


Judgement = New | Known | Clash
_NEW = New()


class KnownKeys:
    def __init__(self, kept_us: int) -> None:
        if kept_us <= 0:
            raise ValueError(f"keys are kept for a time above 0, not {kept_us}")
        self.kept_us = kept_us
        self.clock_us = 0  # the latest time of an event so far
        self._width_us = max(1, kept_us // BUCKETS)
        self._buckets: deque[tuple[int, dict[bytes, bytes]]] = deque()  # oldest first: number, and values by name

    def __len__(self) -> int:
        return sum(len(bucket) for _, bucket in self._buckets)

    def judge(self, key: str, digest: bytes, time_us: int, place: int) -> Judgement:
        """Judge a request, in the order of the topic; a new key is known from now on."""
        if len(digest) != DIGEST_BYTES:
            raise ValueError(f"a digest has {DIGEST_BYTES} bytes, not {len(digest)}")
        self.advance(time_us)
        name = _name(key)
        bucket = self._find(name)
        if bucket is None:
            self._newest()[name] = digest + place.to_bytes(8, "big")
            return _NEW
        value = bucket[name]
        first = int.from_bytes(value[DIGEST_BYTES:_GIVEN_FROM], "big")
        if not value.startswith(digest):
            return Clash(first)
        return Known(first, value[_GIVEN_FROM:] or None)

    def given(self, key: str, digest: bytes) -> None:
        """Note the answer that was given for a key, in the order of the topic: the first counts. An unknown key has none."""
        if len(digest) != DIGEST_BYTES:
            raise ValueError(f"a digest has {DIGEST_BYTES} bytes, not {len(digest)}")
        name = _name(key)
        bucket = self._find(name)
        if bucket is not None and len(bucket[name]) == _GIVEN_FROM:
            bucket[name] += digest

    def advance(self, time_us: int) -> None:
        """Move the clock by an event without a key, and forget what is old. An earlier time changes nothing."""
        if time_us <= self.clock_us:
            return
        self.clock_us = time_us
        buckets, width = self._buckets, self._width_us
        while buckets and (buckets[0][0] + 1) * width + self.kept_us <= time_us:
            buckets.popleft()

    def _find(self, name: bytes) -> dict[bytes, bytes] | None:
        for _, bucket in reversed(self._buckets):
            if name in bucket:
                return bucket
        return None

    def _newest(self) -> dict[bytes, bytes]:
        number = self.clock_us // self._width_us
        if not self._buckets or self._buckets[-1][0] != number:
            self._buckets.append((number, {}))
        return self._buckets[-1][1]

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def image(self) -> bytes:
        """Everything, for a snapshot: the same bytes at every listener that is at the same event."""
        buckets = [(number, b"".join(bucket), list(bucket.values())) for number, bucket in self._buckets]
        return msgspec.msgpack.encode(_Image(_IMAGE_VERSION, self.kept_us, self.clock_us, buckets))

    @classmethod
    def from_image(cls, data: bytes) -> KnownKeys:
        """What a snapshot knows; ValueError for bytes that are no image."""
        try:
            image = msgspec.msgpack.decode(data, type=_Image)
        except (msgspec.DecodeError, RecursionError) as problem:
            raise ValueError(f"this is no image of known keys: {problem}") from problem
        if image.version != _IMAGE_VERSION:
            raise ValueError(f"known keys of version {image.version} cannot be read here; the newest is {_IMAGE_VERSION}")
        keys = cls(image.kept_us)
        keys.clock_us = image.clock_us
        for number, names, values in image.buckets:
            if len(names) != NAME_BYTES * len(values):
                raise ValueError("this is no image of known keys: names are missing")
            cut = (names[at : at + NAME_BYTES] for at in range(0, len(names), NAME_BYTES))
            keys._buckets.append((number, dict(zip(cut, values, strict=True))))
        return keys


class _Image(msgspec.Struct, array_like=True, frozen=True):
    version: int
    kept_us: int
    clock_us: int
    buckets: list[tuple[int, bytes, list[bytes]]]


def _name(key: str) -> bytes:
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=NAME_BYTES).digest()
