"""Subscriptions as a machine: what each kind takes, who may receive, what goes with whom (rules 4, 6, 12)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.destination.backlog.bodies import body_in
from holdfast.destination.command import (
    Attach,
    BatchCommand,
    Carried,
    Claim,
    Command,
    Confirm,
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
from holdfast.errors import BadName, BadPattern, BadSelector, NoSuchSubscription, NotEmpty, Refused, SubscriptionInUse
from holdfast.event import batch, position
from holdfast.event.event import Head, encode_head
from tests.machines import Manager, batch_of, manager_at_work, positions, ranges


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


def test_a_subscription_that_is_replaced_forgets_what_it_had_chosen(manager: Manager) -> None:
    manager.ask(Create("news", "topic"))
    manager.ask(subscribe("news", "large", selector="level > 5"))
    send(manager, "news", 7)

    assert manager.ask(subscribe("news", "large", selector="level > 3", replace=True)) is True

    assert manager.effects[:2] == [BacklogDeleted(("news", "large")), BacklogCreated(("news", "large"))]
    assert manager.waiting("news", "large") == []
    assert manager.directory.oldest_needed() == len(manager.log) + 1


OTHER_TERMS: list[dict[str, Any]] = [{"selector": "level > 3"}, {"selector": ""}, {"selector": "level > 5", "no_local": True}]


@pytest.mark.parametrize("terms", OTHER_TERMS)
def test_other_terms_are_refused_with_the_count_while_something_waits(manager: Manager, terms: dict[str, Any]) -> None:
    manager.ask(Create("news", "topic"))
    manager.ask(subscribe("news", "large", selector="level > 5"))
    send(manager, "news", 7)

    refusal = manager.refusal(subscribe("news", "large", **terms, replace=False))

    assert isinstance(refusal, NotEmpty)
    assert refusal.fields["waiting"] == 1
    assert "1 event waits in it" in refusal.sentence and "replace=True" in refusal.sentence


@pytest.mark.parametrize("terms", OTHER_TERMS)
def test_other_terms_replace_a_subscription_in_which_nothing_waits(manager: Manager, terms: dict[str, Any]) -> None:
    manager.ask(Create("news", "topic"))
    manager.ask(subscribe("news", "large", selector="level > 5"))

    assert manager.ask(subscribe("news", "large", **terms, replace=False)) is True


def test_a_durable_subscription_becomes_a_shared_one_only_where_replace_is_said(manager: Manager) -> None:
    manager.ask(Create("news", "topic"))
    manager.ask(subscribe("news", "pool"))
    manager.send("news", 3)

    refusal = manager.refusal(subscribe("news", "pool", is_shared=True, replace=False))
    is_new = manager.ask(subscribe("news", "pool", is_shared=True, replace=True))

    assert isinstance(refusal, SubscriptionInUse)
    assert "3 events wait in it" in refusal.sentence and "replace=True" in refusal.sentence
    assert is_new is True
    assert manager.waiting("news", "pool") == []


def test_commands_written_before_they_could_be_forced_do_what_they_did_then(manager: Manager) -> None:
    encode_head = msgspec.msgpack.encode
    manager.ask(Create("news", "topic"))
    for name in ("large", "gone"):
        manager.ask(subscribe("news", name, selector="level > 5"))
    send(manager, "news", 7)
    manager.send("orders")
    heads: list[tuple[int, list[object]]] = [
        (Subscribe.KIND, ["news", "large", True, "", "", 0, "name", "level > 3", False, False, ""]),
        (Unsubscribe.KIND, ["news", "gone", "", 0]),
        (Delete.KIND, ["orders", "", 0, 5]),
    ]

    for kind, head in heads:
        encoded = encode_head(head)
        manager.log.append(bytes([kind]) + len(encoded).to_bytes(2, "little") + encoded)
        manager.directory.apply(len(manager.log), manager.log[-1])

    assert manager.waiting("news", "large") == []
    assert ("news", "gone") not in manager.directory.backlogs()
    assert "orders" not in manager.directory.catalog.destinations


# --- deleting where something waits ----------------------------------------------------------------------------------


def test_a_queue_in_which_something_waits_is_deleted_only_by_force(manager: Manager) -> None:
    entry = manager.send("orders", 3)
    manager.ask(Confirm("orders", "", "ann", ranges((position.of(entry), position.of(entry)))))

    refusal = manager.refusal(Delete("orders", is_forced=False))
    manager.ask(Delete("orders", is_forced=True))

    assert isinstance(refusal, NotEmpty)
    assert refusal.fields["waiting"] == 2
    assert "2 events wait in it" in refusal.sentence and "force=True" in refusal.sentence
    assert manager.waiting("_DMQ") == positions(entry, 3)[1:]


def test_an_empty_queue_is_deleted_without_force_also_under_its_receivers(manager: Manager) -> None:
    manager.ask(Delete("orders", is_forced=False))

    assert DetachedReceiver("ann", 1, ("orders", ""), "destination deleted") in manager.effects


def test_a_topic_is_deleted_only_by_force_while_something_waits_in_a_subscription_of_its_own(manager: Manager) -> None:
    manager.ask(Create("news", "topic"))
    manager.ask(subscribe("news*", "pager", match="glob"))
    manager.send("news", 2)
    manager.ask(Delete("news", is_forced=False))  # what waits for a pattern stays
    manager.ask(Create("news", "topic"))
    manager.ask(subscribe("news", "news"))
    manager.send("news", 5)
    manager.ask(subscribe("news", "empty"))

    refusal = manager.refusal(Delete("news", is_forced=False))

    assert isinstance(refusal, NotEmpty)
    assert "5 events wait in it (5 in subscription 'news');" in refusal.sentence
    assert len(manager.waiting("glob:news*", "pager")) == 7


@pytest.mark.parametrize("match", ["name", "glob"])
def test_a_subscription_in_which_something_waits_is_deleted_only_by_force(manager: Manager, match: str) -> None:
    topic = "glob:news*" if match == "glob" else "news"
    manager.ask(Create("news", "topic"))
    manager.ask(subscribe("news*" if match == "glob" else "news", "pager", match=match))
    manager.send("news", 2)

    refusal = manager.refusal(Unsubscribe(topic, "pager", is_forced=False))
    manager.ask(Unsubscribe(topic, "pager", is_forced=True))

    assert isinstance(refusal, NotEmpty)
    assert refusal.fields["waiting"] == 2
    assert (topic, "pager") not in manager.directory.backlogs()


def test_a_temporary_queue_in_which_something_waits_is_deleted_only_by_force(manager: Manager) -> None:
    manager.ask(Create("_temporary.q", "queue", session="ann"))
    manager.send("_temporary.q")

    refusal = manager.refusal(Delete("_temporary.q", is_forced=False))
    manager.ask(Delete("_temporary.q", is_forced=True))

    assert isinstance(refusal, NotEmpty) and "is lost" in refusal.sentence
    assert "_temporary.q" not in manager.directory.catalog.destinations


def test_a_topic_is_not_deleted_under_the_owner_of_a_subscription_even_by_force(manager: Manager) -> None:
    manager.ask(Create("news", "topic"))
    manager.ask(subscribe("news", "lake"))
    manager.ask(Attach("query", 1, "news", "lake", is_owner=True))
    manager.directory = Directory.restore(manager.directory.snapshot())

    refusal = manager.refusal(Delete("news", is_forced=True))
    manager.ask(Detach("query"))
    manager.ask(Delete("news", is_forced=False))

    assert isinstance(refusal, SubscriptionInUse)
    assert "'lake'" in refusal.sentence and "stop that query" in refusal.sentence
    assert "news" not in manager.directory.catalog.destinations


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
