"""The rules of both sides, one by one: which links begin, end, and are refused."""

from __future__ import annotations

from typing import TypeVar

from holdfast.bus.link.client_side import IDLE_ASK_MS, ClientSide
from holdfast.bus.link.effect import Arrived, Congested, Deposed, Effect, Lost, Made, Send
from holdfast.bus.link.frame import BODY, OPEN, OPENED, RESET, STATUS, Frame
from holdfast.bus.link.link import GRANTS_BYTES, share_of
from holdfast.bus.link.manager_side import SILENCE_MS_MAX, ManagerSide
from holdfast.bus.link.outgoing import GRANT_BYTES_MIN, WAITING_BYTES_MAX, Piece

ASKED = Piece(b"asked", False)
LARGE = Piece(bytes(GRANT_BYTES_MIN // 2), False)
Kind = TypeVar("Kind")


def of(kind: type[Kind], effects: list[Effect]) -> list[Kind]:
    return [each for each in effects if isinstance(each, kind)]


def frames(effects: list[Effect]) -> list[Frame]:
    return [each.frame for each in of(Send, effects)]


def exchange(client: ClientSide, manager: ManagerSide, effects: list[Effect], now_ms: int) -> list[Effect]:
    """Carry frames to and fro until none is left; everything else that happened."""
    happened: list[Effect] = []
    while effects:
        happened += [each for each in effects if not isinstance(each, Send)]
        effects = [
            each
            for frame in frames(effects)
            for each in (client if frame.to_client else manager).receive(frame, now_ms)
        ]  # fmt: skip
    return happened


def linked(epoch: int = 7) -> tuple[ClientSide, ManagerSide]:
    client, manager = ClientSide("a1"), ManagerSide("orders", epoch)
    happened = exchange(client, manager, client.seek("orders", 0), 0)
    assert happened == [Made("a1", epoch), Made("orders", epoch)]
    return client, manager


# --- beginning -------------------------------------------------------------------------------------------------------


def test_a_client_manager_opens_until_it_is_answered_and_less_and_less_often() -> None:
    client = ClientSide("a1")
    assert [frame.kind for frame in frames(client.seek("orders", 0))] == [OPEN]
    assert client.seek("orders", 10) == []

    asked = [at_ms for at_ms in range(0, 5_000, 50) if client.tick(at_ms)]

    assert asked == [100, 300, 700, 1_500, 3_100, 4_700]
    assert not client.is_open("orders")


def test_the_same_round_opened_twice_is_one_link() -> None:
    client, manager = ClientSide("a1"), ManagerSide("orders", 7)
    (opening,) = frames(client.seek("orders", 0))
    (first, *_) = frames(manager.receive(opening, 0))

    again = manager.receive(opening, 10)

    assert frames(again) == [first]
    assert not of(Made, again) and not of(Lost, again)
    assert of(Made, client.receive(first, 10)) == [Made("orders", 7)]
    assert client.receive(first, 20) == []


def test_messages_without_a_link_are_not_kept_for_the_next() -> None:
    client, manager = ClientSide("a1"), ManagerSide("orders", 7)
    opening = client.seek("orders", 0)
    client.send("orders", [ASKED], 0)
    client.send("nobody", [ASKED], 0)
    manager.send("a1", [ASKED], 0)

    happened = exchange(client, manager, opening, 0)

    assert of(Arrived, happened) == []
    assert (client.unsent, manager.unsent) == (2, 1)


# --- ending ----------------------------------------------------------------------------------------------------------


def test_a_link_that_the_primary_gave_up_is_made_again_and_both_hear_of_it() -> None:
    client, manager = linked()

    happened = exchange(client, manager, manager.forget("a1", "silent", 5_000), 5_000)

    assert happened == [Lost("a1", "silent"), Lost("orders", "the primary has given it up"), Made("a1", 7), Made("orders", 7)]


def test_a_client_manager_that_missed_the_reset_finds_out_on_an_idle_link() -> None:
    client, manager = linked()
    manager.forget("a1", "silent", 100)  # its RESET is lost

    assert client.tick(IDLE_ASK_MS - 1) == []
    (asking,) = client.tick(IDLE_ASK_MS)
    happened = exchange(client, manager, [asking], IDLE_ASK_MS)

    assert of(Made, happened) == [Made("a1", 7), Made("orders", 7)]


def test_a_late_copy_of_an_opening_does_not_join_two_different_links() -> None:
    client, manager = ClientSide("a1"), ManagerSide("orders", 7)
    opening = client.seek("orders", 0)
    exchange(client, manager, opening, 0)
    exchange(client, manager, client.send("orders", [ASKED], 10), 10)
    manager.forget("a1", "silent", 20)  # its RESET is lost

    happened = exchange(client, manager, opening, 30)  # the late copy makes a link that the client manager does not have
    happened += exchange(client, manager, client.send("orders", [ASKED], 40), 40)

    assert of(Arrived, happened) == [Arrived("a1", ASKED)]
    assert of(Lost, happened)[0] == Lost("orders", "the primary began another one")
    assert manager.is_open("a1") and client.is_open("orders")


def test_a_late_opening_of_a_former_round_is_ignored() -> None:
    client, manager = ClientSide("a1"), ManagerSide("orders", 7)
    (opening,) = frames(client.seek("orders", 0))
    exchange(client, manager, [Send(opening)], 0)
    exchange(client, manager, manager.forget("a1", "silent", 10), 10)

    assert manager.receive(opening, 20) == []


def test_a_reset_or_an_answer_of_a_former_link_is_ignored() -> None:
    client, manager = ClientSide("a1"), ManagerSide("orders", 7)
    (opening,) = frames(client.seek("orders", 0))
    effects = manager.receive(opening, 0)
    opened = frames(effects)[0]
    exchange(client, manager, effects, 0)
    exchange(client, manager, manager.forget("a1", "silent", 10), 10)
    (body,) = frames(manager.send("a1", [ASKED], 20))

    assert client.receive(opened, 20) == []
    assert client.receive(Frame(RESET, True, "orders", 7, "a1", 1, opened.number), 20) == []
    assert client.receive(Frame(BODY, True, "orders", 7, "a1", 1, opened.number, 1, 1, body=b"old"), 20) == []
    assert of(Arrived, client.receive(body, 20)) == [Arrived("orders", ASKED)]


def test_a_client_manager_that_says_nothing_is_forgotten_with_what_waits_for_it() -> None:
    _, manager = linked()
    manager.send("a1", [ASKED], 100)

    assert of(Lost, manager.tick(SILENCE_MS_MAX - 1)) == []
    assert of(Lost, manager.tick(SILENCE_MS_MAX)) == [Lost("a1", "it was silent")]
    assert (manager.is_open("a1"), manager.unacknowledged_bytes) == (False, 0)


def test_a_client_manager_that_starts_again_has_another_link_and_the_former_one_is_not_touched() -> None:
    _, manager = linked()
    again = ClientSide("b2")

    happened = exchange(again, manager, again.seek("orders", 10), 10)

    assert happened == [Made("b2", 7), Made("orders", 7)]
    assert manager.is_open("a1")


def test_a_client_manager_that_leaves_hears_nothing_more() -> None:
    client, manager = linked()
    sent = frames(manager.send("a1", [ASKED], 10))

    client.leave("orders", 10)

    assert [client.receive(frame, 20) for frame in sent] == [[]]
    assert client.tick(60_000) == []


def test_a_client_manager_that_comes_back_to_a_primary_it_had_left_has_a_link_again_and_keeps_its_epoch() -> None:
    client, manager = linked(epoch=7)
    client.leave("orders", 10)
    assert client.epoch_of("orders") == 7

    happened = exchange(client, manager, client.seek("orders", 20), 20)

    assert of(Made, happened) == [Made("a1", 7), Made("orders", 7)]
    assert client.receive(Frame(RESET, True, "orders", 6, "a1", 1, 1), 30) == []
    assert client.older_refused == 1


def test_an_answer_to_a_former_round_begins_no_link() -> None:
    client, manager = ClientSide("a1"), ManagerSide("orders", 7)
    (opening,) = frames(client.seek("orders", 0))
    opened = frames(manager.receive(opening, 0))[0]
    client.learn_epoch("orders", 7, 10)

    assert client.receive(opened, 20) == []
    assert not client.is_open("orders")


# --- epochs ----------------------------------------------------------------------------------------------------------


def test_frames_of_an_older_epoch_are_refused_and_counted_on_both_sides() -> None:
    client, former = linked(epoch=7)
    late = frames(former.send("a1", [ASKED], 10))
    manager = ManagerSide("orders", 8)
    of_old = frames(client.send("orders", [ASKED], 10))

    answered = [each for frame in of_old for each in manager.receive(frame, 20)]
    happened = exchange(client, manager, answered, 20)

    assert [frame.kind for frame in frames(answered)] == [RESET]
    assert happened == [Lost("orders", "epoch 8 has begun"), Made("a1", 8), Made("orders", 8)]
    assert [client.receive(frame, 30) for frame in late] == [[]]
    assert (client.older_refused, manager.older_refused) == (1, 1)


def test_what_a_deposed_primary_sends_to_the_node_that_took_over_from_it_is_counted() -> None:
    client, manager = linked(epoch=7)
    late = frames(manager.send("a1", [ASKED], 10))
    client.leave("orders", 20)  # its own node leads
    client.learn_epoch("orders", 8, 20)

    assert [client.receive(frame, 30) for frame in late] == [[]]
    assert client.older_refused == 1


def test_a_client_manager_that_has_heard_of_a_newer_primary_takes_nothing_of_an_older_one() -> None:
    client, former = linked(epoch=7)

    effects = client.learn_epoch("orders", 8, 10)

    assert of(Lost, effects) == [Lost("orders", "epoch 8 has begun")]
    assert client.epoch_of("orders") == 8
    assert [client.receive(frame, 20) for frame in frames(former.send("a1", [ASKED], 10))] == [[]]
    assert client.older_refused == 1
    assert client.learn_epoch("orders", 8, 30) == client.learn_epoch("orders", 7, 30) == []


def test_an_epoch_that_was_heard_of_before_a_link_was_sought_counts() -> None:
    client, former, manager = ClientSide("a1"), ManagerSide("orders", 7), ManagerSide("orders", 8)
    client.learn_epoch("orders", 8, 0)

    (opening,) = frames(client.seek("orders", 10))

    assert opening.epoch == 8
    assert former.receive(opening, 10) == [Deposed(8)]
    assert of(Made, exchange(client, manager, [Send(opening)], 10)) == [Made("a1", 8), Made("orders", 8)]


def test_a_primary_hears_once_that_it_is_deposed() -> None:
    _, former = linked(epoch=7)
    opening = Frame(OPEN, False, "orders", 9, "a1", 2, 0)

    assert former.receive(opening, 10) == [Deposed(9)]
    assert former.receive(opening, 20) == []
    assert former.receive(Frame(OPEN, False, "orders", 10, "a1", 2, 0), 20) == [Deposed(10)]


def test_any_frame_of_a_newer_epoch_leads_to_a_link_with_its_primary() -> None:
    for kind in (OPENED, BODY, STATUS, RESET):
        client, _ = linked(epoch=7)

        effects = client.receive(Frame(kind, True, "orders", 8, "a1", 1, 1, 1), 10)

        assert of(Lost, effects)
        assert [(frame.kind, frame.epoch) for frame in frames(effects)] == [(OPEN, 8)]
        assert of(Arrived, effects) == []


def test_frames_for_others_are_not_taken() -> None:
    client, manager = linked()

    assert client.receive(Frame(RESET, True, "orders", 7, "b2", 1, 1), 10) == []
    assert client.receive(Frame(RESET, True, "other", 7, "a1", 1, 1), 10) == []
    assert client.receive(Frame(RESET, False, "orders", 7, "a1", 1, 1), 10) == []
    assert manager.receive(Frame(OPEN, False, "other", 7, "b2", 1, 0), 10) == []
    assert manager.receive(Frame(OPEN, True, "orders", 7, "b2", 1, 0), 10) == []


# --- room ------------------------------------------------------------------------------------------------------------


def test_the_grant_is_divided_among_the_links_of_a_process_and_given_back() -> None:
    client, managers = ClientSide("a1"), [ManagerSide(f"m{number}", 1) for number in range(4)]
    for manager in managers:
        exchange(client, manager, client.seek(manager.manager, 0), 0)

    granted = [manager._links["a1"].outgoing.granted for manager in managers]

    assert granted[-1] == GRANTS_BYTES // 4
    told = {frame.manager: frame.granted for frame in frames(client.leave("m0", 10))}
    assert told == {f"m{number}": GRANTS_BYTES // 3 for number in (1, 2, 3)}
    assert share_of(10_000) == GRANT_BYTES_MIN


def test_a_peer_that_takes_nothing_is_congested_until_it_does() -> None:
    client, manager = linked()
    first = manager._links["a1"].outgoing.granted // LARGE.size
    effects = [each for _ in range(first) for each in manager.send("a1", [LARGE], 10)]
    assert of(Congested, effects) == []

    more = manager.send("a1", [LARGE], 10)
    assert more == [Congested("a1", True)]
    assert manager.send("a1", [LARGE], 10) == []

    happened = exchange(client, manager, effects, 20)
    assert of(Congested, happened) == [Congested("a1", False)]
    assert len(of(Arrived, happened)) == first + 2


def test_a_link_on_which_too_much_waits_is_given_up_by_either_side() -> None:
    client, manager = linked()
    effects: list[Effect] = []
    for _ in range((GRANTS_BYTES + WAITING_BYTES_MAX) // LARGE.size + 2):
        effects = manager.send("a1", [LARGE], 10)
        if of(Lost, effects):
            break
    assert of(Lost, effects) == [Lost("a1", "too much waits to be sent")]
    assert of(Made, exchange(client, manager, effects, 20)) == [Made("a1", 7), Made("orders", 7)]

    for _ in range((GRANTS_BYTES + WAITING_BYTES_MAX) // LARGE.size + 2):
        effects = client.send("orders", [LARGE], 30)
        if of(Lost, effects):
            break
    assert of(Lost, effects) == [Lost("orders", "too much waits to be sent")]
    assert client.unacknowledged_bytes == 0
    assert of(Made, exchange(client, manager, effects, 40)) == [Made("a1", 7), Made("orders", 7)]


def test_a_question_is_answered_at_once_though_nothing_else_is_due() -> None:
    client, manager = linked()
    (asking,) = frames(client.tick(IDLE_ASK_MS))

    (answer,) = frames(manager.receive(asking, IDLE_ASK_MS))

    assert (asking.asks, answer.kind, answer.asks) == (True, STATUS, False)


def test_the_last_frame_that_is_lost_is_sent_again_after_asking_and_not_before() -> None:
    client, manager = linked()
    exchange(client, manager, manager.tick(25), 25)
    (lost,) = frames(manager.send("a1", [ASKED], 1_000))

    assert manager.tick(1_099) == []
    (asking,) = frames(manager.tick(1_100))
    assert (asking.kind, asking.newest, asking.asks) == (STATUS, 1, True)
    (answer,) = frames(client.receive(asking, 1_100))
    assert answer.missing == ((1, 1),)
    (again,) = frames(manager.receive(answer, 1_100))
    assert (again.sequence, again.body) == (lost.sequence, lost.body)
    assert of(Arrived, client.receive(again, 1_100)) == [Arrived("orders", ASKED)]
