"""Succession: who takes over from a primary that resigns.

The first by rank of those that are heard, take part, and are nearly synchronised: a successor applies the rest before it claims,
and every entry of it is a moment longer. Nothing that must be safe depends on this choice: the channel judges the claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.errors import BadSetting, Unavailable

# A copy that has more entries to apply would let its clients wait.
BEHIND_ENTRIES_MAX = 2_000


class Standing(NamedTuple):
    """A copy of a message manager, as its node told last."""

    node: str
    start: str
    epoch: int
    behind: int  # entries that are durable, and that it has not applied
    is_heard: bool
    is_drained: bool


def successors(
    manager: str, own: str, epoch: int, order: Sequence[str], standings: Mapping[str, Standing], wanted: str = ""
) -> list[Standing]:
    """The copies that can take over from the primary at node `own`, best first; with `wanted`, the one at that node. `order` are
    the nodes of the copies, by rank. Unavailable, with the reason for each, when none can."""
    if wanted and wanted not in order:
        raise BadSetting(f"node {wanted!r:.40} has no copy of {manager}; there are: {', '.join(order)}", setting="to")
    asked = [node for node in ((wanted,) if wanted else order) if node != own]
    hindered = {node: _hindrance(standings.get(node), epoch) for node in asked}
    able = [standings[node] for node in asked if not hindered[node]]
    if not able:
        why = "; ".join(f"{node} {reason}" for node, reason in hindered.items()) or f"{own} has the only copy"
        raise Unavailable(f"nobody can take {manager} over from {own} now: {why}. It goes on as before")
    return able


def _hindrance(standing: Standing | None, epoch: int) -> str:
    """Why a copy cannot take over; "" if it can."""
    if standing is None or not standing.is_heard:
        return "is silent"
    if standing.is_drained:
        return "is drained"
    if standing.epoch != epoch:
        return "has not followed so far"
    return f"has {standing.behind:,} entries to apply" if standing.behind > BEHIND_ENTRIES_MAX else ""
