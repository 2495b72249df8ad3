"""Two-phase commit at one participant (ADR 25, B11): the table of states and commands."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.destination.command import Attach, Command, Complete, Confirm, Decision, Detach, Final, Part, Prepare, Settled
from holdfast.destination.directory import Directory
from holdfast.destination.effect import Answer, Finished, Locked, Placed, Unlocked
from holdfast.destination.state.assembly import Outcome
from holdfast.destination.state.cluster import transactions
from holdfast.errors import Refused
from holdfast.event import position
from tests.machines import Manager, batch_of, manager_at_work, positions, ranges

TWO = ["east", "west"]


def at_work() -> tuple[Manager, int, int]:
    """Three events wait in `orders` and one in `alerts`, for ann; bob receives from `orders` too. The entries of both."""
    manager = manager_at_work()
    manager.ask(Attach("bob", 1, "orders"))
    return manager, manager.send("orders", 3), manager.send("alerts")


def add_part(manager: Manager, number: int = 1, destination: str = "orders") -> int:
    manager.append(Part("ann", "t", number, destination), batch_of(2, 9))
    return len(manager.log)


def prepare(orders: int, here: str = "east", parts: int = 1) -> Prepare:
    """Confirm the first two events of an entry in `orders`."""
    return Prepare("ann", "t", parts, TWO, here, [Settled("orders", "", ranges((position.of(orders), position.of(orders, 1))))])


def decision(is_commit: bool) -> Decision:
    return Decision("ann", "t", TWO, is_commit, "" if is_commit else "gave up")


def final(is_commit: bool, here: str = "east") -> Final:
    return Final("ann", "t", TWO, here, is_commit, "" if is_commit else "gave up")


def restored(manager: Manager) -> Directory:
    made = Directory.restore(manager.directory.snapshot())
    assert made.digest() == manager.directory.digest()
    assert made.oldest_needed() == manager.directory.oldest_needed()
    assert list(made.transactions.in_doubt()) == list(manager.directory.transactions.in_doubt())
    return made


# --- the table -------------------------------------------------------------------------------------------------------

COMPLETE = Complete("ann", "t")
STATES: dict[str, list[Command | str]] = {
    "unknown": [],
    "prepared": ["prepare"],
    "to commit": ["prepare", decision(True)],
    "to abort": ["prepare", decision(False)],
    "committed": ["prepare", decision(True), final(True)],
    "aborted": ["prepare", decision(False), final(False)],
    "aborted unknown": [decision(False)],
    "failed": ["failing"],
    "complete, committed": ["prepare", decision(True), final(True), COMPLETE],
    "complete, aborted": ["prepare", decision(False), final(False), COMPLETE],
}
#                        Prepare      commit    abort     Final commit  Final abort  Complete
TABLE: dict[str, list[str]] = {
    "unknown":             ["prepared", "refused", "abort", "refused", "aborted", "None"],
    "prepared":            ["prepared", "commit", "abort", "refused", "refused", "refused"],
    "to commit":           ["prepared", "commit", "commit", "committed", "refused", "refused"],
    "to abort":            ["prepared", "abort", "abort", "refused", "aborted", "refused"],
    "committed":           ["committed", "commit", "commit", "committed", "refused", "None"],
    "aborted":             ["aborted", "abort", "abort", "refused", "aborted", "None"],
    "aborted unknown":     ["aborted", "abort", "abort", "refused", "aborted", "None"],
    "failed":              ["aborted", "abort", "abort", "refused", "aborted", "None"],
    "complete, committed": ["committed", "commit", "commit", "committed", "refused", "None"],
    "complete, aborted":   ["aborted", "abort", "abort", "refused", "aborted", "None"],
}  # fmt: skip
SAID: list[Command | str] = ["prepare", decision(True), decision(False), final(True), final(False), COMPLETE]


def said(manager: Manager, command: Command | str, orders: int) -> str:
    """What a command is answered with, in a word."""
    made = {"prepare": prepare(orders), "failing": prepare(orders, parts=5)}[command] if isinstance(command, str) else command
    try:
        status = manager.ask(made)
    except Refused:
        return "refused"
    return "None" if status is None else str(status[0])


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("place", range(len(SAID)))
def test_every_command_in_every_state_is_answered_as_the_table_says(state: str, place: int) -> None:
    manager, orders, _ = at_work()
    add_part(manager)
    for command in STATES[state]:
        assert said(manager, command, orders) != "refused"
    before = manager.directory.digest()

    answer = said(manager, SAID[place], orders)

    assert answer == TABLE[state][place]
    if answer == "refused":
        assert manager.directory.digest() == before
    restored(manager)


@pytest.mark.parametrize("state", STATES)
def test_a_final_or_a_decision_said_again_changes_nothing(state: str) -> None:
    manager, orders, _ = at_work()
    add_part(manager)
    for command in STATES[state]:
        said(manager, command, orders)

    for command in SAID:
        first = said(manager, command, orders)
        digest = manager.directory.digest()
        assert said(manager, command, orders) == (first if command != COMPLETE or first == "refused" else "None")
        assert manager.directory.digest() == digest


def test_a_transaction_is_carried_out_whole_by_its_final_and_answered_as_a_commit_is() -> None:
    manager, orders, _ = at_work()
    part = add_part(manager)

    assert manager.ask(prepare(orders)) == ("prepared",)
    assert manager.waiting("orders") == positions(orders, 3)
    assert manager.effects[0] == Locked(("orders", ""), manager.effects[0].ranges)  # type: ignore[union-attr]
    manager.ask(decision(True))
    assert manager.ask(final(True)) == ("committed", 2, 2, part, 0)

    assert manager.waiting("orders") == [position.of(orders, 2), *positions(part, 2)]
    assert [type(effect) for effect in manager.effects] == [Finished, Placed, Answer]
    assert not list(manager.directory.assemblies)


def test_an_aborted_transaction_leaves_everything_as_it_was() -> None:
    manager, orders, _ = at_work()
    before = manager.waiting("orders")
    add_part(manager)

    manager.ask(prepare(orders, here="west"))
    assert manager.ask(final(False, here="west")) == ("aborted", "gave up")

    assert manager.waiting("orders") == before
    assert [type(effect) for effect in manager.effects] == [Unlocked, Answer]
    assert not list(manager.directory.assemblies)
    assert manager.ask(Confirm("orders", "", "ann", ranges(orders))) == 3


def test_only_the_first_participant_needs_a_decision_and_only_it_stays_in_doubt_until_it_is_complete() -> None:
    manager, orders, _ = at_work()
    add_part(manager)
    manager.ask(replace(prepare(orders, here="west"), at_ms=1_234))
    (doubtful,) = manager.directory.transactions.in_doubt()

    keys = (("ann", "t"), ("ann", "t"))
    assert doubtful == ("ann", "t", ("east", "west"), "west", len(manager.log), 1_234, True, "", keys)
    assert isinstance(manager.refusal(decision(True)), Refused)
    manager.ask(final(True, here="west"))

    assert list(manager.directory.transactions.in_doubt()) == []
    assert manager.ask(prepare(orders, here="west"))[0] == "committed"


def test_the_first_participant_is_in_doubt_until_every_final_is_applied() -> None:
    manager, orders, _ = at_work()
    manager.ask(prepare(orders, parts=0))
    manager.ask(decision(True))
    manager.ask(final(True))

    assert [(each.decision, each.is_prepared) for each in restored(manager).transactions.in_doubt()] == [("commit", False)]
    manager.ask(COMPLETE)
    assert list(restored(manager).transactions.in_doubt()) == []


@pytest.mark.parametrize("how", [decision(False), final(False), COMPLETE])
def test_parts_go_with_an_abort_and_one_that_comes_late_revives_nothing(how: Command) -> None:
    manager, orders, _ = at_work()
    add_part(manager)
    if how is COMPLETE:
        for command in (prepare(orders), decision(False), final(False)):
            manager.ask(command)

    manager.ask(how)
    add_part(manager, 2)

    assert not list(manager.directory.assemblies)
    assert manager.directory.oldest_needed() == orders


def test_a_decision_is_listed_as_in_doubt_until_it_is_complete() -> None:
    manager, _, _ = at_work()
    manager.ask(decision(False))

    assert [(each.decision, each.is_prepared) for each in manager.directory.transactions.in_doubt()] == [("abort", False)]
    manager.ask(COMPLETE)
    assert list(manager.directory.transactions.in_doubt()) == []


@pytest.mark.parametrize("names", [[], ["west", "east"], ["east", "east"]])
def test_participants_are_named_in_order_and_this_one_is_among_them(names: list[str]) -> None:
    manager, _, _ = at_work()

    manager.refusal(Prepare("ann", "t", 0, names, "east"))
    manager.refusal(Prepare("ann", "t", 0, TWO, "north"))
    manager.refusal(Final("ann", "t", names, "east", False))
    manager.refusal(Decision("ann", "t", names, False))


def test_a_command_that_names_other_participants_is_refused() -> None:
    manager, orders, _ = at_work()
    manager.ask(prepare(orders, parts=0))

    manager.refusal(Final("ann", "t", ["east", "north"], "east", False))
    manager.refusal(Decision("ann", "t", ["east"], True))
    manager.refusal(Prepare("ann", "t", 0, TWO, "west"))


def test_a_prepare_of_a_session_that_is_gone_is_an_abort() -> None:
    manager, _, _ = at_work()

    assert manager.ask(Prepare("carl", "t", 0, TWO, "east")) == ("aborted", "its session is gone")


def test_outcomes_outlive_the_session_and_the_oldest_of_many_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "OUTCOMES_MAX", 3)
    manager, _, _ = at_work()
    for name in "abcd":
        manager.ask(Prepare("ann", name, 0, TWO, "west"))
        manager.ask(Final("ann", name, TWO, "west", True))
    manager.ask(Detach("ann"))

    assert manager.ask(Final("ann", "d", TWO, "west", True))[0] == "committed"
    assert isinstance(manager.refusal(Final("ann", "a", TWO, "west", True)), Refused)
    restored(manager)


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_outcome_of_a_session_that_is_here_is_known_however_many_others_end_meanwhile(is_commit: bool) -> None:
    manager, orders, _ = at_work()
    manager.ask(prepare(orders, parts=0, here="west"))
    ended = manager.ask(final(is_commit, here="west"))
    for number in range(transactions.OUTCOMES_MAX):
        manager.directory.transactions.remember(("another", str(number)), Outcome())

    assert manager.ask(prepare(orders, parts=0, here="west")) == ended


KEYS = [("ann", "t"), ("ann-at-west", "9")]


def test_what_it_is_called_at_each_participant_is_kept_for_those_who_recover_it() -> None:
    manager, orders, _ = at_work()
    manager.ask(replace(prepare(orders, parts=0), keys=KEYS))

    assert [each.keys for each in restored(manager).transactions.in_doubt()] == [tuple(KEYS)]


def test_an_abort_of_an_unknown_transaction_keeps_what_it_is_called_at_each_participant() -> None:
    manager, _, _ = at_work()
    manager.ask(replace(decision(False), keys=KEYS))

    assert [each.keys for each in restored(manager).transactions.in_doubt()] == [tuple(KEYS)]


@pytest.mark.parametrize("keys", [KEYS[:1], KEYS[::-1], [*KEYS, ("more", "1")]])
def test_a_command_that_calls_it_otherwise_than_here_is_refused(keys: list[tuple[str, str]]) -> None:
    manager, orders, _ = at_work()

    assert isinstance(manager.refusal(replace(prepare(orders, parts=0), keys=keys)), Refused)
    assert isinstance(manager.refusal(replace(decision(False), keys=keys)), Refused)
    assert not list(manager.directory.transactions.in_doubt())
