"""Requests of administration: actions that a client asks for with a Manage frame (`administration.actions`).

    question ──▶ asked over the bus ──▶ the part of the answer that the user may see
    command  ──▶ channel ──▶ applied ──▶ answered

Some take more than one step: a page of which the user sees nothing is followed by the next one, and confirming everything before
a place takes as many commands as it needs.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.destination import command, name
from holdfast.errors import AccessDenied, BadSetting, Detached, HoldfastError, OutcomeUnknown
from holdfast.node.administration import arguments, cluster_arguments
from holdfast.node.administration.actions import COMMANDS, QUESTIONS, no_such_action
from holdfast.node.administration.arguments import place_of_subscription
from holdfast.node.administration.gathering import key_of_row, most_waiting_first
from holdfast.node.administration.routing import route
from holdfast.node.administration.touched import Arguments
from holdfast.node.clients import assembly_requests
from holdfast.node.clients.destination_checks import check_destination
from holdfast.node.clients.joint.joint_questions import list_transactions
from holdfast.node.login.permission import (
    Row,
    Rows,
    check_arguments,
    visible,
    visible_destination,
    visible_pages,
    visible_status,
    visible_subscriptions,
)
from holdfast.node.reading.extents import checked_place
from holdfast.node.reading.outcome_waiters import QUESTION as OUTCOMES
from holdfast.node.reading.place_readers import ASKED_BY_CLIENTS
from holdfast.session.session import ReceiverPlace, Session
from holdfast.wire import frame

if TYPE_CHECKING:
    from holdfast.node.clients.requests import Request

# Its answer reaches a client within this, before the link ends of one that may not go on.
ANSWERED_MS = 500
# In the name of a temporary destination: more than anyone can try out.
SECRET_BYTES = 10


def manage(request: Request, message: frame.Manage) -> None:
    """Carry out an action; HoldfastError when it is refused at once."""
    action = message.action
    if action not in arguments.ACTIONS:
        raise no_such_action(action)
    asked = arguments.read(action, message.arguments)
    check_arguments(request.session, asked)
    places = request.manager.places
    if places is None:
        _carry_out(request, action, asked)
    else:
        then = request.guarded(partial(_carry_out_at, request, action, asked))
        route(places, request.session.channel, action, asked, then, request.failed)


def _carry_out_at(request: Request, action: str, asked: Arguments, managers: Sequence[str]) -> None:
    """Carry it out at these message managers."""
    request.targets = [request.manager.managers[each] for each in managers]
    request.target = request.targets[0]
    _carry_out(request, action, asked)


def _carry_out(request: Request, action: str, asked: Arguments) -> None:
    if action in _IN_STEPS:
        _IN_STEPS[action](request, asked)
    elif action in QUESTIONS or action in ASKED_BY_CLIENTS or action == OUTCOMES:
        request.ask(action, asked)
    else:
        request.submit(COMMANDS[action](asked, request.manager.now_ms()))


# --- questions of whose answers the user sees a part ---------------------------------------------------------------------


def _list(request: Request, asked: arguments.List) -> None:
    _ask_page(request, "list", asked, "destinations", visible, lambda row: str(row["name"]))


def _describe(request: Request, asked: arguments.Describe) -> None:
    request.ask("describe", asked, lambda row: request.answered(visible_destination(request.session, row)))


def _all_subscriptions(request: Request, asked: arguments.AllSubscriptions) -> None:
    _ask_page(request, "all_subscriptions", asked, "subscriptions", visible_pages, key_of_row)


def _subscriptions(request: Request, asked: arguments.Subscriptions) -> None:
    if asked.after is None:
        request.ask("subscriptions", asked, lambda rows: request.answered(visible_subscriptions(request.session, rows)))
    else:
        _ask_page(request, "subscriptions", asked, "subscriptions", visible_subscriptions, place_of_subscription)


def _status(request: Request, asked: arguments.Status) -> None:
    manager = request.manager

    def told(status: Row) -> None:
        request.answered(visible_status(request.session, {**status, "links": manager.open_links, "programs": manager.programs}))

    request.ask("status", asked, told)


def _cluster(request: Request, asked: cluster_arguments.Cluster) -> None:
    tell = request.manager.tell_cluster
    if tell is None:
        raise BadSetting(
            "this server is alone, and no node of a cluster; ask it for its status: `holdfast status`", action="cluster"
        )
    request.answered(tell())


def _cluster_order(request: Request, asked: cluster_arguments.ClusterOrder) -> None:
    carry_out = request.manager.order_cluster
    if carry_out is None:
        raise BadSetting("this server is alone, and no node of a cluster: there is nothing to order", action=asked.order)

    async def carried_out() -> None:
        try:
            request.answered(await carry_out(asked))
        except HoldfastError as problem:
            request.failed(problem)

    request.manager.spawn(carried_out(), f"the order {asked.order}")


def _cluster_configure(request: Request, asked: cluster_arguments.ClusterConfigure) -> None:
    configure = request.manager.configure_cluster
    if configure is None:
        raise BadSetting(
            "this server is alone, and no node of a cluster: give it options, and start it again", action="cluster_configure"
        )

    judge = request.manager.spare(request.session.id)

    async def configured() -> None:
        try:
            request.answered(await configure(asked))
        except HoldfastError as problem:
            request.failed(problem)
        finally:
            request.manager.clock.call_later(ANSWERED_MS, judge)

    request.manager.spawn(configured(), "a change of the configuration")


def _ask_page(
    request: Request,
    action: str,
    asked: Arguments,
    what: str,
    seen: Callable[[Session, Rows], Rows],
    place: Callable[[Row], Any],
) -> None:
    """Answer with the rows of a page that the user may see. The place where the next page begins is that of such a row too: so
    pages are asked for until there is one."""

    def found(page: dict[str, Any]) -> None:
        rows, after = seen(request.session, page[what]), page["next"]
        if after is not None and not rows:
            request.ask(action, replace(asked, after=after), found)
            return
        request.answered({**page, what: rows, "next": place(rows[-1]) if after is not None else None})

    request.ask(action, asked, found)


# --- temporary destinations and stages -----------------------------------------------------------------------------------


def _create_temporary(request: Request, asked: arguments.Temporary) -> None:
    """Create a temporary destination, which belongs to this session and goes with it. Everybody who was told its name may send to
    it, so the name cannot be worked out from others: the identifier makes it unique, the rest keeps it secret."""
    manager, target, session, kind = request.manager, request.target, request.session, asked.kind
    ended = target.allowances.begin_temporary(session.id)
    made = name.temporary(kind, f"{manager.new_producer('')}-{secrets.token_hex(SECRET_BYTES)}", target.name)

    def created(_: Any) -> None:
        ended()
        request.answered({"name": made})

    def failed(problem: HoldfastError) -> None:
        ended()
        request.failed(problem)

    token = target.next_token(created, failed)
    target.submit(command.Create(made, kind, origin=target.subject, token=token, session=session.id), token)


def _delete(request: Request, asked: arguments.Delete) -> None:
    """Delete a destination. In a table of places that is shared, that is noted first (rule 9)."""
    places = request.manager.places

    def delete() -> None:
        _check_own(request, asked.name)
        is_known = request.target.messages.kind_of(asked.name) is not None
        if places is None or name.is_temporary(asked.name) or not is_known:
            delete_there(0)
        else:
            places.begin_delete(asked.name, request.guarded(delete_there), request.failed)

    def delete_there(revision: int) -> None:
        make, target = COMMANDS["delete"](asked, request.manager.now_ms()), request.target
        token = target.next_token(partial(deleted, revision), partial(refused, revision))
        target.submit(replace(make(target.subject, token), revision=revision), token)

    def deleted(revision: int, value: Any) -> None:
        end(revision, True, partial(request.answered, value))

    def refused(revision: int, problem: HoldfastError) -> None:
        if isinstance(problem, OutcomeUnknown):  # it may still be deleted: whoever uses the name next finds out
            request.failed(problem)
        else:
            end(revision, False, partial(request.failed, problem))

    def end(revision: int, is_deleted: bool, then: Callable[[], None]) -> None:
        if places is None or not revision:
            then()
        else:
            places.end_delete(asked.name, revision, is_deleted, then)

    request.when_known(asked.name, delete, is_used=False)


def _check_own(request: Request, destination: str) -> None:
    """AccessDenied unless this session made the temporary destination."""
    found = request.target.messages.find_temporary(destination)
    if found is not None and found.owner != request.session.id:
        raise AccessDenied(
            f"temporary {found.kind} {destination!r} belongs to another client; leave it to that one", destination=destination
        )


def _ensure_subscription(request: Request, asked: arguments.EnsureSubscription) -> None:
    """Ensure a subscription; its topic is created on first use, as when somebody subscribes."""

    def ensure() -> None:
        if asked.match == "name" and asked.topic not in name.WELL_KNOWN:
            check_destination(request.target, asked.topic, "topic")
        request.submit(COMMANDS["ensure_subscription"](asked, request.manager.now_ms()))

    request.when_known(asked.topic, ensure)


def _locate(request: Request, asked: arguments.Locate) -> None:
    """Tell the channel of a destination, so that its client opens a session there. A place is reserved for one that may be
    created on first use."""
    places = request.manager.places
    if places is None:
        request.answered({"channel": "", "is_placed": True})
    elif asked.is_used and request.manager.settings.is_create_on_first_use:
        places.reserve(asked.name, lambda manager: request.answered({"channel": manager, "is_placed": True}), request.failed)
    else:
        found = places.find(asked.name)
        request.answered({"channel": found or places.managers[0], "is_placed": found is not None})


def _unsubscribe(request: Request, asked: arguments.Unsubscribe) -> None:
    """Delete a subscription. That of a pattern is at every message manager: it is deleted first where most events wait, so that
    one who refuses, because they do, keeps it everywhere."""
    if len(request.targets) == 1:
        request.submit(COMMANDS["unsubscribe"](asked, request.manager.now_ms()))
        return

    def delete(managers: Sequence[str], answer: Any) -> None:
        if not managers:
            request.answered(answer)
            return
        request.targets = [request.manager.managers[managers[0]]]
        request.submit(COMMANDS["unsubscribe"](asked, request.manager.now_ms()), partial(delete, managers[1:]))

    def found(rows: dict[str, Any]) -> None:
        delete(most_waiting_first(rows, asked.name), None)

    request.ask_each("subscriptions", arguments.Subscriptions(topic=asked.topic, match=asked.match), found)


def _drop_stages(request: Request, asked: arguments.DropStages) -> None:
    make, payload = assembly_requests.drop(request.session, asked)
    request.submit(make, payload=payload)


def _log(request: Request, asked: arguments.Log) -> None:
    request.answered(request.manager.take_log(asked.program, asked.lines))


# --- confirming everything before a place --------------------------------------------------------------------------------


def _confirm_up_to(request: Request, asked: arguments.ConfirmUpTo) -> None:
    _ConfirmUpTo(request, asked).go_on()


class _ConfirmUpTo:
    """Confirms everything before a place, for the session that owns a subscription (ADR 10).

        place ─▶ what still waits before it, as ranges ─▶ Confirm command ─▶ applied ─▶ the next ranges … ─▶ answered

    One command confirms at most a few thousand batches, so that others have their turn between two of them. Events that are
    finished already are passed over: it may be said again. Every command checks that the session is attached (rule 4). The
    answer says how many events were finished by it.
    """

    def __init__(self, request: Request, asked: arguments.ConfirmUpTo) -> None:
        self._request = request
        self._asked = asked
        self._up_to = checked_place(asked.place, "place")
        self._place = ReceiverPlace(asked.key, asked.subscription)
        self._confirmed = 0
        if self._place not in request.session.receivers.values():
            raise Detached(
                f"this session does not own subscription '{self._place.subscription}' of {self._place.destination!r}, or does no "
                "longer; confirm inside `async with reading.owner()`",
                subscription=self._place.subscription,
            )

    def go_on(self) -> None:
        self._request.ask("ranges_before", self._asked, self._found)

    def _found(self, found: dict[str, Any]) -> None:
        if not found["is_news"]:
            self._request.answered({"events": self._confirmed})
            return
        where, ranges, up_to = (*self._place, self._request.session.id), found["ranges"], found["up_to"]
        self._request.submit(
            lambda origin, token: command.Confirm(*where, ranges, 0, origin, token, up_to),
            lambda events: self._applied(events, up_to),
        )

    def _applied(self, events: int, up_to: int) -> None:
        self._confirmed += events
        if up_to < self._up_to:
            self.go_on()
        else:
            self._request.answered({"events": self._confirmed})


# Actions that are not merely asked or submitted.
_IN_STEPS: dict[str, Callable[[Request, Any], None]] = {
    "list": _list,
    "describe": _describe,
    "subscriptions": _subscriptions,
    "all_subscriptions": _all_subscriptions,
    "status": _status,
    "cluster": _cluster,
    "transactions": list_transactions,
    "cluster_order": _cluster_order,
    "cluster_configure": _cluster_configure,
    "confirm_up_to": _confirm_up_to,
    "drop_stages": _drop_stages,
    "log": _log,
    "temporary": _create_temporary,
    "delete": _delete,
    "ensure_subscription": _ensure_subscription,
    "locate": _locate,
    "unsubscribe": _unsubscribe,
}
