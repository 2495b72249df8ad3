"""Permission: whether the user of a session may do what it asks for. Rules are asked here alone, before anything is appended.

    check_access(session, action, destination)     a destination by its name
    check_pattern(session, action, pattern)        all destinations that a pattern could match
    check_where(session, action, where)            either of the two
    check_arguments(session, asked)                what an action of administration touches, as its arguments say

    Send, Part          send              Manage  create, delete, subscribe …   manage
    Attach              receive                   describe, subscriptions       any action on that destination
    ReadFragment        receive, browse           list, status                  show what the user may do anything to
    Browse              browse                    extent, more                  browse
                                                  confirm_up_to                 receive
                                                  log                           send to `_LOG`
                                                  temporary, drop_stages        every user: they are the user's own

The right that an action of administration needs stands with its arguments (`administration.arguments`). Where there are no users
(embedded mode, a server without a users file) sessions have no rights to be asked, and everything is allowed.
"""

from __future__ import annotations

from typing import Any

from holdfast.access.access_list import ACTIONS, Action
from holdfast.destination.name import LENGTH_MAX, is_temporary
from holdfast.destination.state.subscription import pattern_of, where_of, where_of_key
from holdfast.errors import AccessDenied
from holdfast.event.pattern import Pattern
from holdfast.node.administration.touched import Arguments
from holdfast.session.session import ReceiverPlace, Session, owner_of
from holdfast.wire import frame

# One destination or subscription, as administration shows it; and several.
Row = dict[str, Any]
Rows = list[Row]


def check_access(session: Session, action: Action, destination: str) -> None:
    """AccessDenied unless the user of this session may do this to this destination."""
    rights = session.rights
    if rights is None or rights.may(action, destination):
        return
    if is_temporary(destination) and action in (
        "send",
        "receive",
    ):  # who may receive from it is checked when the receiver is opened
        return
    raise _denied(session, action, destination)


def check_pattern(session: Session, action: Action, pattern: Pattern) -> None:
    """AccessDenied unless the user may do this to everything the pattern could match, now and later."""
    if session.rights is not None and not session.rights.may_pattern(action, pattern):
        raise _denied(session, action, pattern.text)


def check_where(session: Session, action: Action, where: str | Pattern) -> None:
    if isinstance(where, str):
        check_access(session, action, where)
    else:
        check_pattern(session, action, where)


def check_attach(session: Session, message: frame.Attach) -> None:
    check_where(session, "receive", where_of(message.destination, message.match))


def may_receive(session: Session, place: ReceiverPlace) -> bool:
    """Whether a receiver that was opened before may go on."""
    if session.rights is None:
        return True
    try:
        check_where(session, "receive", where_of_key(place.destination))
    except AccessDenied:
        return False
    return True


def check_browse(session: Session, message: frame.Browse) -> None:
    check_where(session, "browse", where_of_key(message.destination))


def check_read_fragment(session: Session, message: frame.ReadFragment) -> None:
    """Of an event that nobody was handed: as when it is browsed."""
    check_where(session, "browse", where_of_key(message.destination))


def check_arguments(session: Session, asked: Arguments) -> None:
    """AccessDenied unless the user may do what this action does to what it touches."""
    rights, touched = session.rights, asked.touched
    if rights is None or touched is None:
        return
    if touched.right != "any":
        check_where(session, touched.right, touched.where)
    elif not _may_see(session, touched.where):
        raise _denied(session, "browse", str(touched.where))


def _may_see(session: Session, where: str | Pattern) -> bool:
    """A user who may do anything to a destination, or to all that a pattern matches, may know of it."""
    rights = session.rights
    if rights is None:
        return True
    return rights.may_see(where) if isinstance(where, str) else any(rights.may_pattern(action, where) for action in ACTIONS)


# --- answers of which a user sees a part ---------------------------------------------------------------------------------


def visible(session: Session, rows: Rows) -> Rows:
    """Those of a list of destinations that the user may do anything to."""
    rights = session.rights
    return rows if rights is None else [visible_destination(session, row) for row in rows if rights.may_see(row["name"])]


def visible_destination(session: Session, row: Row) -> Row:
    """The row of a destination, without the subscriptions that the user may not see."""
    lists = [name for name in ("subscriptions", "pattern_subscriptions") if name in row]
    return {**row, **{name: visible_subscriptions(session, row[name]) for name in lists}}


def visible_subscriptions(session: Session, rows: Rows) -> Rows:
    """Those subscriptions of a topic that the user may see. A pattern's subscription counts events of other topics too: it is
    shown to users who may do anything to all of these."""
    if session.rights is None:
        return rows
    return [row for row in rows if row["pattern"] is None or _may_see(session, pattern_of(row["pattern"], row["match"]))]


def visible_pages(session: Session, rows: Rows) -> Rows:
    """Those subscriptions of all topics and patterns of which the user may know the topic, or all that the pattern matches."""
    return visible_subscriptions(session, [row for row in rows if row["topic"] is None or _may_see(session, row["topic"])])


def visible_status(session: Session, status: Row) -> Row:
    """The status without destinations that the user may not do anything to. The count of all waiting events, and names
    that are like others, are for users who may know of all destinations."""
    may_see_all = _may_see(session, Pattern.glob("**"))
    return {
        **status,
        **{each: [name for name in status[each] if _may_see(session, name)] for each in ("blocked", "deduplicate_shortened")},
        **{
            each: [row for row in status[each] if _visible_place(session, row) is not None]
            for each in ("dead", "redelivered_often")
        },
        "perhaps_topics": status["perhaps_topics"] if may_see_all else [],
        "waiting": status["waiting"] if may_see_all else None,
        "programs": status.get("programs", []) if may_see_all else [],
        "oldest_waiting": _visible_place(session, status["oldest_waiting"]),
        "pins_space": _visible_place(session, status["pins_space"]),
    }


def visible_transactions(session: Session, rows: Rows) -> Rows:
    """Transactions of the user's own sessions; all for a user who may know of all destinations."""
    rights = session.rights
    if rights is None or _may_see(session, Pattern.glob("**")):
        return rows
    return [row for row in rows if owner_of(row["managers"][0]["session"]) == rights.user]


def _visible_place(session: Session, place: Row | None) -> Row | None:
    if place is None or place["destination"] is None:
        return place
    return place if _may_see(session, where_of(place["destination"], place["match"])) else None


def _denied(session: Session, action: Action, destination: str) -> AccessDenied:
    assert session.rights is not None
    user = session.rights.user
    if len(destination) > LENGTH_MAX:  # too long to be one: an answer that the client does not read would be kept here
        destination = destination[:LENGTH_MAX] + "…"
    session.on_denied(user, action, destination)
    return AccessDenied(
        f"user {user!r} may not {action} {destination!r}; ask for a rule in the server's users file that allows it",
        user=user,
        action=action,
        destination=destination,
    )
