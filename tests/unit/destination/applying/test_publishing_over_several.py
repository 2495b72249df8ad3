"""Stages at several message managers are published in one decision (ADR 25, D3): everywhere once, or nowhere."""

from __future__ import annotations

import pytest

from holdfast.destination.applying.publishing import encode_payload
from holdfast.destination.command import Abandon, Create, Decision, Delete, Final, Part, Prepare, Publish, Subscribe
from holdfast.destination.directory import Directory
from holdfast.destination.effect import Answer
from tests.machines import Manager, batch_of, manager_at_work, positions

TWO = ["east", "west"]
STAGES = "/"


def staged(*names: str) -> Manager:
    """Stages of one part each, for `orders`."""
    manager = manager_at_work()
    for name in names:
        stage(manager, name)
    return manager


def stage(manager: Manager, name: str, number: int = 1, destination: str = "orders") -> int:
    manager.append(Part(STAGES, name, number, destination), batch_of(2, len(manager.log) + 1))
    return len(manager.log)


def prepare(manager: Manager, *names: str, transaction: str = "p1", number: int = 0, parts: int = 1) -> tuple[object, ...]:
    made = Prepare(STAGES, transaction, 0, TWO, "west", scope="query", number=number)
    status: tuple[object, ...] = manager.ask(made, encode_payload([(name, parts) for name in names]))
    restored(manager)
    return status


def finish(manager: Manager, is_commit: bool, transaction: str = "p1") -> tuple[object, ...]:
    copy = restored(manager)
    status: tuple[object, ...] = manager.ask_all(Final(STAGES, transaction, TWO, "west", is_commit, "gave up"))
    copy.apply(len(manager.log), manager.log[-1])
    assert copy.digest() == manager.directory.digest()
    return status


def publish(*names: str, number: int = 0) -> tuple[Publish, bytes]:
    return Publish(STAGES, "query", number), encode_payload([(name, 1) for name in names])


def restored(manager: Manager) -> Directory:
    made = Directory.restore(manager.directory.snapshot())
    assert made.digest() == manager.directory.digest()
    assert made.transactions.stages == manager.directory.transactions.stages
    assert made.transactions.scopes == manager.directory.transactions.scopes
    return made


def test_prepared_stages_are_placed_by_the_final_in_their_order_and_only_once() -> None:
    manager = manager_at_work()
    second, first = stage(manager, "b"), stage(manager, "a")

    assert prepare(manager, "a", "b") == ("prepared", -1)
    assert manager.waiting("orders") == []
    assert finish(manager, True) == ("committed", 4, 0, first, 0)

    assert manager.waiting("orders") == positions(first, 2) + positions(second, 2)
    stage(manager, "c")
    assert prepare(manager, "c", transaction="p2") == ("prepared", 0), "the number that was published last"
    assert finish(manager, True, "p2") == ("committed", 0, 0, 0, 0), "this number was published before"
    assert len(manager.waiting("orders")) == 4 and not list(manager.directory.assemblies)


def test_after_an_abort_the_stages_stay_and_may_be_published_later() -> None:
    manager = staged("a", "p1")

    prepare(manager, "a")
    assert finish(manager, False) == ("aborted", "gave up")
    assert [each.name for each in manager.directory.assemblies] == ["a", "p1"]
    prepare(manager, "a", "p1", transaction="p2")
    finish(manager, True, "p2")

    assert len(manager.waiting("orders")) == 4


@pytest.mark.parametrize("how", [Decision(STAGES, "a", TWO, False), Final(STAGES, "a", TWO, "west", False)])
def test_an_abort_of_an_unknown_publication_does_not_drop_a_stage_of_the_same_name(how: Decision | Final) -> None:
    manager = staged("a")

    manager.ask(how)

    assert [each.name for each in manager.directory.assemblies] == ["a"]


@pytest.mark.parametrize("parts", [0, 2])
def test_a_publication_that_fails_its_checks_is_aborted_and_leaves_the_stages(parts: int) -> None:
    manager = staged("a")

    status = prepare(manager, "a", parts=parts)

    assert status[0] == "aborted" and "nothing was published" in str(status[1])
    assert [each.name for each in manager.directory.assemblies] == ["a"]


def test_a_scope_or_a_stage_in_doubt_is_not_prepared_again() -> None:
    manager = staged("a", "b")
    prepare(manager, "a")

    assert prepare(manager, "b", transaction="p2")[0] == "aborted"
    other = Prepare(STAGES, "p3", 0, TWO, "west", scope="another", number=0)
    assert manager.ask(other, encode_payload([("a", 1)]))[0] == "aborted"


def test_whatever_comes_before_the_final_takes_effect_after_it() -> None:
    manager = staged("a", "b")
    prepare(manager, "a")

    manager.append(Abandon(STAGES, "a"))
    manager.append(Abandon(STAGES, ""), encode_payload(["b", "a"]))
    manager.append(Delete("orders"))
    manager.append(*publish("b"))
    manager.append(*publish("a", number=7))
    manager.append(Subscribe("alerts", "some", True, selector="a = 1"))
    stage(manager, "a", 2)
    assert len(manager.directory.transactions.waiting) == 6
    assert finish(manager, True)[:2] == ("committed", 2)

    assert manager.directory.transactions.waiting == []
    assert "orders" not in manager.directory.catalog.destinations
    assert len(manager.waiting("_DMQ")) == 2
    assert ("alerts", "some") in manager.directory.backlogs()
    assert manager.directory.scopes.last((STAGES, "query")) == 0
    assert not list(manager.directory.assemblies)


def test_a_publication_that_waited_is_answered_as_a_repetition_if_it_is_one() -> None:
    manager = staged("a", "b")
    prepare(manager, "a")
    made, payload = publish("b")
    manager.append(Publish(made.session, made.scope, made.number, "", "cm", 5), payload)

    effects = manager.append(Final(STAGES, "p1", TWO, "west", True))

    (answer,) = (each for each in effects if isinstance(each, Answer))
    assert (answer.token, answer.value) == (5, {"is_new": False, "events": 0, "last": 0})


def test_other_stages_and_scopes_do_not_wait() -> None:
    manager = staged("a", "b")
    manager.ask(Create("other", "queue"))
    prepare(manager, "a")

    answer = manager.ask(Publish(STAGES, "another", 3), encode_payload([("b", 1)]))

    assert answer == {"is_new": True, "events": 2, "last": 3}
