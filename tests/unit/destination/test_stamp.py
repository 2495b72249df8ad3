"""Stamped commands (ADR 25): applied once, however often and however late they come."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.destination import command as commands
from holdfast.destination.command import (
    Attach,
    Check,
    Command,
    Confirm,
    Create,
    Delete,
    Detach,
    Introduce,
    OpenProducer,
    Prepare,
    Purge,
    Settled,
    Stamp,
    Subscribe,
)  # fmt: skip
from holdfast.destination.directory import Directory
from holdfast.destination.effect import Answer, Checked, Effect
from holdfast.destination.settings import Settings
from holdfast.destination.stamp import STAMP_BYTES_MAX, stamp_of
from holdfast.destination.state.cluster import origins
from holdfast.errors import BadName, Detached, NoSuchDestination, OutcomeUnknown, ProtocolError, TooLarge, UnknownVersion
from holdfast.event import position
from tests.machines import Manager, batch_of, manager_at_work, ranges


def say(manager: Manager, command: Command, token: int, low: int = 0, start: str = "cm.1") -> list[Effect]:
    """Append a stamped command; its effects."""
    data = commands.encode(replace(command, origin="cm", token=token), b"", Stamp(start, token, low))
    manager.log.append(data)
    manager.effects = manager.directory.apply(len(manager.log), data)
    return manager.effects


def answer_to(manager: Manager, command: Command, token: int, low: int = 0, start: str = "cm.1") -> object:
    """What it is answered with: a value, an error, or "nothing"."""
    answers = [effect for effect in say(manager, command, token, low, start) if isinstance(effect, Answer)]
    if not answers:
        return "nothing"
    (answer,) = answers
    assert (answer.origin, answer.token) == ("cm", token)
    return answer.value if answer.error is None else answer.error


def restored(manager: Manager) -> Directory:
    made = Directory.restore(manager.directory.snapshot())
    assert made.digest() == manager.directory.digest()
    return made


# --- how it looks ----------------------------------------------------------------------------------------------------

EXAMPLES: dict[str, object] = {
    "kind": "queue", "settings": Settings(), "backlog": ("q", ""), "holder": ("s", 1), "ranges": b"", "entries": [1],
    "lengths": [1], "participants": ["a"], **dict.fromkeys(("is_commit", "is_durable"), True),
    **dict.fromkeys(("sequence", "epoch", "receiver", "number", "parts", "made_at", "link"), 1),
}  # fmt: skip


@pytest.mark.parametrize("kind", commands.KINDS.values())
def test_every_kind_of_command_may_be_stamped_and_is_read_as_without_a_stamp(kind: type[Command]) -> None:
    made = kind(**{each.name: EXAMPLES.get(each.name, "x") for each in msgspec.structs.fields(kind) if each.required})

    stamped = commands.encode(made, b"payload", Stamp("cm.1", 7, 3))

    assert commands.kind_of(stamped) == kind.KIND
    assert stamp_of(stamped) == stamp_of(memoryview(stamped)) == Stamp("cm.1", 7, 3)
    command, payload = commands.decode(stamped)
    assert (command, bytes(payload)) == (made, b"payload")


def test_the_batch_in_a_stamped_part_is_found_where_it_lies() -> None:
    stamped = commands.encode(commands.Part("s", "t", 1, "q"), batch_of(2), Stamp("cm.1", 7, 3))

    assert bytes(Directory.batch_in(stamped, 1)) == batch_of(2)


def test_a_stamp_that_is_cut_or_is_none_is_a_protocol_error_and_an_unknown_kind_another_version() -> None:
    stamped = commands.encode(Purge("orders"), b"", Stamp("cm.1", 7, 3))

    for end in range(3, len(stamped)):
        with pytest.raises(ProtocolError):
            commands.decode(stamped[:end])
    with pytest.raises(ProtocolError):
        stamp_of(stamped[:3])
    with pytest.raises(ProtocolError):
        stamp_of(stamped[:4] + b"\xff" * 20)
    with pytest.raises(UnknownVersion):
        commands.decode(b"\xfe" + stamped[1:])


def test_a_stamp_is_short_and_counts_to_the_length_of_the_head() -> None:
    with pytest.raises(BadName):
        commands.encode(Purge("orders"), b"", Stamp("x" * STAMP_BYTES_MAX, 1))
    with pytest.raises(TooLarge):
        commands.encode(Purge("o" * (commands.HEAD_BYTES_MAX - 20)), b"", Stamp("x" * 30, 1))


# --- once ------------------------------------------------------------------------------------------------------------


def test_a_command_that_comes_again_is_answered_as_before_and_changes_nothing() -> None:
    manager = manager_at_work()
    manager.send("orders", 3)

    assert answer_to(manager, Purge("orders"), 1) == 3
    manager.send("orders", 2)
    digest = manager.directory.digest()

    assert answer_to(manager, Purge("orders"), 1) == 3
    assert manager.directory.digest() == digest
    manager.directory = restored(manager)
    assert answer_to(manager, Purge("orders"), 1) == 3
    assert manager.directory.backlog(("orders", "")).waiting == 2


def test_a_refusal_is_remembered_too_with_its_code_and_fields() -> None:
    manager = manager_at_work()

    first = answer_to(manager, Purge("nowhere"), 1)
    manager.ask(Create("nowhere", "queue"))
    again = answer_to(manager, Purge("nowhere"), 1)

    assert isinstance(first, NoSuchDestination) and isinstance(again, NoSuchDestination)
    assert (first.sentence, first.fields) == (again.sentence, again.fields)


def test_a_command_below_low_is_dropped_without_an_answer() -> None:
    manager = manager_at_work()
    manager.send("orders")
    answer_to(manager, Create("new", "queue"), 5, low=5)

    assert answer_to(manager, Purge("orders"), 4, low=2) == "nothing"

    assert manager.directory.backlog(("orders", "")).waiting == 1
    assert [(each.low, each.applied) for each in manager.directory.origins] == [(5, [(5, 5)])]


def test_a_command_that_was_overtaken_is_applied_when_it_comes() -> None:
    manager = manager_at_work()
    manager.send("orders")
    answer_to(manager, Create("new", "queue"), 3, low=2)

    assert answer_to(manager, Purge("orders"), 2, low=2) == 1
    assert [each.applied for each in manager.directory.origins] == [[(2, 3)]]


def test_another_start_counts_anew() -> None:
    manager = manager_at_work()

    assert answer_to(manager, Create("new", "queue"), 1) is True
    assert answer_to(manager, Delete("new"), 1, start="cm.2") is None
    assert answer_to(manager, Create("new", "queue"), 1) is True, "said again by the first: answered, not done"
    assert "new" not in manager.directory.catalog.destinations


def test_outcomes_are_forgotten_when_low_passes_them_and_past_a_limit_only_that_they_were_applied_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(origins, "OUTCOMES_MAX", 3)
    manager = manager_at_work()
    for token in range(1, 6):
        answer_to(manager, Purge("orders"), token)
    (origin,) = manager.directory.origins
    assert list(origin.outcomes) == [3, 4, 5] and origin.applied == [(1, 5)]

    assert isinstance(answer_to(manager, Purge("orders"), 1), OutcomeUnknown)
    assert answer_to(manager, Purge("orders"), 4) == 0
    answer_to(manager, Purge("orders"), 6, low=5)

    assert list(origin.outcomes) == [5, 6] and origin.applied == [(5, 6)]
    restored(manager)


def test_the_outcomes_of_a_sender_take_so_many_bytes_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "BYTES_MAX", 200)
    manager = manager_at_work()
    for token in range(1, 6):
        answer_to(manager, Check(), token)

    (origin,) = manager.directory.origins
    assert list(origin.outcomes) == [4, 5], "a digest has 64 letters"
    assert [list(each.outcomes) for each in restored(manager).origins] == [[4, 5]]
    answer_to(manager, Check(), 7, low=6)
    assert list(origin.outcomes) == [7]


def test_the_sender_that_was_used_least_recently_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "ORIGINS_MAX", 2)
    manager = manager_at_work()
    for start in ("a", "b", "a", "c"):
        answer_to(manager, Purge("orders"), 1, start=start)

    assert [each.start for each in manager.directory.origins] == ["a", "c"]
    assert [each.start for each in restored(manager).origins] == ["a", "c"]


def test_a_long_answer_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "OUTCOME_BYTES_MAX", 10)
    manager = manager_at_work()

    assert isinstance(answer_to(manager, Check(), 1), str)
    assert isinstance(answer_to(manager, Check(), 1), OutcomeUnknown)


def test_a_stamped_command_that_waits_for_a_final_is_not_answered_before_and_then_once() -> None:
    manager = manager_at_work()
    orders = manager.send("orders")
    locked = Settled("orders", "", ranges((position.of(orders), position.of(orders))))
    manager.ask(Prepare("ann", "t", 0, ["east", "west"], "west", [locked]))

    assert answer_to(manager, Delete("orders"), 1) == "nothing"
    assert answer_to(manager, Delete("orders"), 1) == "nothing"
    assert len(manager.directory.transactions.waiting) == 1
    manager.directory = restored(manager)
    effects = manager.append(commands.Final("ann", "t", ["east", "west"], "west", True))

    assert [(each.origin, each.token, each.error) for each in effects if isinstance(each, Answer)] == [("cm", 1, None)]
    assert answer_to(manager, Delete("orders"), 1) is None


# --- sessions --------------------------------------------------------------------------------------------------------

OF_AN_UNKNOWN_SESSION = [
    Attach("carl", 1, "orders"),
    OpenProducer("press", "carl"),
    Create("_temporary.carl.1", "queue", session="carl"),
    Subscribe("alerts", "_own", False, "carl"),
]


@pytest.mark.parametrize("command", OF_AN_UNKNOWN_SESSION)
def test_only_introduce_makes_a_session_in_a_cluster(command: Command) -> None:
    manager = manager_at_work()

    assert isinstance(answer_to(manager, command, 1), Detached)
    assert list(manager.directory.sessions()) == ["ann"]
    assert answer_to(manager, Introduce("carl", "cm.1", 1), 2) is True
    assert list(manager.directory.sessions()) == ["ann", "carl"]
    again = answer_to(manager, command, 3)

    assert not isinstance(again, Detached)


def test_a_late_attach_does_not_revive_a_session_that_ended() -> None:
    manager = manager_at_work()
    answer_to(manager, Introduce("carl", "cm.1", 1), 1)
    answer_to(manager, Detach("carl", link=1), 3)

    assert isinstance(answer_to(manager, Attach("carl", 1, "orders"), 2), Detached)
    assert isinstance(answer_to(manager, Confirm("orders", "", "carl", b""), 4), Detached)


# --- check -----------------------------------------------------------------------------------------------------------


def test_every_member_says_the_same_digest_at_a_check() -> None:
    manager = manager_at_work()
    manager.send("orders", 3)
    backup = restored(manager)

    effects = say(manager, Check(), 1)
    said = backup.apply(len(manager.log), manager.log[-1])

    (checked,) = (each for each in effects if isinstance(each, Checked))
    assert checked.entry == len(manager.log) and checked in said
    assert checked.digest != manager.directory.digest(), "the answer is remembered after it"
    assert backup.digest() == manager.directory.digest()
