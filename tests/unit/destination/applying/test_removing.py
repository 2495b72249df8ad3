"""A subscription past a limit of its terms is removed by a command of the primary, if that is still so when it is applied."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.destination.command import (
    Attach,
    Claim,
    Confirm,
    Create,
    EnsureSubscription,
    Remove,
    Subscribe,
    SubscribeLike,
    Unsubscribe,
)
from holdfast.destination.directory import Directory
from holdfast.destination.effect import BacklogDeleted, Configured, DetachedReceiver, SubscriptionRemoved
from holdfast.destination.removal import NO_LIMITS, Limits
from holdfast.destination.state.subscription import Subscription
from holdfast.errors import BadSetting, NoSuchSubscription, SettingsDiffer
from tests.machines import Manager, positions, ranges

EVENTS = Limits(events=2)


@pytest.fixture
def manager() -> Manager:
    """Session ann receives from `slow`, which may have two events waiting; `audit` has no limits."""
    made = Manager()
    made.ask(Create("news", "topic"))
    made.ask(Subscribe("news", "audit", True))
    made.ask(Subscribe("news", "slow", True, limits=EVENTS))
    made.ask(Attach("ann", 1, "news", "slow"))
    return made


def subscription(manager: Manager, name: str = "slow") -> Subscription:
    found = manager.directory.queue(("news", name))
    assert isinstance(found, Subscription)
    return found


def remove(manager: Manager, name: str = "slow", oldest: int = 0, epoch: int = 0) -> Remove:
    return Remove(epoch, "news", name, subscription(manager, name).made_at, oldest)


def is_there(manager: Manager, name: str = "slow") -> bool:
    return ("news", name) in manager.directory.backlogs()


def test_past_its_limit_it_is_removed_with_what_waits_and_its_receiver_is_told_why(manager: Manager) -> None:
    entry = manager.send("news", 3)

    effects = manager.append(remove(manager))

    detached, deleted, removed = effects
    assert isinstance(detached, DetachedReceiver) and detached.code == "subscription-removed"
    assert "3 events wait, and 2 may" in detached.reason
    assert deleted == BacklogDeleted(("news", "slow"))
    assert removed == SubscriptionRemoved(("news", "slow"), 3, "3 events wait, and 2 may")
    assert not is_there(manager)
    assert manager.waiting("news", "audit") == positions(entry, 3)
    assert manager.waiting("_DMQ") == []
    assert isinstance(manager.refusal(Confirm("news", "slow", "ann", ranges(entry))), NoSuchSubscription)


def test_what_it_alone_held_is_needed_no_more(manager: Manager) -> None:
    manager.ask(Unsubscribe("news", "audit"))
    manager.send("news", 3)

    manager.append(remove(manager))

    assert manager.directory.oldest_needed() == manager.directory.applied + 1


def test_at_its_limit_it_stays_and_so_does_one_that_has_caught_up_meanwhile(manager: Manager) -> None:
    manager.send("news", 2)
    assert manager.append(remove(manager)) == []

    entry = manager.send("news", 2)
    found = remove(manager)
    manager.ask(Confirm("news", "slow", "ann", ranges(entry)))

    assert manager.append(found) == []
    assert is_there(manager)


def test_one_that_was_made_anew_meanwhile_stays_and_so_does_one_without_limits(manager: Manager) -> None:
    manager.send("news", 3)
    found = remove(manager)
    assert manager.append(remove(manager, "audit")) == []
    manager.append(found)
    manager.ask(Subscribe("news", "slow", True, limits=EVENTS))
    manager.send("news", 3)

    assert manager.append(found) == []
    assert is_there(manager) and is_there(manager, "audit")


def test_a_former_primary_removes_nothing(manager: Manager) -> None:
    manager.ask(Claim(1, "node"))
    manager.ask(Claim(2, "other"))
    manager.send("news", 3)

    assert manager.append(remove(manager, epoch=1)) == []
    manager.append(remove(manager, epoch=2))
    assert not is_there(manager)


def test_a_limit_in_bytes_counts_the_batches_that_wait(manager: Manager) -> None:
    manager.ask(Subscribe("news", "bytes", True, limits=Limits(bytes=200)))
    first = manager.send("news", 1)
    sizes = subscription(manager, "bytes").backlog.sizes
    assert sizes is not None and 0 < sizes.total <= 200
    assert manager.append(remove(manager, "bytes")) == []
    while sizes.total <= 200:
        manager.send("news", 1)
    manager.ask(Attach("ann", 2, "news", "bytes"))
    manager.ask(Confirm("news", "bytes", "ann", ranges(first)))
    assert manager.append(remove(manager, "bytes")) == []
    manager.send("news", 1)

    manager.append(remove(manager, "bytes"))

    assert not is_there(manager, "bytes")


def test_an_event_that_has_waited_too_long_is_named_and_only_as_long_as_it_waits(manager: Manager) -> None:
    manager.ask(Subscribe("news", "aging", True, limits=Limits(age_ms=1_000)))
    manager.ask(Attach("ann", 2, "news", "aging"))
    old, young = manager.send("news"), manager.send("news")
    manager.ask(Confirm("news", "aging", "ann", ranges(old)))

    assert manager.append(remove(manager, "aging")) == []
    assert manager.append(remove(manager, "aging", old)) == []
    effects = manager.append(remove(manager, "aging", young))

    assert effects[-1] == SubscriptionRemoved(("news", "aging"), 1, "its oldest event has waited for more than 1 s")


def test_limits_that_are_given_hold_from_now_on_and_others_stay_as_they_are(manager: Manager) -> None:
    manager.ask(Subscribe("news", "slow", True))
    assert subscription(manager).terms.limits == EVENTS

    manager.ask(Subscribe("news", "slow", True, limits=Limits(bytes=5_000)))

    assert subscription(manager).terms.limits == Limits(bytes=5_000)
    assert Configured("news") in manager.effects
    assert subscription(manager).backlog.sizes is not None
    manager.ask(Subscribe("news", "slow", True, limits=NO_LIMITS))
    assert subscription(manager).backlog.sizes is None
    assert list(manager.directory.catalog.limited) == []


def test_ensuring_compares_the_limits_that_are_given_and_changes_them_in_place(manager: Manager) -> None:
    def ensure(limits: Limits, *given: str, update: bool = False) -> EnsureSubscription:
        return EnsureSubscription("news", "slow", True, replace=False, given=list(given), update=update, limits=limits)

    manager.send("news")
    made_at = subscription(manager).made_at
    assert manager.ask(ensure(NO_LIMITS)) == "unchanged"
    assert manager.ask(ensure(EVENTS, "remove_after_events")) == "unchanged"
    problem = manager.refusal(ensure(Limits(age_ms=90_000), "remove_after"))
    assert isinstance(problem, SettingsDiffer) and "remove_after is 0 and 90 was asked for" in str(problem)

    assert manager.ask(ensure(Limits(age_ms=90_000), "remove_after", update=True)) == "changed"

    assert subscription(manager).terms.limits == Limits(2, 0, 90_000)
    assert (subscription(manager).made_at, len(manager.waiting("news", "slow"))) == (made_at, 1)


def test_what_cannot_be_a_limit_is_refused(manager: Manager) -> None:
    assert isinstance(manager.refusal(Subscribe("news", "other", True, limits=Limits(-1))), BadSetting)


def test_a_copy_has_the_limits_and_the_bytes_of_the_other(manager: Manager) -> None:
    manager.ask(Subscribe("news", "bytes", True, limits=Limits(bytes=5_000)))
    manager.send("news", 2)

    manager.ask(SubscribeLike("news", "copy", "bytes"))

    copied, other = subscription(manager, "copy"), subscription(manager, "bytes")
    assert copied.terms == other.terms
    assert copied.backlog.sizes is not None and other.backlog.sizes is not None
    assert copied.backlog.sizes.total == other.backlog.sizes.total > 0


def test_a_restored_directory_has_the_limits_and_counts_on(manager: Manager) -> None:
    manager.ask(Subscribe("news", "bytes", True, limits=Limits(bytes=5_000, age_ms=7)))
    manager.send("news", 3)
    copy = Directory.restore(manager.directory.snapshot())

    assert copy.digest() == manager.directory.digest()
    assert list(copy.catalog.limited) == list(manager.directory.catalog.limited) == [("news", "slow"), ("news", "bytes")]
    manager.append(remove(manager))
    copy.apply(len(manager.log), manager.log[-1])
    assert copy.digest() == manager.directory.digest()


def test_commands_that_were_written_before_have_no_limits() -> None:
    old = ["news", "slow", True, "", "", 0, "name", "", False, False, "", False]

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(old), type=Subscribe).limits is None
    ensured = msgspec.msgpack.decode(msgspec.msgpack.encode([*old, ["selector"], True]), type=EnsureSubscription)
    assert (ensured.given, ensured.update, ensured.limits) == (["selector"], True, None)
