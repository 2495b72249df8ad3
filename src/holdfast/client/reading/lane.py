"""The lane of a reading: the session in the channel of what is read, where a server has several message managers (ADR 22)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.client.receiving.receive_options import Match
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session


async def lane_of(session: Session, destination: str, match: Match, channel: str, is_used: bool = False) -> Session:
    """Return the session in which this is read. BadSetting for a pattern whose channel was not said: it is in all of them."""
    lanes = session.lanes
    if lanes is None:
        return session
    if channel:
        return lanes.lane(channel)
    if match != "name":
        raise BadSetting(
            f"{destination!r} matches at several message managers, each with positions and places of its own; read it in each, "
            f"with channel= one of {', '.join(session.connection.channels)}",
            setting="channel",
        )
    return await lanes.at(destination, is_used)
