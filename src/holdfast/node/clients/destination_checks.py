"""Checks of a destination, before anything is appended for it: whether it may be used, and whether it must be created first.

    there is one of this kind                 use it
    one of the other kind                     refused
    none, but it may be created on first use  a Create command goes ahead
    none, temporary                           refused: it is gone with the client that made it

While the channel is replayed, nobody knows yet which destinations there are: then a Create command ("if it is not there") goes
ahead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from holdfast.bus.message import AdministrationAsked
from holdfast.destination import name
from holdfast.errors import BadSetting, HoldfastError, NoSuchDestination, Unavailable, WrongKind
from holdfast.node.login.allowance import check_room

if TYPE_CHECKING:
    from holdfast.node.clients.manager_link import ManagerLink

Kind = Literal["queue", "topic"]


def no_such_channel(channel: str, known: Iterable[str]) -> HoldfastError:
    named = ", ".join(each for each in known if each) or "one that has no name"
    return BadSetting(f"there is no message manager {channel!r:.40} here; there is {named}", setting="channel")


def check_send(target: ManagerLink, destination: str, kind: Kind) -> None:
    """As `check_destination`, for a batch. To some of its own destinations only Holdfast itself sends."""
    if destination.startswith("_"):
        name.check_sendable(destination)
        if destination == name.ADMIN:
            target.tell(AdministrationAsked())
        elif name.is_temporary(destination):
            check_room(target.messages, destination, target.channel.pressure)
    if target.messages.kind_of(destination) != kind:
        check_destination(target, destination, kind)


def check_destination(target: ManagerLink, destination: str, kind: Kind) -> None:
    """Refuse a destination that cannot be used; create one that does not exist, if that is allowed."""
    found = target.messages.kind_of(destination) or target.being_created(destination)
    if found == kind:
        return
    if found is not None:
        raise WrongKind(
            f"{destination!r} is a {found}, not a {kind}; use client.{found}({destination!r})", destination=destination
        )
    if name.is_temporary(destination):
        _check_temporary(target, destination)
        return
    _check_place(target, destination)
    name.check_destination(destination)
    if not target.settings.is_create_on_first_use:
        raise _not_created(target, destination, kind)
    target.create_on_first_use(destination, kind)


def _check_place(target: ManagerLink, destination: str) -> None:
    """NoSuchDestination for one that has its place at another message manager; Unavailable for one that has none yet."""
    if target.places is None or (found := target.places.find(destination)) == target.name:
        return
    if found is None and target.settings.is_create_on_first_use:
        raise Unavailable(f"the place of {destination!r} is not known here, and cannot be made now; repeat later")
    if found is not None:
        raise NoSuchDestination(
            f"{destination!r} is not at message manager {target.name!r} but at {found!r}; ask where it is first: this client is "
            "older than the server, or broken",
            destination=destination,
        )


def _not_created(target: ManagerLink, destination: str, kind: Kind) -> HoldfastError:
    if not target.messages.is_primary:  # it may be there, further on in the journal
        return Unavailable(f"{kind} {destination!r} is not known yet: the server still reads its journal; try again soon")
    option = " --topic" if kind == "topic" else ""
    return NoSuchDestination(
        f"there is no {kind} {destination!r}, and this server creates none on first use; create it with "
        f"`holdfast destination create {destination}{option}` or client.create_{kind}({destination!r})",
        destination=destination,
    )


def _check_temporary(target: ManagerLink, destination: str) -> None:
    """NoSuchDestination for one that is gone with its client; before the channel is replayed nobody knows."""
    name.check_temporary(destination)
    if target.messages.is_gone(destination):
        raise NoSuchDestination(
            f"temporary destination {destination!r} is gone with the client that made it; nobody waits for this any more",
            destination=destination,
        )
