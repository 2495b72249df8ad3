"""Subscriptions as a machine: what each kind takes, who may receive, what goes with whom (rules 4, 6, 12)."""

from __future__ import annotations

import pytest

from holdfast.destination.bodies import body_in
from holdfast.destination.command import (
    Attach,
    BatchCommand,
    Carried,
    Claim,
    Command,
    Create,
    Delete,
    Detach,
    OpenProducer,
    Subscribe,
    Unsubscribe,
    encode,
)
from holdfast.destination.directory import Directory
from holdfast.destination.effect import BacklogCreated, BacklogDeleted, DetachedReceiver, Placed
from holdfast.errors import BadName, BadPattern, BadSelector, NoSuchSubscription, Refused, SubscriptionInUse
from holdfast.event import batch, position
from holdfast.event.event import Head, encode_head
from tests.machines import Manager, batch_of, manager_at_work, positions


@pytest.fixture
def manager() -> Manager:
    return manager_at_work()


def subscribe(topic: str, name: str, *, session: str = "", **wanted: object) -> Subscribe:
    durable = not session and bool(wanted.pop("is_durable", True))
    return Subscribe(topic, name, durable, session, **wanted)  # type: ignore[arg-type]


def send(manager: Manager, topic: str, *levels: int, producer: str = "", sequence: int = 0) -> int:
    """One batch whose events have these levels; its entry."""
    heads = [encode_head(Head(properties={"level": level})) for level in levels]
    encoded = batch.encode(heads, [b"body"] * len(heads), source="test", first_id=1)
    manager.append(BatchCommand(topic, producer, sequence), encoded)
    return len(manager.log)


# --- selectors and no-local ------------------------------------------------------------------------------------------


def test_what_a_selector_does_not_take_is_not_needed_and_holds_no_space(manager: Manager) -> None:
    manager.ask(Create("news", "topic"))
    manager.ask(subscribe("news", "large", selector="level > 5"))

    nothing = send(manager, "news", 1, 2)
    some = send(manager, "news", 7, 1, 9)

    assert manager.waiting("news", "large") == [position.of(some, 0), position.of(some, 2)]
    assert manager.directory.needed_between(1, some) == [some]
    assert nothing not in manager.directory.needed_between(1, some)


def test_a_batch_of_which_nothing_is_taken_has_no_effect(manager: Manager) -> None:
    manager.ask(Create("news", "topic"))
    manager.ask(subscribe("news", "large", selector="level > 5"))

    send(manager, "news", 1)

    assert [each for each in manager.effects if isinstance(each, Placed)] == []


def test_a_batch_that_was_held_back_is_selected_when_it_is_placed_rule_6(manager: Manager) -> None:
    """Also after a restart: its heads are part of the snapshot, its body is not."""
    manager.ask(Create("news", "topic"))
    manager.ask(OpenProducer("press", "ann", client="c1"))
    late = send(manager, "news", 7, 1, producer="press", sequence=2)
    manager.ask(subscribe("news", "large", selector="level > 5"))
    manager.ask(subscribe("news", "foreign", no_local=True, client="c1"))
    manager.directory = Directory.restore(manager.directory.snapshot())

    first = send(manager, "news", 8, producer="press", sequence=1)

    assert manager.waiting("news", "large") == [position.of(first), position.of(late)]
    assert manager.waiting("news", "foreign") == []


def test_the_heads_of_a_batch_that_is_held_back_are_kept_without_their_bodies() -> None:
    whole = batch.encode([encode_head(Head(type="a")), encode_head(Head(type="b"))], [b"x" * 9_000, b"y"], source="s", first_id=7)

    kept = batch.Batch(batch.without_bodies(whole))

    kept.check()
    assert len(kept.data) < 300
    assert [bytes(kept.head(index)) for index in (0, 1)] == [bytes(batch.Batch(whole).head(index)) for index in (0, 1)]
    assert (kept.source, kept.first_id, kept.count) == ("s", 7, 2)


def test_a_selector_that_cannot_be_understood_is_refused_by_every_replica(manager: Manager) -> None:
    assert isinstance(manager.refusal(subscribe("alerts", "large", selector="level >")), BadSelector)


def test_an_unreadable_batch_is_taken_so_that_whoever_delivers_it_gives_it_up(manager: Manager) -> None:
    manager.ask(Create("news", "topic"))
    manager.ask(subscribe("news", "large", selector="level > 5"))
    damaged = bytearray(batch_of(2))
    damaged[60:64] = (99).to_bytes(4, "little")

    manager.append(BatchCommand("news", "", 0), bytes(damaged))

    assert len(manager.waiting("news", "large")) == 2


# --- kinds -----------------------------------------------------------------------------------------------------------


def test_a_durable_subscription_has_one_receiver_and_attaching_it_again_is_fine(manager: Manager) -> None:
    refusal = manager.refusal(Attach("bob", 1, "alerts", "audit"))

    assert isinstance(refusal, SubscriptionInUse) and "shared=True" in refusal.sentence
    assert isinstance(manager.refusal(Attach("ann", 9, "alerts", "audit")), SubscriptionInUse)
    manager.ask(Attach("ann", 2, "alerts", "audit"))
    manager.ask(Detach("ann", 2))
    manager.ask(Attach("bob", 1, "alerts", "audit"))


def test_a_shared_non_durable_subscription_ends_with_its_last_receiver_and_what_waited_is_finished(manager: Manager) -> None:
    manager.ask(subscribe("alerts", "pool", is_durable=False, is_shared=True))
    manager.ask(Attach("ann", 7, "alerts", "pool"))
    manager.ask(Attach("bob", 7, "alerts", "pool"))
    manager.send("alerts", 2)

    manager.ask(Detach("ann", 7))
    assert len(manager.waiting("alerts", "pool")) == 2

    manager.ask(Detach("bob"))
    assert BacklogDeleted(("alerts", "pool")) in manager.effects
    assert manager.waiting("_DMQ") == []


def test_a_subscription_made_anew_forgets_what_it_had_chosen(manager: Manager) -> None:
    manager.ask(Create("news", "topic"))
    manager.ask(subscribe("news", "large", selector="level > 5"))
    send(manager, "news", 7)

    assert manager.ask(subscribe("news", "large", selector="level > 3")) is True

    assert manager.effects[:2] == [BacklogDeleted(("news", "large")), BacklogCreated(("news", "large"))]
    assert manager.waiting("news", "large") == []
    assert manager.directory.oldest_needed() == len(manager.log) + 1


REFUSED: list[tuple[Command, type[Refused]]] = [
    (Subscribe("alerts", "x", False), Refused),
    (Subscribe("alerts", "x", True, is_shared=True, no_local=True), Refused),
    (Subscribe("alerts", "_x", False, is_shared=True), BadName),
    (Subscribe("alerts", "audit", True, is_shared=True), SubscriptionInUse),
    (Subscribe("alerts", "audit", False, "ann"), SubscriptionInUse),
    (Subscribe("alerts", "audit", True, selector="level > 1"), SubscriptionInUse),
    (Subscribe("a.**b", "x", True, match="glob"), BadPattern),
    (Subscribe("a(?=b)", "x", True, match="regex"), BadPattern),
    (Unsubscribe("glob:alerts.*", "x"), NoSuchSubscription),
    (Attach("ann", 8, "glob:alerts.*", "x"), NoSuchSubscription),
    (Create("_temporary.x", "queue"), BadName),
    (Create("elsewhere", "queue", session="ann"), BadName),
]


@pytest.mark.parametrize(("command", "error"), REFUSED)
def test_what_makes_no_sense_is_refused_and_changes_nothing(manager: Manager, command: Command, error: type[Refused]) -> None:
    assert isinstance(manager.refusal(command), error)


# --- patterns (rule 12) ----------------------------------------------------------------------------------------------


def test_a_topic_is_matched_with_all_patterns_before_its_first_event_rule_12(manager: Manager) -> None:
    manager.ask(subscribe("news.*", "pager", match="glob"))
    manager.ask(subscribe(r"news\.(eu|us)", "pager", match="regex"))

    manager.ask(Create("news.eu", "topic"))
    entry = manager.send("news.eu", 2)

    assert manager.waiting("glob:news.*", "pager") == positions(entry, 2)
    assert manager.waiting(r"regex:news\.(eu|us)", "pager") == positions(entry, 2)


def test_a_pattern_takes_what_is_sent_after_it_subscribed_and_nothing_after_it_ended(manager: Manager) -> None:
    manager.ask(Create("news.eu", "topic"))
    manager.send("news.eu")
    manager.ask(subscribe("news.*", "pager", match="glob"))
    entry = manager.send("news.eu")

    assert manager.waiting("glob:news.*", "pager") == positions(entry)

    manager.ask(Unsubscribe("glob:news.*", "pager"))
    manager.send("news.eu")
    assert manager.directory.oldest_needed() == len(manager.log) + 1


def test_an_event_is_needed_until_the_topics_and_the_patterns_subscription_have_finished_it_a5(manager: Manager) -> None:
    manager.ask(subscribe("alert?", "pager", match="glob"))
    entry = manager.send("alerts")

    manager.ask(Delete("alerts"))

    assert manager.waiting("glob:alert?", "pager") == positions(entry)
    assert manager.waiting("_DMQ") == positions(entry)


def test_where_an_event_was_sent_is_known_also_after_it_was_carried_rule_9(manager: Manager) -> None:
    manager.ask(Create("news.eu", "topic"))
    manager.ask(subscribe("news.*", "pager", match="glob"))
    manager.ask(Claim(1, "node"))
    entry = manager.send("news.eu")
    body = bytes(manager.directory.batch_in(manager.log[entry - 1], entry))

    assert body_in(manager.log[entry - 1], entry).destination == "news.eu"
    assert body_in(encode(Carried(1, [entry], [len(body)], ["news.eu"]), body), entry).destination == "news.eu"


# --- temporary destinations ------------------------------------------------------------------------------------------


def test_temporary_destinations_end_with_their_session_and_what_waits_is_finished_not_dead(manager: Manager) -> None:
    manager.ask(Create("_temporary.q", "queue", session="bob"))
    manager.ask(Create("_temporary.t.topic", "topic", session="bob"))
    manager.ask(subscribe("_temporary.t.topic", "_own", session="cat"))
    manager.ask(Attach("cat", 1, "_temporary.t.topic", "_own"))
    manager.send("_temporary.q")
    manager.send("_temporary.t.topic")
    manager.directory = Directory.restore(manager.directory.snapshot())

    manager.ask(Detach("bob"))

    assert DetachedReceiver("cat", 1, ("_temporary.t.topic", "_own"), "session ended") in manager.effects
    assert manager.waiting("_DMQ") == []
    assert not any(name.startswith("_temporary") for name in manager.directory.catalog.destinations)
    assert manager.directory.oldest_needed() == len(manager.log) + 1


def test_what_was_accepted_for_a_temporary_destination_that_is_gone_waits_with_the_dead(manager: Manager) -> None:
    entry = manager.send("_temporary.gone")

    assert manager.waiting("_DMQ") == positions(entry)


def test_no_pattern_matches_a_temporary_topic(manager: Manager) -> None:
    manager.ask(subscribe(r"_temporary\..*", "pager", match="regex"))
    manager.ask(Create("_temporary.t.topic", "topic", session="ann"))

    manager.send("_temporary.t.topic")

    assert manager.waiting(r"regex:_temporary\..*", "pager") == []
