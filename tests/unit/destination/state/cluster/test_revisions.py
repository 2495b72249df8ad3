"""Revisions of destinations (ADR 25): a Create or Delete that comes late revives and deletes nothing."""

from __future__ import annotations

import pytest

from holdfast.destination.command import Create, Delete
from holdfast.destination.directory import Directory
from holdfast.destination.state.cluster import revisions
from holdfast.errors import DestinationExists, NotEmpty, Refused
from tests.machines import Manager, manager_at_work


def restored(manager: Manager) -> Directory:
    made = Directory.restore(manager.directory.snapshot())
    assert made.digest() == manager.directory.digest()
    return made


def test_a_create_or_a_delete_with_an_older_revision_changes_nothing() -> None:
    manager = manager_at_work()

    assert manager.ask(Create("new", "queue", revision=5)) is True
    manager.refusal(Delete("new", revision=4))
    manager.ask(Delete("new", revision=6))
    assert isinstance(manager.refusal(Create("new", "queue", revision=5)), Refused)
    assert isinstance(manager.refusal(Create("new", "queue", is_implicit=True, revision=6)), Refused)

    assert manager.ask(Create("new", "topic", revision=8)) is True
    manager.refusal(Delete("new", revision=6))
    assert restored(manager).revisions.of("new") == 8


def test_the_same_revision_again_is_done_already() -> None:
    manager = manager_at_work()
    manager.ask(Create("new", "queue", revision=5))

    assert manager.ask(Create("new", "queue", revision=5)) is False
    assert isinstance(manager.refusal(Create("new", "queue", revision=6)), DestinationExists)
    assert manager.ask(Create("new", "queue", is_implicit=True, revision=6)) is False
    manager.ask(Delete("new", revision=7))
    assert manager.ask(Delete("new", revision=7)) is None


def test_a_delete_that_comes_before_its_create_is_remembered() -> None:
    manager = manager_at_work()

    assert manager.ask(Delete("new", revision=6)) is None
    assert isinstance(manager.refusal(Create("new", "queue", revision=5)), Refused)
    assert restored(manager).revisions.gone == {"new": 6}


def test_a_delete_that_is_refused_notes_no_revision() -> None:
    manager = manager_at_work()
    manager.ask(Create("new", "queue", revision=5))
    manager.send("new")

    assert isinstance(manager.refusal(Delete("new", is_forced=False, revision=6)), NotEmpty)
    assert manager.directory.revisions.of("new") == 5


def test_without_revisions_all_is_as_on_a_single_server() -> None:
    manager = manager_at_work()
    for _ in range(2):
        manager.ask(Create("new", "queue"))
        manager.ask(Delete("new"))

    assert (manager.directory.revisions.present, manager.directory.revisions.gone) == ({}, {})


def test_what_a_command_without_a_revision_deletes_stays_deleted_for_late_ones() -> None:
    manager = manager_at_work()
    manager.ask(Create("new", "queue", revision=5))
    manager.ask(Delete("new"))

    assert isinstance(manager.refusal(Create("new", "queue", revision=5)), Refused)


def test_of_many_that_are_gone_the_oldest_are_forgotten_and_what_is_not_later_than_those_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(revisions, "GONE_MAX", 2)
    manager = manager_at_work()
    for number in range(1, 5):
        manager.ask(Create(f"q{number}", "queue", revision=2 * number - 1))
        manager.ask(Delete(f"q{number}", revision=2 * number))

    known = restored(manager).revisions
    assert (known.gone, known.forgotten) == ({"q3": 6, "q4": 8}, 4)
    manager.refusal(Create("q1", "queue", revision=1))
    assert manager.ask(Create("q1", "queue", revision=9)) is True
