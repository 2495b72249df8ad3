from __future__ import annotations

import msgspec
import pytest

from holdfast.destination import command
from holdfast.node.remote import appended_commands
from holdfast.node.remote.appended_commands import AppendedCommands


def noted(*commands: command.Command, payload: bytes = b"") -> AppendedCommands:
    made = AppendedCommands()
    for each in commands:
        made.note(command.encode(each, payload))
    return made


def test_parts_of_an_assembly_are_counted_each_once() -> None:
    appended = noted(*(command.Part("s", "a", number) for number in (1, 2, 2, 1, 3)), payload=b"1234")

    found = appended.find("s", "a")
    assert found is not None and (found.bytes, found.parts) == (12, {1, 2, 3})
    assert (appended.open_of("s"), appended.open_of("t"), appended.find("t", "a")) == (1, 0, None)


@pytest.mark.parametrize(
    ("end", "payload", "left"),
    [
        (command.Commit("s", "a", 1), b"", ["b", "c"]),
        (command.Abandon("s", "a"), b"", ["b", "c"]),
        (command.Abandon("s", ""), msgspec.msgpack.encode(["a", "c"]), ["b"]),
        (command.Publish("s", "scope", 1), msgspec.msgpack.encode([["a", 1], ["b", 1], ["other", 3]]), ["c"]),
        (command.Detach("s", 0), b"", []),
        (command.Detach("s", 1), b"", ["a", "b", "c"]),
        (command.Detach("t", 0), b"", ["a", "b", "c"]),
        (command.Commit("t", "a", 1), b"", ["a", "b", "c"]),
    ],
)
def test_an_assembly_ends_with_its_commit_its_abandon_its_publish_or_its_session(
    end: command.Command, payload: bytes, left: list[str]
) -> None:
    appended = noted(*(command.Part("s", name, 1) for name in "abc"))

    appended.note(command.encode(end, payload))

    assert [name for name in "abc" if appended.find("s", name) is not None] == left
    assert appended.open_of("s") == len(left)


def test_temporary_destinations_of_a_session_are_counted_until_they_are_deleted_or_it_is_gone() -> None:
    made = [command.Create(f"_temporary.{number}", "queue", session="s") for number in range(3)]
    appended = noted(*made, made[0], command.Create("stays", "queue"), command.Create("_temporary.9", "topic", session="t"))
    assert [appended.temporaries_of(session) for session in ("s", "t", "u", "")] == [3, 1, 0, 0]

    appended.note(command.encode(command.Delete("_temporary.1")))
    appended.note(command.encode(command.Delete("stays")))
    assert [appended.temporaries_of(session) for session in ("s", "t")] == [2, 1]

    appended.forget_session("s")
    appended.note(command.encode(command.Delete("_temporary.2")))
    assert [appended.temporaries_of(session) for session in ("s", "t")] == [0, 1]
    assert list(appended._owners) == ["_temporary.9"]


def test_the_oldest_is_forgotten_past_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appended_commands, "ASSEMBLIES_MAX", 2)
    monkeypatch.setattr(appended_commands, "SESSIONS_MAX", 2)
    appended = AppendedCommands()
    for session in ("s", "t", "u"):
        appended.note(command.encode(command.Part(session, "a", 1)))
    for session in ("v", "w", "x"):
        appended.note(command.encode(command.Create(f"_temporary.{session}", "queue", session=session)))

    assert [appended.open_of(session) for session in ("s", "t", "u")] == [0, 1, 1]
    assert [appended.temporaries_of(session) for session in ("v", "w", "x")] == [0, 1, 1]


def test_batches_and_confirms_are_passed_over_without_being_read() -> None:
    appended = AppendedCommands()

    appended.note(bytes([command.BatchCommand.KIND]) + b"not readable")

    assert appended.open_of("s") == 0
