"""Comparing the answers of servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

# A server can be outvoted only where so many have answered: of two that differ, nobody knows which is wrong (26).
VOTES_MIN = 3


class Verdict(msgspec.Struct, frozen=True):
    """How the answers of servers relate.

    agree       all are equal; `wrong` is empty
    wrong       a majority of three or more is equal; `wrong` names the others
    undecided   they differ, and nobody has a majority; `wrong` names all of them
    """

    kind: Literal["agree", "wrong", "undecided"]
    wrong: tuple[str, ...] = ()


def judge(digests: Mapping[str, bytes], expected: Iterable[str]) -> Verdict:
    """Compare the digests by server. A majority is one of the servers that were expected, not only of those that answered."""
    groups: dict[bytes, list[str]] = {}
    for server in sorted(digests):
        groups.setdefault(digests[server], []).append(server)
    if len(groups) < 2:
        return Verdict("agree")
    largest = max(groups.values(), key=len)
    voters = max(len(digests), len(set(expected)))
    if len(digests) >= VOTES_MIN and 2 * len(largest) > voters:
        return Verdict("wrong", tuple(server for server in sorted(digests) if server not in largest))
    return Verdict("undecided", tuple(sorted(digests)))
