"""Selectors that are asked before a command is applied: the state becomes the same, and a cheap command asks nothing."""

from __future__ import annotations

from holdfast.destination import command
from holdfast.destination.directory import Directory
from holdfast.destination.state import selector_questions
from holdfast.destination.state.subscription_matching import Answers
from holdfast.event.batch import encode
from holdfast.event.event import Head, encode_head

LARGE = "a" * 400_000
SELECTORS = ("p LIKE '%aab%'", "n > 1", "p LIKE '%" + "a_" * 20 + "b%' OR n = 2")


def payload(*numbers: int, text: str = LARGE) -> bytes:
    heads = [encode_head(Head(properties={"n": number, "p": text})) for number in numbers]
    return encode(heads, [b""] * len(heads), source="test", first_id=1)


def subscribed() -> Directory:
    directory = Directory()
    commands: list[command.Command] = [command.Create("news", "topic"), command.OpenProducer("p", "", True)]
    commands += [command.Subscribe("news", f"s{at}", True, selector=each) for at, each in enumerate(SELECTORS)]
    for made in (*commands, command.Subscribe("news", "all", True)):
        directory.apply(directory.applied + 1, command.encode(made))
    return directory


def answers_to(directory: Directory, data: bytes) -> Answers:
    steps = selector_questions.answered(selector_questions.ahead_of(directory, directory.applied + 1, data))
    while True:
        try:
            next(steps)
        except StopIteration as done:
            answers: Answers = done.value
            return answers


def test_what_was_asked_ahead_gives_the_same_state_as_what_is_asked_when_applied() -> None:
    ahead, at_once = subscribed(), subscribed()
    # The second comes first, is held back, and is placed together with the first.
    for sequence in (2, 1):
        data = command.encode(command.BatchCommand("news", "p", sequence), payload(1, 2, 3))

        ahead.answers = answers_to(ahead, data)
        was_asked = bool(ahead.answers)
        for directory in (ahead, at_once):
            directory.apply(directory.applied + 1, data)

        assert was_asked
        assert ahead.answers == {}
        assert ahead.digest() == at_once.digest()
    assert ahead.catalog.subscriptions("news")[1]["waiting"] == 4


def test_every_batch_that_a_command_places_is_asked_about_ahead() -> None:
    directory = subscribed()
    held = command.encode(command.BatchCommand("news", "p", 2), payload(1))
    directory.apply(directory.applied + 1, held)
    entry = directory.applied

    first = command.encode(command.BatchCommand("news", "p", 1), payload(2))
    forgotten = command.encode(command.ForgetProducer("p"))

    assert list(answers_to(directory, first)) == [entry + 1, entry]
    assert list(answers_to(directory, forgotten)) == [entry]


def test_the_batches_of_a_prepared_transaction_are_asked_about_ahead_of_its_final() -> None:
    ahead, at_once = subscribed(), subscribed()
    participants = ["east", "west"]
    for directory in (ahead, at_once):
        for made in (
            command.Introduce("ann", "cm", 1),
            command.Part("ann", "t", 1, "news"),
            command.Prepare("ann", "t", 1, participants, "west"),
        ):
            body = payload(1, 2, 3) if isinstance(made, command.Part) else b""
            directory.apply(directory.applied + 1, command.encode(made, body))
    final = command.encode(command.Final("ann", "t", participants, "west", True), b"", command.Stamp("cm", 1))

    ahead.answers = answers_to(ahead, final)
    assert ahead.answers
    for directory in (ahead, at_once):
        directory.apply(directory.applied + 1, final)

    assert ahead.digest() == at_once.digest()
    assert ahead.catalog.subscriptions("news")[1]["waiting"] == 2


def test_what_is_cheap_is_not_asked_ahead_nor_what_has_no_selector() -> None:
    directory = subscribed()
    directory.apply(directory.applied + 1, command.encode(command.Create("plain", "topic")))
    small = command.encode(command.BatchCommand("news", "", 0), payload(1, text="a"))
    directory.apply(directory.applied + 1, small)  # selectors that were never asked have to be parsed first
    elsewhere = command.encode(command.BatchCommand("plain", "", 0), payload(1))

    assert selector_questions.ahead_of(directory, directory.applied + 1, small) == []
    assert selector_questions.ahead_of(directory, directory.applied + 1, elsewhere) == []


def test_only_selectors_that_came_since_are_asked_again() -> None:
    directory = subscribed()
    data = command.encode(command.BatchCommand("news", "", 0), payload(1))
    directory.answers = answers_to(directory, data)
    assert selector_questions.ahead_of(directory, directory.applied + 1, data) == []

    directory.answers[directory.applied + 1].pop(SELECTORS[0])

    (question,) = selector_questions.ahead_of(directory, directory.applied + 1, data)
    assert [selector.text for selector in question.selectors] == [SELECTORS[0]]
