"""Taking over a durable subscription from its receiver, as a machine (rule 4)."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.destination.command import Attach, Confirm, Create, Detach, Release, Subscribe, Unsubscribe
from holdfast.destination.directory import Directory
from holdfast.destination.effect import Answer, Attached, DetachedReceiver
from holdfast.errors import Detached, Refused, SubscriptionInUse
from tests.machines import Manager, positions, ranges


@pytest.fixture
def manager() -> Manager:
    """Session ann receives from the durable subscription `audit` of topic `news`."""
    made = Manager()
    made.ask(Create("news", "topic"))
    made.ask(Subscribe("news", "audit", True))
    made.ask(Attach("ann", 1, "news", "audit"))
    return made


def take_over(session: str, receiver: int = 1, subscription: str = "audit") -> Attach:
    return Attach(session, receiver, "news", subscription, take_over=True)


def holders(manager: Manager, subscription: str = "audit") -> list[tuple[str, int]]:
    return [holder for holder, _ in manager.directory.queue(("news", subscription)).receivers]


def test_in_one_step_the_former_receiver_is_detached_and_the_new_one_attached(manager: Manager) -> None:
    manager.ask(take_over("ann-again"))

    gone, come, answer = manager.effects
    assert isinstance(gone, DetachedReceiver) and gone[:3] == ("ann", 1, ("news", "audit"))
    assert "took this subscription over" in gone.reason
    assert come == Attached("ann-again", 1, ("news", "audit"))
    assert isinstance(answer, Answer) and answer.error is None
    assert holders(manager) == [("ann-again", 1)]


def test_what_the_former_receiver_held_waits_and_its_later_confirm_is_refused_and_changes_nothing(manager: Manager) -> None:
    entry = manager.send("news", 3)
    manager.ask(Release("news", "audit", "ann", ranges(entry)))
    manager.ask(take_over("ann-again"))

    assert isinstance(manager.refusal(Confirm("news", "audit", "ann", ranges(entry))), Detached)
    assert manager.waiting("news", "audit") == positions(entry, 3)
    assert [manager.directory.backlog(("news", "audit")).deliveries(each) for each in positions(entry, 3)] == [1, 1, 1]


def test_what_the_former_receiver_confirmed_before_stays_finished(manager: Manager) -> None:
    first, second = manager.send("news"), manager.send("news")
    manager.ask(Confirm("news", "audit", "ann", ranges(first)))

    manager.ask(take_over("ann-again"))

    assert manager.waiting("news", "audit") == positions(second)


def test_the_newest_take_over_has_the_subscription_however_often_two_take_over_from_each_other(manager: Manager) -> None:
    entry = manager.send("news", 2)
    for session in ("first", "second", "first", "second"):
        manager.ask(take_over(session))

        assert holders(manager) == [(session, 1)]
        assert manager.waiting("news", "audit") == positions(entry, 2)


def test_to_take_over_what_nobody_has_or_what_one_has_already_is_to_attach(manager: Manager) -> None:
    manager.ask(Detach("ann"))

    manager.ask(take_over("bob"))
    manager.ask(take_over("bob"))

    assert holders(manager) == [("bob", 1)]


def test_nobody_takes_over_from_another_user(manager: Manager) -> None:
    manager.ask(Subscribe("news", "eves", True))
    manager.ask(Attach("1/eve", 1, "news", "eves"))

    assert isinstance(manager.refusal(take_over("2/mallory", subscription="eves")), SubscriptionInUse)
    assert isinstance(manager.refusal(take_over("2", subscription="eves")), SubscriptionInUse)
    manager.ask(take_over("2/eve", subscription="eves"))
    assert holders(manager, "eves") == [("2/eve", 1)]


def test_a_subscription_that_is_read_by_place_is_not_taken_over_nor_by_one_who_reads_so(manager: Manager) -> None:
    manager.ask(Subscribe("news", "lake", True))
    manager.ask(Attach("spark", 1, "news", "lake", is_owner=True))

    problem = manager.refusal(take_over("spark-again", subscription="lake"))

    assert isinstance(problem, SubscriptionInUse) and "by place" in str(problem)
    reading = msgspec.structs.replace(take_over("bob"), is_owner=True)
    assert "by place" in str(manager.refusal(reading))


def test_a_session_does_not_take_over_from_itself(manager: Manager) -> None:
    """Verdicts are checked by session: the former receiver could still give them."""
    assert "this very session" in str(manager.refusal(take_over("ann", receiver=2)))


def test_only_a_durable_subscription_for_one_receiver_is_taken_over(manager: Manager) -> None:
    manager.ask(Create("orders", "queue"))
    manager.ask(Subscribe("news", "pool", True, is_shared=True))
    manager.ask(Attach("ann", 2, "news", "pool"))

    assert "take_over" in str(manager.refusal(take_over("bob", subscription="pool")))
    assert isinstance(manager.refusal(Attach("bob", 1, "orders", take_over=True)), Refused)


def test_a_restored_directory_knows_who_took_over(manager: Manager) -> None:
    manager.ask(take_over("ann-again"))
    copy = Directory.restore(manager.directory.snapshot())

    assert copy.digest() == manager.directory.digest()
    manager.ask(Detach("ann-again"))
    copy.apply(len(manager.log), manager.log[-1])
    assert copy.digest() == manager.directory.digest()


def test_the_former_session_goes_without_taking_the_new_receiver_along(manager: Manager) -> None:
    manager.ask(take_over("ann-again"))

    manager.ask(Detach("ann"))

    assert holders(manager) == [("ann-again", 1)]
    assert isinstance(manager.refusal(Unsubscribe("news", "audit")), SubscriptionInUse)


def test_an_attach_that_was_written_before_takes_nothing_over() -> None:
    old = msgspec.msgpack.encode(["ann", 1, "news", "audit", "", 0, "", False])

    assert not msgspec.msgpack.decode(old, type=Attach).take_over
