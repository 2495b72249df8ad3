"""The directory refuses commands with a reason and changes nothing, and stops at those it cannot read."""

from __future__ import annotations

import pytest

from holdfast.destination import command as commands
from holdfast.destination.command import (
    Attach,
    Carried,
    Claim,
    Command,
    Confirm,
    Create,
    Dead,
    Delete,
    ForgetProducer,
    OpenProducer,
    Reject,
    Release,
    Subscribe,
    Unsubscribe,
)
from holdfast.destination.effect import (
    Answer,
)
from holdfast.errors import (
    BadName,
    BatchDamaged,
    DestinationExists,
    Detached,
    HoldfastError,
    NoSuchDestination,
    NoSuchPosition,
    NoSuchSubscription,
    ProtocolError,
    Refused,
    SubscriptionInUse,
    UnknownVersion,
    WrongKind,
)
from holdfast.event.position import of
from tests.machines import Manager, manager_at_work, ranges


@pytest.fixture
def manager() -> Manager:
    return manager_at_work()


REFUSED: list[tuple[Command, type[HoldfastError]]] = [
    (Confirm("nowhere", "", "ann", ranges(1)), NoSuchDestination),
    (Confirm("alerts", "nobody", "ann", ranges(1)), NoSuchSubscription),
    (Confirm("alerts", "", "ann", ranges(1)), WrongKind),
    (Confirm("orders", "audit", "ann", ranges(1)), WrongKind),
    (Confirm("orders", "", "stranger", ranges(1)), Detached),
    (Confirm("orders", "", "ann", ranges((of(1), of(10**6)))), NoSuchPosition),
    (Confirm("orders", "", "ann", ranges(1), of(10**6)), NoSuchPosition),
    (Confirm("orders", "", "ann", b"\x01" * 16 + b"\x00" * 16), ProtocolError),
    (Confirm("orders", "", "ann", b"odd"), ProtocolError),
    (Release("orders", "", "stranger", ranges(1)), Detached),
    (Release("orders", "", "ann", ranges((of(1), of(10**6)))), NoSuchPosition),
    (Reject("orders", "", "stranger", ranges(1), "no"), Detached),
    (Reject("orders", "", "ann", ranges((of(1), of(10**6))), "no"), NoSuchPosition),
    (Reject("_DMQ", "", "ann", ranges(1), "no"), Refused),
    (Create("_own", "queue"), BadName),
    (Create("two words", "queue"), BadName),
    (Create("orders", "queue"), DestinationExists),
    (Create("orders", "topic", is_implicit=True), WrongKind),
    (Delete("_DMQ"), BadName),
    (Delete("nowhere"), NoSuchDestination),
    (Subscribe("nowhere", "audit", True), NoSuchDestination),
    (Subscribe("orders", "audit", True), WrongKind),
    (Subscribe("alerts", "_own", True), BadName),
    (Subscribe("alerts", "audit", False, "bob"), SubscriptionInUse),
    (Subscribe("alerts", "screen", False), Refused),
    (Unsubscribe("alerts", "audit"), SubscriptionInUse),
    (Unsubscribe("alerts", "nobody"), NoSuchSubscription),
    (Unsubscribe("orders", "audit"), WrongKind),
    (Attach("bob", 1, "nowhere"), NoSuchDestination),
    (Attach("bob", 1, "alerts"), WrongKind),
    (Attach("bob", 1, "alerts", "nobody"), NoSuchSubscription),
    (Attach("bob", 1, "alerts", "anns"), SubscriptionInUse),
    (Attach("bob", 0, "orders"), Refused),
    (Attach("", 1, "orders"), Refused),
    (Attach("ann", 1, "alerts", "audit"), Refused),
    (OpenProducer(""), BadName),
    (Claim(5, "south"), Refused),
]


@pytest.mark.parametrize(
    ("command", "error"), REFUSED, ids=[f"{type(each).__name__}-{at}" for at, (each, _) in enumerate(REFUSED)]
)
def test_a_refused_command_says_why_and_changes_nothing(manager: Manager, command: Command, error: type[HoldfastError]) -> None:
    manager.ask(Subscribe("alerts", "anns", False, "ann"))
    manager.send("orders", 2)

    refusal = manager.refusal(command)

    assert type(refusal) is error
    assert len(refusal.sentence) > 20


def test_a_refused_command_that_nobody_waits_for_changes_nothing_either(manager: Manager) -> None:
    entry = manager.send("orders")
    before = manager.directory.digest()

    assert manager.append(Confirm("orders", "", "stranger", ranges(entry))) == []
    assert manager.directory.digest() == before


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\xfa\x00\x00", UnknownVersion),
        (b"\x01", ProtocolError),
        (b"\x01\xff\x00abc", ProtocolError),
        (commands.encode(commands.BatchCommand("orders", "", 0), b"short"), BatchDamaged),
        (commands.encode(commands.BatchCommand("orders", "", 0), bytes(64)), BatchDamaged),
        (commands.encode(Carried(0, [1], [500]), b"short"), BatchDamaged),
        (commands.encode(Dead(0, "orders", "", b"odd", "late")), ProtocolError),
    ],
)
def test_a_command_that_cannot_be_read_stops_whoever_applies_it(
    manager: Manager, data: bytes, error: type[HoldfastError]
) -> None:
    before = manager.directory.digest()

    with pytest.raises(error):
        manager.directory.apply(len(manager.log) + 1, data)

    assert manager.directory.digest() == before
    assert manager.directory.applied == len(manager.log)


def test_only_a_command_with_an_origin_is_answered(manager: Manager) -> None:
    assert not any(isinstance(effect, Answer) for effect in manager.append(ForgetProducer("press")))
    assert manager.ask(ForgetProducer("press")) is None
