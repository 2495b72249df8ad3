"""Shared configuration: what must be equal at all nodes, what nodes acquire from each other, and whose version counts (ADR 28).

essential     equal everywhere, or the node does not start: `differences` names each key and both values
acquirable    a document (settings, or users) that the cluster has in a version, and each node in a copy

A copy remembers the digest of the document that it was made from, its base. What is done when a node starts follows from three
digests, and from nothing else: no date, no version number.

    this node has      the cluster has
    nothing            nothing            NOTHING
    nothing            something          FETCH
    something          nothing            OFFER
    what it was        what it was        IN_STEP
    what it was        something else     FETCH      changed online while the node was away
    something else     what it was        OFFER      edited here, and nowhere else
    something else     the same           IN_STEP    edited alike at two places
    something else     something else     CONFLICT   edited on both sides: a person decides

Documents are compared whole, and never merged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

# Settings by their names, each as text, a number or true or false.
Value = str | int | bool
Values = Mapping[str, Value]

NOT_SET = "(not set)"
DIGEST_BYTES = 16


class Judgement(Enum):
    NOTHING = "nothing"
    IN_STEP = "in step"
    FETCH = "fetch"
    OFFER = "offer"
    CONFLICT = "conflict"


class Difference(NamedTuple):
    key: str
    here: Value
    there: Value

    def __str__(self) -> str:
        return f"{self.key} is {_shown(self.here)} here and {_shown(self.there)} in the cluster"


class Document(NamedTuple):
    """What the cluster has: a text, and how many there were before it."""

    text: str
    version: int

    @property
    def digest(self) -> str:
        return digest(self.text)


class Copy(NamedTuple):
    """What a node has: its text, and the digest of the document that it was made from; "" for one that was made here."""

    text: str
    base: str = ""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).digest()[:DIGEST_BYTES].hex()


def differences(here: Values, there: Values) -> list[Difference]:
    """The keys that differ, in order."""
    keys = sorted({*here, *there})
    return [Difference(key, here.get(key, NOT_SET), there.get(key, NOT_SET)) for key in keys if here.get(key) != there.get(key)]


def judge(copy: Copy | None, shared: Document | None) -> Judgement:
    """What a node does about a document when it starts."""
    if copy is None:
        return Judgement.NOTHING if shared is None else Judgement.FETCH
    if shared is None:
        return Judgement.OFFER
    own, theirs = digest(copy.text), shared.digest
    if own == theirs:
        return Judgement.IN_STEP
    if own == copy.base:
        return Judgement.FETCH
    return Judgement.OFFER if theirs == copy.base else Judgement.CONFLICT


def edited(kept: Values, given_before: Values, given: Values) -> dict[str, Value]:
    """Settings as a node would have them: those of its copy, and over them the options that were given anew since. An option that
    is given as it was before says nothing: the cluster may have changed its value since."""
    return {**kept, **{key: value for key, value in given.items() if given_before.get(key) != value}}


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
