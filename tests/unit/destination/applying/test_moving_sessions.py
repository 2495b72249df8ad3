"""Sessions that move between client managers, and what comes late from the former one (ADR 25, B10)."""

from __future__ import annotations

import pytest

from holdfast.destination.applying.attaching import REVOKED
from holdfast.destination.command import (
    Attach,
    BatchCommand,
    Claim,
    Confirm,
    Detach,
    ForgetProducer,
    Introduce,
    OpenProducer,
    Release,
    Revoke,
    Subscribe,
)
from holdfast.destination.directory import Directory
from holdfast.destination.effect import Attached, Claimed, DetachedReceiver
from holdfast.destination.state.receivers import ATTACHED_BY_MAX
from holdfast.errors import Detached, Refused
from holdfast.event import position
from tests.machines import Manager, batch_of, manager_at_work, positions, ranges


def restored(manager: Manager) -> Directory:
    made = Directory.restore(manager.directory.snapshot())
    assert made.digest() == manager.directory.digest()
    return made


def with_carl(link: int = 2) -> Manager:
    manager = manager_at_work()
    manager.ask(Introduce("carl", "cm.1", link))
    manager.ask(Attach("carl", 1, "orders"))
    return manager


def test_a_session_moves_with_its_client_and_keeps_what_it_has() -> None:
    manager = with_carl()

    assert manager.ask(Introduce("carl", "cm.2", 3, True)) is False
    session = restored(manager).sessions()["carl"]

    assert (session.client_manager, session.link, session.receivers) == ("cm.2", 3, {1: ("orders", "")})


def test_what_comes_by_an_earlier_link_is_ignored() -> None:
    manager = with_carl()

    manager.refusal(Introduce("carl", "cm.0", 1))
    before = manager.directory.digest()
    manager.ask(Detach("carl", 0, link=1))
    manager.ask(Detach("carl", 1, link=1))

    assert manager.directory.digest() == before
    manager.ask(Detach("carl", 0, link=2))
    assert "carl" not in manager.directory.sessions()


def test_introducing_again_by_the_same_link_changes_nothing() -> None:
    manager = with_carl()
    before = manager.directory.digest()

    assert manager.ask(Introduce("carl", "cm.1", 2)) is False
    assert manager.directory.digest() == before


def test_a_session_that_is_resumed_must_be_known() -> None:
    manager = manager_at_work()

    assert isinstance(manager.refusal(Introduce("carl", "cm.1", 2, is_resuming=True)), Detached)


@pytest.mark.parametrize("made", [Introduce("", "cm.1", 1), Introduce("carl", "cm.1", 0)])
def test_a_session_has_a_name_and_a_link(made: Introduce) -> None:
    assert isinstance(manager_at_work().refusal(made), Refused)


def attached(manager: Manager, made: Attach) -> list[Attached]:
    return [each for each in manager.append(made) if isinstance(each, Attached)]


def test_an_attach_that_was_overtaken_by_a_later_one_of_its_receiver_changes_nothing() -> None:
    """It would take the credit of the receiver away. Found by the simulation of whole nodes."""
    manager = with_carl()
    assert attached(manager, Attach("carl", 2, "orders", origin="cm.1", token=7))
    before = manager.directory.digest()

    assert not attached(manager, Attach("carl", 2, "orders", origin="cm.1", token=3))
    assert manager.directory.digest() == before
    manager.directory = restored(manager)
    assert not attached(manager, Attach("carl", 2, "orders", origin="cm.1", token=4))

    assert attached(manager, Attach("carl", 2, "orders", origin="cm.1", token=8))
    assert attached(manager, Attach("carl", 2, "orders", origin="cm.2", token=1))  # its session has moved


def test_a_late_attach_does_not_bring_back_a_receiver_that_was_left() -> None:
    manager = with_carl()
    manager.append(Attach("carl", 2, "orders", origin="cm.1", token=7))
    manager.ask(Detach("carl", 2))

    assert not attached(manager, Attach("carl", 2, "orders", origin="cm.1", token=3))

    assert 2 not in manager.directory.sessions()["carl"].receivers


def test_how_receivers_were_attached_is_known_of_the_latest_ones() -> None:
    manager = with_carl()
    for receiver in range(2, ATTACHED_BY_MAX + 10):
        manager.append(Attach("carl", receiver, "orders", origin="cm.1", token=receiver))

    session = restored(manager).sessions()["carl"]

    assert len(session.attached_by) == ATTACHED_BY_MAX
    assert session.is_late(ATTACHED_BY_MAX + 9, "cm.1", 1)


def test_a_release_for_a_session_whose_client_manager_is_gone_is_ignored_after_a_later_link() -> None:
    manager = with_carl(link=2)
    what = ("orders", "", "carl", ranges(manager.send("orders")))
    before = manager.directory.digest()

    manager.ask(Release(*what, link=1))
    assert manager.directory.digest() == before
    manager.ask(Release(*what, link=2))

    assert manager.directory.digest() != before


# --- a client manager falls silent -----------------------------------------------------------------------------------


def test_the_receivers_of_a_silent_client_manager_are_detached_and_no_others() -> None:
    manager = with_carl()
    manager.ask(Introduce("dora", "cm.2", 1))
    manager.ask(Attach("dora", 1, "orders"))
    manager.ask(Subscribe("alerts", "team", False, is_shared=True))
    manager.ask(Attach("carl", 2, "alerts", "team"))

    effects = manager.append(Revoke(0, "cm.1"))

    gone = [(each.session, each.receiver, each.reason) for each in effects if isinstance(each, DetachedReceiver)]
    assert gone == [("carl", 1, REVOKED), ("carl", 2, REVOKED)]
    assert list(manager.directory.sessions()) == ["ann", "carl", "dora"]
    assert ("alerts", "team") not in manager.directory.backlogs()
    assert isinstance(manager.refusal(Confirm("orders", "", "carl", b"")), Detached)


def test_a_former_primary_revokes_nothing_and_sessions_of_a_single_server_are_nobodys() -> None:
    manager = with_carl()
    manager.ask(Claim(1, "n"))
    manager.ask(Claim(2, "m"))
    before = manager.directory.digest()

    manager.append(Revoke(1, "cm.1"))
    manager.append(Revoke(2, ""))

    assert manager.directory.digest() == before


# --- producers outlive their session ---------------------------------------------------------------------------------


def sent(manager: Manager, sequence: int) -> int:
    manager.append(BatchCommand("orders", "press", sequence), batch_of(1, sequence))
    return len(manager.log)


def test_after_its_session_a_producer_keeps_sequence_and_holes_until_the_primary_forgets_it() -> None:
    manager = with_carl()
    manager.ask(Claim(1, "n"))
    manager.ask(OpenProducer("press", "carl"))
    first, third = sent(manager, 1), sent(manager, 3)
    assert manager.waiting("orders") == positions(first)

    manager.ask(Detach("carl"))
    ended = len(manager.log)
    assert manager.waiting("orders") == [*positions(first), *positions(third)], "what was held back is placed"
    sent(manager, 3)
    second = sent(manager, 2)
    sent(manager, 2)

    assert manager.waiting("orders") == [position.of(each) for each in (first, third, second)]
    assert manager.directory.producers.ended() == restored(manager).producers.ended() == [("press", ended)]
    manager.ask(ForgetProducer("press", epoch=1, ended_at=ended))
    assert manager.directory.producers.find("press") is None
    assert manager.directory.producers.ended() == []


def test_a_producer_that_was_opened_again_is_not_forgotten_by_the_primary_nor_by_a_former_one() -> None:
    manager = with_carl()
    manager.ask(OpenProducer("press", "carl"))
    manager.ask(Claim(1, "n"))
    manager.ask(Claim(2, "m"))
    manager.ask(Detach("carl"))
    ended = len(manager.log)
    manager.ask(ForgetProducer("press", epoch=1, ended_at=ended))
    assert manager.directory.producers.ended() == [("press", ended)]

    manager.ask(Introduce("carl", "cm.1", 3))
    manager.ask(OpenProducer("press", "carl"))
    manager.ask(ForgetProducer("press", epoch=2, ended_at=ended))
    assert manager.directory.producers.ended() == []
    manager.ask(Detach("carl"))
    manager.ask(ForgetProducer("press", epoch=2, ended_at=ended))

    assert manager.directory.producers.find("press") is not None, "it ended anew since"
    manager.ask(ForgetProducer("press"))
    assert manager.directory.producers.find("press") is None


def test_on_a_single_server_a_producer_goes_with_its_session_as_ever() -> None:
    manager = manager_at_work()
    manager.ask(OpenProducer("press", "ann"))

    manager.ask(Detach("ann"))

    assert manager.directory.producers.find("press") is None


# --- what a primary issues -------------------------------------------------------------------------------------------


def test_a_release_of_a_former_primary_is_ignored() -> None:
    manager = manager_at_work()
    orders = manager.send("orders")
    manager.ask(Claim(1, "n"))
    manager.ask(Claim(2, "m"))
    before = manager.directory.digest()

    manager.append(Release("orders", "", "ann", ranges(orders), epoch=1))
    assert manager.directory.digest() == before
    manager.append(Release("orders", "", "ann", ranges(orders), epoch=2))

    assert manager.directory.backlog(("orders", "")).deliveries(position.of(orders)) == 1


def test_the_first_claim_of_an_epoch_wins_and_its_process_hears_so_however_often_it_asks() -> None:
    manager = manager_at_work()

    effects = manager.append(Claim(1, "n", start="n.1"))
    assert Claimed(1, "n", "n.1") in effects
    manager.refusal(Claim(1, "m", start="m.1"))
    manager.refusal(Claim(1, "n", start="n.2"))
    before = manager.directory.digest()

    assert manager.ask(Claim(1, "n", start="n.1")) == 1
    assert manager.directory.digest() == before
    assert restored(manager).start == "n.1"
