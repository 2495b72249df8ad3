"""Stages in the directory (rule 10, D3): held for no session, published once, all or nothing."""

from __future__ import annotations

import pytest

from holdfast.destination import command as commands
from holdfast.destination.applying.publishing import encode_payload
from holdfast.destination.command import Abandon, Create, Delete, Detach, Part, Publish, Subscribe, Unsubscribe
from holdfast.destination.directory import Directory
from holdfast.destination.state import assembly
from holdfast.errors import NotPublished, ProtocolError
from holdfast.event import batch
from holdfast.event.event import Head, encode_head
from tests.machines import Manager, batch_of, manager_at_work, positions

ANNS = "/ann"


def stage(manager: Manager, name: str, number: int, destination: str = "orders", events: int = 1, user: str = ANNS) -> int:
    manager.append(Part(user, name, number, destination), batch_of(events, len(manager.log) + 1))
    return len(manager.log)


def publish(manager: Manager, number: int, *stages: tuple[str, int], scope: str = "q", user: str = ANNS) -> tuple[bool, int]:
    answer = manager.ask(Publish(user, scope, number), encode_payload(stages))
    return answer["is_new"], answer["events"]


def refusal(manager: Manager, number: int, *stages: tuple[str, int], user: str = ANNS) -> str:
    error = manager.refusal(Publish(user, "q", number), encode_payload(stages))
    assert isinstance(error, NotPublished)
    return error.sentence


def numbered(*levels: int) -> bytes:
    heads = [encode_head(Head(time_us=1, properties={"level": level})) for level in levels]
    return batch.encode(heads, [b"x"] * len(levels), source="test", first_id=1 << 32)


def test_a_stage_stays_when_the_session_that_sent_it_and_a_primary_are_gone() -> None:
    manager = manager_at_work()
    one = stage(manager, "s", 1)
    manager.append(Detach("ann"))
    manager.append(commands.Claim(1, "next"))
    two = stage(manager, "s", 2, events=2)

    assert manager.waiting("orders") == []
    assert publish(manager, 0, ("s", 2)) == (True, 3)

    assert manager.waiting("orders") == [*positions(one), *positions(two, 2)]
    assert manager.directory.assemblies.staged.parts == 0


def test_placing_follows_the_order_of_the_stages_and_of_numbers_not_that_of_the_channel() -> None:
    manager = manager_at_work()
    late, second, first = stage(manager, "b", 1), stage(manager, "a", 2), stage(manager, "a", 1)
    between = manager.send("orders")

    publish(manager, 5, ("a", 2), ("b", 1))

    assert manager.waiting("orders") == [*positions(between), *positions(first), *positions(second), *positions(late)]


def test_a_repetition_is_answered_places_nothing_and_lets_its_stages_go() -> None:
    manager = manager_at_work()
    stage(manager, "s", 1)
    assert publish(manager, 3, ("s", 1)) == (True, 1)
    stage(manager, "again", 1)
    waiting = manager.waiting("orders")

    assert publish(manager, 3, ("again", 1), ("never", 4)) == (False, 0)
    assert publish(manager, 0) == (False, 0)

    assert manager.waiting("orders") == waiting
    assert list(manager.directory.assemblies) == []
    assert publish(manager, 4) == (True, 0), "the highest number counts, not the latest"


def test_a_publish_that_fails_its_checks_is_refused_with_the_reason_and_leaves_every_stage_as_it_was() -> None:
    manager = manager_at_work()
    stage(manager, "whole", 1)
    stage(manager, "holed", 2)
    stage(manager, "lost", 1, "nowhere")
    stage(manager, "dead", 1, "_DMQ")

    assert "part 1 of 2 of stage 'holed'" in refusal(manager, 0, ("whole", 1), ("holed", 2))
    assert "no destination 'nowhere'" in refusal(manager, 0, ("whole", 1), ("lost", 1))
    assert "no destination '_DMQ'" in refusal(manager, 0, ("dead", 1))
    assert "part 1 of 1 of stage 'never'" in refusal(manager, 0, ("never", 1))
    assert "2 parts of stage 'holed' came, and 1 are named" in refusal(manager, 0, ("holed", 1))
    assert "named twice" in refusal(manager, 0, ("whole", 1), ("whole", 1))
    assert "stage 'whole' is not here" in refusal(manager, 0, ("whole", 1), user="/bob")

    assert publish(manager, 0, ("whole", 1)) == (True, 1)


def test_stages_and_scopes_of_one_user_are_nothing_to_another() -> None:
    manager = manager_at_work()
    anns, bobs = stage(manager, "s", 1), stage(manager, "s", 1, user="/bob")
    manager.ask(Abandon("/bob", "other"))

    assert publish(manager, 9, ("s", 1), user="/bob") == (True, 1)
    manager.ask(Abandon("/bob", "s"))

    assert publish(manager, 0, ("s", 1)) == (True, 1)
    assert manager.waiting("orders") == [*positions(bobs), *positions(anns)]


def test_dropped_stages_free_what_they_pinned_and_a_former_primary_drops_nothing() -> None:
    manager = manager_at_work()
    manager.append(commands.Claim(1, "one"))
    manager.append(commands.Claim(2, "two"))
    first = stage(manager, "a", 1)
    stage(manager, "b", 1)
    manager.ask(Abandon(ANNS, "a", epoch=1))
    assert manager.directory.oldest_needed() == first
    assert manager.directory.is_pinned(first, first)

    manager.ask(Abandon(ANNS, ""), encode_payload(["a", "b", "never"]))

    assert manager.directory.oldest_needed() == manager.directory.applied + 1
    assert manager.directory.assemblies.staged.bytes == 0


def test_of_many_parts_those_that_are_published_or_dropped_are_let_go_and_no_others() -> None:
    manager = manager_at_work()
    entries = {name: [0] * 100 for name in "abc"}
    for number in range(100):
        for name, found in entries.items():
            found[number] = stage(manager, name, number + 1)
    manager.send("alerts")

    publish(manager, 0, ("b", 100))
    manager.ask(Abandon(ANNS, "a"))

    directory = manager.directory
    assert manager.waiting("orders") == [each for entry in entries["b"] for each in positions(entry)]
    assert directory.bodies.held_between(1, directory.applied) == entries["c"]
    assert directory.needed_between(1, entries["c"][-1]) == sorted([*entries["b"], *entries["c"]])


def test_a_part_that_comes_twice_counts_once() -> None:
    manager = manager_at_work()
    first = stage(manager, "s", 1)
    stage(manager, "s", 1)

    assert publish(manager, 0, ("s", 1)) == (True, 1)
    assert manager.waiting("orders") == positions(first)


def test_selectors_are_asked_when_it_is_staged_and_no_heads_are_kept_not_even_over_a_snapshot() -> None:
    manager = manager_at_work()
    manager.ask(Subscribe("alerts", "pager", True, selector="level > 3"))
    manager.ask(Subscribe("alerts", "none", True, selector="level > 9"))
    manager.append(Part(ANNS, "s", 1, "alerts"), numbered(1, 5, 2, 7))
    entry = len(manager.log)
    assert [bytes(made.batch.heads) for each in manager.directory.assemblies for made in each.in_order()] == [b""]
    manager.directory = Directory.restore(manager.directory.snapshot())

    assert publish(manager, 0, ("s", 1)) == (True, 4)

    found = positions(entry, 4)
    assert manager.waiting("alerts", "audit") == found
    assert manager.waiting("alerts", "pager") == [found[1], found[3]]
    assert manager.waiting("alerts", "none") == []


def test_a_selector_that_came_after_something_was_staged_keeps_it_from_being_published() -> None:
    manager = manager_at_work()
    manager.append(Part(ANNS, "s", 1, "alerts"), numbered(1, 5))
    manager.ask(Subscribe("alerts", "pager", True, selector="level > 3"))

    assert "stage it again" in refusal(manager, 0, ("s", 1))

    manager.append(Part(ANNS, "again", 1, "alerts"), numbered(1, 5))
    manager.ask(Subscribe("alerts", "same", True, selector="level > 3"))
    assert publish(manager, 0, ("again", 1)) == (True, 2)
    assert len(manager.waiting("alerts", "same")) == 1
    manager.ask(Unsubscribe("alerts", "pager"))
    manager.ask(Unsubscribe("alerts", "same"))
    assert publish(manager, 1, ("s", 1)) == (True, 2), "nobody asks any more"


def test_what_a_client_published_does_not_reach_a_subscription_that_wants_nothing_of_it() -> None:
    manager = manager_at_work()
    manager.ask(Subscribe("alerts", "others", True, no_local=True, client="ann's"))
    stage(manager, "s", 1, "alerts")
    stage(manager, "t", 1, "alerts")

    manager.ask(Publish(ANNS, "q", 0, "ann's"), encode_payload([("s", 1)]))
    manager.ask(Publish(ANNS, "q", 1, "bob's"), encode_payload([("t", 1)]))

    assert len(manager.waiting("alerts", "audit")) == 2
    assert len(manager.waiting("alerts", "others")) == 1


def test_a_destination_that_was_made_anew_takes_what_was_staged_for_the_former() -> None:
    manager = manager_at_work()
    stage(manager, "s", 1)
    manager.ask(Delete("orders"))
    assert "'orders'" in refusal(manager, 0, ("s", 1))
    manager.ask(Create("orders", "topic"))

    assert publish(manager, 0, ("s", 1)) == (True, 1)


def test_of_too_many_scopes_the_one_used_least_recently_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "SCOPES_MAX", 3)
    manager = Manager()
    for scope in "abc":
        publish(manager, 5, scope=scope)
    publish(manager, 5, scope="a")
    manager.directory = Directory.restore(manager.directory.snapshot())

    publish(manager, 0, scope="d")

    assert [scope for _, scope, _, _ in manager.directory.scopes] == ["c", "a", "d"]
    assert publish(manager, 5, scope="a") == (False, 0)
    assert publish(manager, 5, scope="b") == (True, 0)


def test_a_scope_that_goes_on_is_not_forgotten_for_any_number_that_publish_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "SCOPES_MAX", 6)
    manager = Manager()
    for number in (0, 1):
        publish(manager, number, scope="query")
    manager.directory = Directory.restore(manager.directory.snapshot())

    for each in range(20):
        publish(manager, 0, scope=f"once {each}")

    assert publish(manager, 1, scope="query") == (False, 0)
    for each in range(20):
        for number in (0, 1):
            publish(manager, number, scope=f"often {each}")
    assert publish(manager, 0, scope="new") == (True, 0)
    assert publish(manager, 0, scope="new") == (False, 0), "there is room for those that begin"
    assert len(list(manager.directory.scopes)) == 6
    assert publish(manager, 1, scope="query") == (True, 0), "and of those that go on, too, only so many are remembered"


def test_a_payload_that_names_no_stages_is_refused_and_changes_nothing() -> None:
    manager = manager_at_work()
    stage(manager, "s", 1)

    for payload in (b"", b"\x01", encode_payload([["s"]])):
        assert isinstance(manager.refusal(Publish(ANNS, "q", 0), payload), ProtocolError)
    assert isinstance(manager.refusal(Abandon(ANNS, ""), encode_payload("s")), ProtocolError)
