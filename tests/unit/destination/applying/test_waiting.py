"""A prepared transaction is inviolable (ADR 25, B11): whatever comes before its Final, that decides on all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.destination.applying.attaching import TAKEN_OVER
from holdfast.destination.command import (
    Abandon,
    Attach,
    Claim,
    Command,
    Commit,
    Confirm,
    Create,
    Dead,
    Delete,
    Detach,
    Final,
    Part,
    Prepare,
    Purge,
    Reject,
    Release,
    Settled,
    Subscribe,
    SubscribeLike,
    Unsubscribe,
)  # fmt: skip
from holdfast.destination.effect import Answer, DetachedReceiver
from holdfast.errors import HoldfastError, TransactionAborted, Unavailable
from holdfast.event import position
from tests.machines import Manager, batch_of, positions, ranges
from tests.unit.destination.applying.test_preparing import TWO, add_part, at_work, decision, final, prepare, restored


def everything(orders: int) -> bytes:
    return ranges((position.of(orders), position.of(orders, 2)))


VIOLATORS: dict[str, Callable[[int], Command]] = {
    "confirm": lambda orders: Confirm("orders", "", "ann", everything(orders)),
    "confirm by another": lambda orders: Confirm("orders", "", "bob", everything(orders)),
    "release": lambda orders: Release("orders", "", "ann", everything(orders)),
    "reject": lambda orders: Reject("orders", "", "bob", everything(orders), "no"),
    "dead": lambda orders: Dead(0, "orders", "", everything(orders), "expired", "expired"),
    "purge": lambda orders: Purge("orders"),
    "detach the receiver": lambda orders: Detach("ann", 1),
    "end the session": lambda orders: Detach("ann"),
    "delete": lambda orders: Delete("orders"),
    "abandon": lambda orders: Abandon("ann", "t"),
    "abandon by the primary": lambda orders: Abandon("ann", "t", 1),
    "another transaction": lambda orders: Commit("bob", "u", 0, [Settled("orders", "", everything(orders))]),
    "another prepare": lambda orders: Prepare("bob", "u", 0, TWO, "east", [Settled("orders", "", everything(orders))]),
    "another part": lambda orders: Part("ann", "t", 2, "orders"),
    "claim": lambda orders: Claim(1, "n"),
}


@pytest.mark.parametrize("name", VIOLATORS)
@pytest.mark.parametrize("is_again", [False, True])
def test_whatever_comes_between_prepare_and_final_the_transaction_is_committed_whole(name: str, is_again: bool) -> None:
    manager, orders, _ = at_work()
    part = add_part(manager)
    manager.ask(prepare(orders))
    manager.ask(decision(True))

    for _ in range(1 + is_again):
        command = VIOLATORS[name](orders)
        manager.append(command, batch_of(1, 3) if isinstance(command, Part) else b"")
    copy = restored(manager)
    assert manager.directory.backlog(("orders", "")).locks is not None
    status = manager.ask_all(final(True))

    assert status == ("committed", 2, 2, part, 0)
    copy.apply(len(manager.log), manager.log[-1])
    assert copy.digest() == manager.directory.digest()
    assert not any(each.is_prepared for each in manager.directory.transactions.in_doubt())
    assert not manager.directory.transactions.waiting
    if name == "delete":
        assert manager.waiting("_DMQ") == [position.of(orders, 2), *positions(part, 2)]
    else:
        assert manager.waiting("orders")[-2:] == positions(part, 2)
        assert not set(positions(orders, 2)) & set(manager.waiting("orders"))


AFTER_AN_ABORT = {  # what waits in orders, and what is dead, of the events 0, 1 and 2; 0 and 1 were locked
    "confirm": ([0, 1], []), "confirm by another": ([0, 1], []), "release": ([0, 1, 2], []), "reject": ([0, 1], [2]),
    "dead": ([], [0, 1, 2]), "purge": ([], []), "detach the receiver": ([0, 1, 2], []), "end the session": ([0, 1, 2], []),
    "delete": ([], [0, 1, 2]), "abandon": ([0, 1, 2], []), "abandon by the primary": ([0, 1, 2], []),
    "another transaction": ([0, 1, 2], []), "another prepare": ([0, 1, 2], []), "another part": ([0, 1, 2], []),
    "claim": ([0, 1, 2], []),
}  # fmt: skip


@pytest.mark.parametrize("name", VIOLATORS)
def test_after_an_abort_what_was_said_meanwhile_takes_effect_on_what_was_locked(name: str) -> None:
    manager, orders, _ = at_work()
    add_part(manager)
    manager.ask(prepare(orders))
    command = VIOLATORS[name](orders)
    manager.append(command, batch_of(1, 3) if isinstance(command, Part) else b"")
    copy = restored(manager)
    manager.ask(decision(False))
    copy.apply(len(manager.log), manager.log[-1])

    status = manager.ask_all(final(False))

    copy.apply(len(manager.log), manager.log[-1])
    assert copy.digest() == manager.directory.digest()
    assert status == ("aborted", "gave up")
    waiting, dead = AFTER_AN_ABORT[name]
    if name != "delete":
        assert manager.waiting("orders") == [position.of(orders, index) for index in waiting]
    assert sorted(manager.waiting("_DMQ")) == [position.of(orders, index) for index in dead]
    assert not list(manager.directory.assemblies)


def test_a_command_that_waits_for_a_final_is_answered_then_in_its_order() -> None:
    manager, orders, _ = at_work()
    add_part(manager)
    manager.ask(prepare(orders))

    for token, command in enumerate(
        (Delete("orders", "cm", 1), Create("orders", "topic", origin="cm", token=2), Abandon("ann", "t", 0, "cm", 3))
    ):
        effects = manager.append(command)
        assert [effect.token for effect in effects if isinstance(effect, Answer)] == ([2] if token == 1 else [])
    manager.ask(decision(True))
    answers = [effect for effect in manager.append(final(True)) if isinstance(effect, Answer)]

    assert [(answer.token, answer.value, answer.error) for answer in answers] == [(1, None, None), (3, False, None)]


def test_a_command_that_need_not_wait_for_this_final_goes_on_waiting() -> None:
    manager, orders, _ = at_work()
    manager.ask(prepare(orders, parts=0))
    other = Settled("orders", "", ranges((position.of(orders, 2), position.of(orders, 2))))
    manager.ask(Prepare("bob", "u", 0, TWO, "west", [other]))
    manager.append(Delete("orders"))

    manager.ask(decision(False))
    manager.ask_all(final(False))
    assert manager.waiting("orders") == positions(orders, 3)
    manager.ask_all(Final("bob", "u", TWO, "west", True))

    assert "orders" not in manager.directory.catalog.destinations
    assert manager.waiting("_DMQ") == positions(orders, 2)


def test_so_many_commands_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.destination.directory.WAITING_MAX", 2)
    manager, orders, _ = at_work()
    manager.ask(prepare(orders, parts=0))
    manager.append(Delete("orders", "cm", 1))
    manager.append(Delete("orders", "cm", 2))

    with pytest.raises(Unavailable):
        manager.ask(Delete("orders"))


def test_what_a_primary_says_again_while_it_waits_is_kept_once() -> None:
    manager, orders, _ = at_work()
    manager.ask(prepare(orders, parts=0))

    for at_ms in range(5):
        manager.append(Abandon("ann", "t", 1))
        manager.append(Delete("orders", at_ms=at_ms))

    assert len(manager.directory.transactions.waiting) == 2


def test_a_subscription_with_locked_events_outlasts_its_receivers_its_session_and_whoever_replaces_it() -> None:
    manager, _, alerts = at_work()
    locked = [Settled("alerts", "audit", ranges(position_span(alerts)))]
    manager.ask(Prepare("ann", "t", 0, TWO, "west", locked))

    manager.append(Detach("ann", 2))
    manager.append(Unsubscribe("alerts", "audit"))
    manager.append(Subscribe("alerts", "audit", True, selector="a = 1", replace=True))
    manager.append(SubscribeLike("alerts", "audit", "audit", True))
    manager.append(Delete("alerts"))
    assert manager.waiting("alerts", "audit") == positions(alerts)
    assert len(manager.directory.transactions.waiting) == 4
    manager.ask_all(Final("ann", "t", TWO, "west", True))

    assert manager.directory.transactions.waiting == []
    assert "alerts" not in manager.directory.catalog.destinations


def position_span(entry: int) -> tuple[int, int]:
    return position.of(entry), position.of(entry)


def test_a_session_that_owns_what_is_locked_ends_after_the_final_and_others_at_once() -> None:
    manager, _, _ = at_work()
    manager.ask(Subscribe("alerts", "_own", False, "ann"))
    manager.ask(Attach("ann", 5, "alerts", "_own"))
    entry = manager.send("alerts")
    manager.ask(Prepare("ann", "t", 0, TWO, "west", [Settled("alerts", "_own", ranges(position_span(entry)))]))

    manager.append(Detach("bob"))
    manager.append(Detach("ann"))
    assert list(manager.directory.sessions()) == ["ann"]
    manager.ask_all(Final("ann", "t", TWO, "west", False))

    assert list(manager.directory.sessions()) == []
    assert ("alerts", "_own") not in manager.directory.backlogs()


def test_a_shared_subscription_that_lost_its_last_receiver_goes_with_the_final() -> None:
    manager, _, _ = at_work()
    manager.ask(Subscribe("alerts", "team", False, is_shared=True))
    manager.ask(Attach("bob", 7, "alerts", "team"))
    entry = manager.send("alerts")
    manager.ask(Prepare("bob", "t", 0, TWO, "west", [Settled("alerts", "team", ranges(position_span(entry)))]))

    manager.ask(Detach("bob", 7))
    manager.ask(Claim(1, "n"))
    assert ("alerts", "team") in manager.directory.backlogs()
    manager.ask(Final("bob", "t", TWO, "west", True))

    assert ("alerts", "team") not in manager.directory.backlogs()


def test_a_takeover_of_the_subscription_does_not_take_what_is_locked() -> None:
    manager, _, alerts = at_work()
    later = manager.send("alerts")
    manager.ask(Prepare("ann", "t", 0, TWO, "west", [Settled("alerts", "audit", ranges(position_span(alerts)))]))

    effects = manager.append(Attach("bob", 9, "alerts", "audit", take_over=True))
    assert [each.reason for each in effects if isinstance(each, DetachedReceiver)] == [TAKEN_OVER]
    assert manager.ask(Confirm("alerts", "audit", "bob", ranges(position_span(alerts), position_span(later)))) == 1

    assert manager.ask(Final("ann", "t", TWO, "west", True))[:3] == ("committed", 0, 1)
    assert manager.waiting("alerts", "audit") == []


def test_locked_dead_events_are_counted_until_they_are_confirmed() -> None:
    manager, orders, _ = at_work()
    manager.ask(Reject("orders", "", "ann", everything(orders), "no"))
    locked = Settled("_DMQ", "", ranges(position_span(orders)))
    manager.ask(Prepare("ann", "t", 0, TWO, "west", [locked]))

    assert manager.ask(Confirm("_DMQ", "", "ann", everything(orders))) == 2
    assert manager.directory.dead.counts == {("orders", "rejected"): 1}
    assert restored(manager).dead.counts == {("orders", "rejected"): 1}
    manager.ask(Final("ann", "t", TWO, "west", True))

    assert manager.directory.dead.counts == {}


def test_a_commit_of_a_prepared_transaction_is_refused_and_of_a_decided_one_answered() -> None:
    manager, orders, _ = at_work()
    manager.ask(prepare(orders, parts=0))

    manager.refusal(Commit("ann", "t", 0))
    manager.ask(decision(False))
    manager.ask(final(False))

    assert isinstance(error_of(manager, Commit("ann", "t", 0)), TransactionAborted)


def error_of(manager: Manager, command: Command) -> HoldfastError | Any:
    try:
        return manager.ask(command)
    except HoldfastError as error:
        return error
