"""Gathering: one answer out of those of several message managers (ADR 22). Pure.

pages              rows of all, in order, up to where the shortest page ends: the next page begins there
one thing twice    `_DMQ`, or the subscription of a pattern, is at every manager: its counts are added up
status             counts are added up, lists joined; `managers` has the rows of each
transactions       one row for each, with what every manager knows of it
commands           the answer of the first: they say the same
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from holdfast.destination.name import WELL_KNOWN
from holdfast.destination.state.subscription import key_of_topic
from holdfast.node.administration.arguments import place_of_subscription

Row = Mapping[str, Any]
# By the name of a manager, in their order.
Answers = Mapping[str, Any]

# Counts of a destination or subscription.
_COUNTS = frozenset(("waiting", "in_flight", "receivers", "accepted", "confirmed", "dead", "expired", "remembered"))
_ADDED = (
    "applied", "durable", "sessions", "stages", "staged_bytes", "events_delivered", "waiting", "journal_used_bytes",
    "journal_size_bytes", "events_reserve_bytes", "upkeep_reserve_bytes", "transactions_in_doubt", "events_locked",
)  # fmt: skip
_JOINED = ("blocked", "deduplicate_shortened", "dead", "redelivered_often", "perhaps_topics")
_OF_TRANSACTION = ("manager", "state", "session", "assembly", "entry", "locked", "destinations")
_OF_EACH = (
    "is_primary",
    "epoch",
    "applied",
    "durable",
    "first",
    "destinations",
    "waiting",
    "transactions_in_doubt",
    "is_short",
    "reason",
)


def gathered(action: str, answers: Answers) -> Any:
    gather = _GATHERED.get(action)
    return gather(answers) if gather is not None else next(iter(answers.values()))


def most_waiting_first(rows: Mapping[str, Iterable[Row]], subscription: str) -> list[str]:
    """The managers that have a subscription, of whose rows these are, in the order in which it is deleted: one who refuses,
    because events wait, keeps it everywhere. The first of all where none has it, to say so."""
    waiting = {name: sum(row["waiting"] for row in each if row["name"] == subscription) for name, each in rows.items()}
    there = [name for name, each in rows.items() if any(row["name"] == subscription for row in each)]
    return sorted(there, key=lambda name: -waiting[name]) or list(rows)[:1]


def transactions(answers: Answers) -> list[dict[str, Any]]:
    """Transactions over several managers, by their ids, oldest first: what every manager tells of each."""
    found: dict[str, list[Row]] = {}
    for name, rows in answers.items():
        for row in rows:
            found.setdefault(row["id"], []).append({**row, "manager": name})
    return sorted((_transaction(id, rows) for id, rows in found.items()), key=lambda row: (row["since_ms"], row["id"]))


def _transaction(id: str, rows: Sequence[Row]) -> dict[str, Any]:
    first = next((row for row in rows if row["participants"][:1] == [row["manager"]]), rows[0])
    return {
        "id": id,
        "participants": max((row["participants"] for row in rows), key=len),
        "decision": next((row["decision"] for row in rows if row["decision"]), ""),
        "since_ms": min((row["since_ms"] for row in rows if row["since_ms"]), default=0),
        "reason": first["reason"],
        "managers": [{name: row[name] for name in _OF_TRANSACTION} for row in rows],
    }


def key_of_row(row: Row) -> tuple[str, str]:
    """The key of a subscription's backlog, from a row of `all_subscriptions`."""
    return row["topic"] or key_of_topic(row["pattern"], row["match"]), row["name"]


def _name(row: Row) -> str:
    return str(row["name"])


def _list(answers: Answers) -> dict[str, Any]:
    return _page("destinations", answers, _name)


def _all_subscriptions(answers: Answers) -> dict[str, Any]:
    return _page("subscriptions", answers, key_of_row)


def _subscriptions(answers: Answers) -> Any:
    if all(isinstance(each, Mapping) for each in answers.values()):
        return _page("subscriptions", answers, place_of_subscription)
    return _joined_rows((row for rows in answers.values() for row in rows), place_of_subscription)


def _page(what: str, answers: Answers, place: Callable[[Row], Any]) -> dict[str, Any]:
    """Rows of all pages up to the least place at which one of them is cut off."""
    cuts = [each["next"] if each["next"] is not None else None for each in answers.values()]
    cut = min((tuple(each) if isinstance(each, list) else each for each in cuts if each is not None), default=None)
    rows = _joined_rows((row for each in answers.values() for row in each[what]), place)
    return {what: [row for row in rows if cut is None or place(row) <= cut], "next": cut}


def _joined_rows(rows: Iterable[Row], place: Callable[[Row], Any]) -> list[Row]:
    found: dict[Any, Row] = {}
    for row in rows:
        known = found.get(place(row))
        found[place(row)] = row if known is None else _added(known, row)
    return [found[each] for each in sorted(found)]


def _added(one: Row, other: Row) -> Row:
    """The counts of the same thing at two managers, added up."""
    return {**one, **{name: one[name] + other[name] for name in _COUNTS if name in one and name in other}}


def _describe(answers: Answers) -> Row:
    rows: Sequence[Row] = list(answers.values())
    return functools.reduce(_added, rows)


def _status(answers: Answers) -> dict[str, Any]:
    rows: Sequence[Row] = list(answers.values())
    first, short = rows[0], [row for row in rows if row["is_short"]]
    oldest = [row["oldest_waiting"] for row in rows if row["oldest_waiting"] is not None]
    return {
        **first,
        **{name: sum(row[name] for row in rows) for name in _ADDED},
        **{name: [each for row in rows for each in row[name]] for name in _JOINED},
        "is_primary": all(row["is_primary"] for row in rows),
        "destinations": sum(row["destinations"] for row in rows) - len(WELL_KNOWN) * (len(rows) - 1),
        "oldest_waiting": min(oldest, key=lambda each: each["accepted_at_ms"], default=None),
        "pins_space": next((row["pins_space"] for row in rows if row["pins_space"] is not None), None),
        "is_short": bool(short),
        "reason": short[0]["reason"] if short else first["reason"],
        "free_bytes": min(row["free_bytes"] for row in rows),
        "managers": [{"name": name, **{each: row[each] for each in _OF_EACH}} for name, row in answers.items()],
    }


_GATHERED: Mapping[str, Callable[[Answers], Any]] = {
    "list": _list,
    "describe": _describe,
    "subscriptions": _subscriptions,
    "all_subscriptions": _all_subscriptions,
    "status": _status,
    "transactions": transactions,
}
