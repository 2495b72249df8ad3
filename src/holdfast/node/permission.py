"""Whether a session's user may do what it asks for: the one place where rules are asked, before anything is appended.

    check_access(session, action, destination)     a destination by its name
    check_pattern(session, action, pattern)        all destinations that a pattern could match
    check_request(session, message)                what the frames that carry a token need

    Send, Part          send              Manage  create, delete, subscribe …   manage
    Attach              receive                   describe, subscriptions       any action on that destination
    Browse              browse                    list                          shows what the user may do anything to
                                                  extent, more                  browse
                                                  confirm_up_to                 receive
                                                  status, drop_stages           whoever has logged in

Where there are no users (embedded mode, a server without a users file) a session has no rights to ask, and everything is allowed.
"""

from __future__ import annotations

import logging
from typing import Any

from holdfast.access.access_list import Action
from holdfast.destination.name import DEAD
from holdfast.destination.subscription import pattern_of, pattern_of_key
from holdfast.errors import AccessDenied
from holdfast.event.pattern import Pattern
from holdfast.session.session import Session
from holdfast.wire import frame

log = logging.getLogger("holdfast.access")

# Named by the server for one session, which alone may receive from it: whoever was told the name may send there.
TEMPORARY = "_temporary."
# What an action that names no destination is a matter of.
ADMINISTRATION = "_ADMIN"
# Denials of one session that are written to the log.
DENIALS_LOGGED_MAX = 100
# What actions on destinations need, if not to manage them.
_MANAGED: dict[str, Action] = {"subscriptions": "browse", "extent": "browse", "more": "browse", "confirm_up_to": "receive"}


def check_access(session: Session, action: Action, destination: str) -> None:
    """AccessDenied unless the user of this session may do this to this destination."""
    rights = session.rights
    if rights is None or rights.may(action, destination):
        return
    if destination.startswith(TEMPORARY) and action in ("send", "receive"):
        return
    raise _denied(session, action, destination)


def check_pattern(session: Session, action: Action, pattern: Pattern) -> None:
    """AccessDenied unless the user may do this to everything the pattern could match, now and later."""
    if session.rights is not None and not session.rights.may_pattern(action, pattern):
        raise _denied(session, action, pattern.text)


def check_request(session: Session, message: frame.Message) -> None:
    if session.rights is None:
        return
    if isinstance(message, frame.Attach):
        if message.match == "name":
            check_access(session, "receive", message.destination)
        else:
            made = Pattern.glob if message.match == "glob" else Pattern.regex
            check_pattern(session, "receive", made(message.destination))
    elif isinstance(message, frame.Browse):
        pattern = pattern_of_key(message.destination)
        if pattern is None:
            check_access(session, "browse", message.destination)
        else:
            check_pattern(session, "browse", pattern)
    elif isinstance(message, frame.Manage):
        _check_manage(session, message)


def _check_manage(session: Session, message: frame.Manage) -> None:
    assert session.rights is not None
    if message.action in ("list", "status", "temporary", "drop_stages"):
        return
    if message.action == "dead_cursor":
        check_access(session, "browse", DEAD)
        return
    given = message.arguments.get("topic", message.arguments.get("name", ADMINISTRATION))
    destination = given if isinstance(given, str) else ADMINISTRATION
    if destination.startswith(TEMPORARY) and message.action == "delete":  # its own client may, and nobody else
        return
    match = message.arguments.get("match", "name")
    action = _MANAGED.get(message.action, "manage")
    if match in ("glob", "regex"):
        check_pattern(session, action, pattern_of(destination, match))
    elif message.action not in ("describe", "subscriptions"):
        check_access(session, action, destination)
    elif not session.rights.may_see(destination):
        raise _denied(session, "browse", destination)


def visible(session: Session, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of a list of destinations, those the user may do anything to."""
    rights = session.rights
    return rows if rights is None else [row for row in rows if rights.may_see(row["name"])]


def _denied(session: Session, action: Action, destination: str) -> AccessDenied:
    assert session.rights is not None
    user = session.rights.user
    if len(session.denials) < DENIALS_LOGGED_MAX and (action, destination) not in session.denials:
        session.denials.add((action, destination))
        log.warning("%s may not %s %r; refused", user, action, destination)
    return AccessDenied(
        f"user {user!r} may not {action} {destination!r}; ask for a rule in the server's users file that allows it",
        user=user,
        action=action,
        destination=destination,
    )
