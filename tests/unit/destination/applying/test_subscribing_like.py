"""A subscription made like another holds exactly what that one has unfinished, and everything that is placed after."""

from __future__ import annotations

import pytest

from holdfast.destination.batch_traits import Traits
from holdfast.destination.command import (
    Attach,
    Carried,
    Claim,
    Commit,
    Configure,
    Confirm,
    Create,
    OpenProducer,
    Part,
    Release,
    Subscribe,
    SubscribeLike,
    Unsubscribe,
)
from holdfast.destination.directory import Directory
from holdfast.destination.effect import BacklogCreated, Placed
from holdfast.destination.settings import Settings
from holdfast.destination.state.subscription import Subscription
from holdfast.errors import BadName, NoSuchSubscription, Refused, SubscriptionInUse
from holdfast.event import position
from tests.machines import Manager, batch_of, positions, ranges


@pytest.fixture
def manager() -> Manager:
    """Session ann receives from the durable subscription `audit` of topic `news`."""
    made = Manager()
    made.ask(Create("news", "topic"))
    made.ask(Subscribe("news", "audit", True))
    made.ask(Attach("ann", 1, "news", "audit"))
    return made


def subscription(manager: Manager, name: str) -> Subscription:
    found = manager.directory.queue(("news", name))
    assert isinstance(found, Subscription)
    return found


def test_it_holds_what_the_other_has_unfinished_and_everything_that_is_placed_after(manager: Manager) -> None:
    first, second = manager.send("news", 3), manager.send("news", 2)
    manager.ask(Confirm("news", "audit", "ann", ranges(positions_of(first, 1))))

    assert manager.ask(SubscribeLike("news", "copy", "audit")) == 4
    created, placed, _ = manager.effects
    third = manager.send("news")

    assert created == BacklogCreated(("news", "copy"))
    assert placed == Placed(("news", "copy"), position.of(first, 0), 1)
    expected = [position.of(first, 0), position.of(first, 2), *positions(second, 2), *positions(third)]
    assert manager.waiting("news", "copy") == manager.waiting("news", "audit") == expected
    assert subscription(manager, "copy").account() == {"accepted": 5, "confirmed": 0, "dead": 0, "expired": 0}


def positions_of(entry: int, index: int) -> tuple[int, int]:
    return position.of(entry, index), position.of(entry, index)


def test_what_is_finished_in_one_waits_in_the_other_and_is_needed_until_both_have_finished_it(manager: Manager) -> None:
    entry = manager.send("news", 2)
    manager.ask(SubscribeLike("news", "copy", "audit"))
    manager.ask(Attach("bob", 1, "news", "copy"))

    manager.ask(Confirm("news", "audit", "ann", ranges(entry)))
    assert manager.waiting("news", "copy") == positions(entry, 2)
    assert manager.directory.oldest_needed() == entry

    manager.ask(Confirm("news", "copy", "bob", ranges(entry)))
    assert manager.directory.oldest_needed() == manager.directory.applied + 1


def test_it_has_the_terms_of_the_other_and_not_its_delivery_counts_or_its_back_off(manager: Manager) -> None:
    manager.ask(Subscribe("news", "pool", True, is_shared=True, selector="amount > 1"))
    entry = manager.send("news")
    manager.ask(Release("news", "audit", "ann", ranges(entry), 5_000))

    manager.ask(SubscribeLike("news", "copy", "audit"))
    manager.ask(SubscribeLike("news", "pool-2", "pool"))

    backlog = manager.directory.backlog(("news", "copy"))
    assert (backlog.deliveries(position.of(entry)), backlog.not_before_over(position.of(entry), position.of(entry))[0][2]) == (
        0,
        0,
    )
    assert subscription(manager, "pool-2").terms == subscription(manager, "pool").terms
    assert manager.waiting("news", "pool-2") == []


def test_delays_priorities_and_expiries_come_along(manager: Manager) -> None:
    entry = manager.send("news", 2, traits=Traits(9, False, 70_000, 90_000, 90_000))

    manager.ask(SubscribeLike("news", "copy", "audit"))

    backlog = manager.directory.backlog(("news", "copy"))
    assert backlog.not_before_over(*positions(entry, 2)) == [(*positions(entry, 2), 70_000)]
    assert (backlog.lane_of(entry), backlog.expiry_of(entry)) == (18, 90_000)
    assert backlog.has_delays and backlog.has_expiries


def test_a_batch_that_is_held_back_is_placed_in_both_once_it_is_its_turn(manager: Manager) -> None:
    manager.ask(OpenProducer("press", "ann"))
    late = manager.send("news", 1, "press", 2)
    manager.ask(SubscribeLike("news", "copy", "audit"))

    first = manager.send("news", 1, "press", 1)

    assert manager.waiting("news", "copy") == manager.waiting("news", "audit") == [*positions(first), *positions(late)]


def test_a_displaced_batch_lies_in_the_same_place_and_is_finished_by_its_position(manager: Manager) -> None:
    manager.ask(OpenProducer("press", "ann"))
    late = manager.send("news", 1, "press", 2)
    between = manager.send("news")
    first = manager.send("news", 1, "press", 1)
    manager.ask(SubscribeLike("news", "copy", "audit"))
    manager.ask(Attach("bob", 1, "news", "copy"))

    manager.ask(Confirm("news", "copy", "bob", ranges(late)))

    assert manager.waiting("news", "copy") == [*positions(between), *positions(first)]
    assert manager.waiting("news", "audit") == [*positions(between), *positions(first), *positions(late)]


def test_a_large_event_keeps_its_body_for_the_copy_and_a_carried_one_its_place(manager: Manager) -> None:
    manager.ask(OpenProducer("press", "ann"))
    manager.append(Part("ann", "t", 1), b"body")
    manager.append(Part("ann", "t", 2, "news", (1, 1), 4, 4), batch_of(1))
    large = len(manager.log)
    manager.ask(Commit("ann", "t", 2))
    small = manager.send("news")
    manager.ask(Claim(1, "node"))
    body = bytes(manager.directory.batch_in(manager.log[small - 1], small))
    manager.append(Carried(1, [small], [len(body)]), body)
    carried = len(manager.log)

    manager.ask(SubscribeLike("news", "copy", "audit"))
    manager.ask(Confirm("news", "audit", "ann", ranges(large, small)))

    assert manager.waiting("news", "copy") == [*positions(large), *positions(small)]
    assert list(manager.directory.bodies.larges) == [large]
    assert manager.directory.locate(small) == carried


def test_bytes_are_counted_for_the_copy_too(manager: Manager) -> None:
    manager.ask(Configure("news", Settings(bytes_max=10_000), changed=["bytes_max"]))
    entry = manager.send("news", 3)
    manager.ask(SubscribeLike("news", "copy", "audit"))
    copied, other = (manager.directory.backlog(("news", name)) for name in ("copy", "audit"))

    assert copied.sizes is not None and other.sizes is not None
    assert copied.sizes.total == other.sizes.total > 0
    manager.ask(Confirm("news", "audit", "ann", ranges(entry)))
    assert (other.sizes.total, copied.sizes.total > 0) == (0, True)


def test_a_copy_of_many_pages_is_as_full_as_the_other_and_goes_its_own_way(manager: Manager) -> None:
    entries = [manager.send("news") for _ in range(4_200)]
    manager.ask(Confirm("news", "audit", "ann", ranges((position.of(1), position.of(entries[4_097], 9)))))
    manager.send("news")

    manager.ask(SubscribeLike("news", "copy", "audit"))
    manager.send("news")
    restored = Directory.restore(manager.directory.snapshot())

    assert len(manager.waiting("news", "copy")) == 104
    assert manager.waiting("news", "copy") == manager.waiting("news", "audit")
    assert restored.digest() == manager.directory.digest()


def test_a_pattern_is_copied_with_the_events_of_all_its_topics() -> None:
    manager = Manager()
    manager.ask(Subscribe("news.*", "all", True, match="glob"))
    for name in ("news.eu", "news.us"):
        manager.ask(Create(name, "topic"))
    before = [manager.send("news.eu"), manager.send("news.us")]

    manager.ask(SubscribeLike("glob:news.*", "copy", "all"))
    manager.ask(Create("news.uk", "topic"))
    after = [manager.send("news.uk"), manager.send("news.eu")]

    assert manager.waiting("glob:news.*", "copy") == [position.of(entry) for entry in before + after]


def test_what_cannot_be_copied_is_refused_and_changes_nothing(manager: Manager) -> None:
    manager.ask(Subscribe("news", "_own", False, "ann"))
    manager.ask(Subscribe("news", "there", True))
    manager.send("news")

    assert isinstance(manager.refusal(SubscribeLike("news", "copy", "nobody")), NoSuchSubscription)
    assert isinstance(manager.refusal(SubscribeLike("news", "_copy", "audit")), BadName)
    assert isinstance(manager.refusal(SubscribeLike("news", "copy", "_own")), Refused)
    assert isinstance(manager.refusal(SubscribeLike("news", "audit", "audit", True)), SubscriptionInUse)
    problem = manager.refusal(SubscribeLike("news", "there", "audit"))
    assert isinstance(problem, SubscriptionInUse) and problem.fields["waiting"] == 1
    assert isinstance(manager.refusal(SubscribeLike("news", "audit", "there", True)), SubscriptionInUse)


def test_one_that_is_there_is_replaced_where_that_is_said(manager: Manager) -> None:
    manager.send("news")
    manager.ask(Subscribe("news", "there", True))

    manager.ask(SubscribeLike("news", "there", "audit", True))

    assert manager.waiting("news", "there") == manager.waiting("news", "audit")
    manager.ask(Unsubscribe("news", "there"))
    assert len(manager.waiting("news", "audit")) == 1
