"""Identifiers as columns: whose event it is and which one, from the id alone, without a Python function in the way.

    01KB5T0R2M0000H8XK2Q   0000001A          an id of `event.identifier`: 26 letters of Crockford's base 32
    └ start, site, node ┘ └ counter ┘        98 bits and 32 bits: the cut goes through the twentieth letter

A producer is named by the first id of its start, the one with counter 0. Any other id is foreign: its producer is null, and it
has no counter that could have holes.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from holdfast.event.identifier import ALPHABET

# The letters of `conv`, in the order of ours.
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUV"
_OURS = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
_START_LETTERS = 10
_LETTERS_BEFORE = 19
_LETTERS_AFTER = 7
_COUNTERS = 1 << 32


def is_ours(identifier: Column) -> Column:
    """It may have been made by a node; whoever gives events ids of their own is free to make them otherwise."""
    return identifier.rlike(_OURS)


def producer_of(identifier: Column) -> Column:
    """The first id of the start that this one was counted from; null for a foreign id."""
    whole = F.shiftleft(F.shiftright(_low(identifier), 32), 2)
    letter = F.translate(F.conv(whole.cast("string"), 10, 32), _DIGITS, ALPHABET)
    named = F.concat(F.substring(identifier, 1, _LETTERS_BEFORE), letter, F.lit("0" * (_LETTERS_AFTER - 1)))
    return F.when(is_ours(identifier), named)


def counter_of(identifier: Column) -> Column:
    return F.when(is_ours(identifier), _low(identifier) % _COUNTERS)


def started_at(producer: Column) -> Column:
    """When the producer's start was taken: about when its client was opened."""
    return F.timestamp_millis(_number(F.substring(producer, 1, _START_LETTERS)))


def id_of(producer: Column, counter: Column) -> Column:
    """The id with this counter of a producer: what `producer_of` and `counter_of` took apart."""
    digits = F.conv((_low(producer) + counter).cast("string"), 10, 32)
    letters = F.translate(F.lpad(digits, _LETTERS_AFTER, "0"), _DIGITS, ALPHABET)
    return F.concat(F.substring(producer, 1, _LETTERS_BEFORE), letters)


def _low(identifier: Column) -> Column:
    """The counter, and the three bits of the start before it: what the last seven letters say."""
    return _number(F.substring(identifier, _LETTERS_BEFORE + 1, _LETTERS_AFTER))


def _number(letters: Column) -> Column:
    return F.conv(F.translate(letters, ALPHABET, _DIGITS), 32, 10).cast("long")
