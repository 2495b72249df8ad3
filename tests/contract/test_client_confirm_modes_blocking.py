"""Confirm modes without a loop: the same, for programs that use `holdfast.blocking` (E2)."""

from __future__ import annotations

import pytest

import holdfast.blocking
from holdfast.errors import BadSetting, Refused
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


def left(client: holdfast.blocking.Client, queue: str) -> dict[object, int]:
    """What is still there, and how often each was delivered before."""
    with client.queue(queue).receive() as incoming:
        count = client.describe(queue)["waiting"]
        return {event.data: event.deliveries for event in [incoming.next(timeout=10) for _ in range(count)]}


@pytest.mark.parametrize("mode", ["auto", "duplicates-ok"])
def test_in_auto_mode_a_loop_confirms_what_it_has_gone_through(url: str, name: str, mode: str) -> None:
    with holdfast.blocking.connect(url) as client:
        client.queue(name).send_many(range(100))
        with client.queue(name).receive(confirm=mode) as incoming:  # type: ignore[arg-type]
            for event in incoming:
                if event.data == 59:
                    break

        assert left(client, name) == dict.fromkeys(range(60, 100), 0)


@pytest.mark.parametrize("mode", ["auto", "duplicates-ok"])
def test_in_auto_mode_an_event_whose_handling_raises_comes_again_counted(url: str, name: str, mode: str) -> None:
    with holdfast.blocking.connect(url) as client:
        client.queue(name).send_many(range(4))

        with pytest.raises(ZeroDivisionError), client.queue(name).receive(confirm=mode) as incoming:  # type: ignore[arg-type]
            for event in incoming:
                if event.data == 2:
                    1 / 0  # noqa: B018  # the handling that fails

        assert left(client, name) == {2: 1, 3: 0}


def test_in_client_mode_one_confirm_confirms_all_that_the_session_was_handed_and_no_more(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client, client.session(confirm="client") as session:
        client.queue(f"{name}-a").send_many(range(6))
        client.queue(f"{name}-b").send_many(range(6))
        with session.queue(f"{name}-a").receive() as one, session.queue(f"{name}-b").receive() as other:
            first = one.next(timeout=10)
            other.next(timeout=10)
            other.next(timeout=10)
            first.confirm()
            one.next(timeout=10)

        assert left(client, f"{name}-a") == {1: 1, 2: 0, 3: 0, 4: 0, 5: 0}
        assert left(client, f"{name}-b") == {2: 0, 3: 0, 4: 0, 5: 0}


def test_in_client_mode_a_verdict_on_what_was_confirmed_with_another_is_refused_at_once(name: str) -> None:
    with holdfast.blocking.connect("memory:") as client:
        client.queue(name).send_many(range(2))
        with client.queue(name).receive(confirm="client") as incoming:
            first, second = [incoming.next(timeout=10) for _ in range(2)]
            second.confirm()

            with pytest.raises(Refused, match="confirmed already, together with another"):
                first.reject("too late")


def test_in_auto_mode_recovering_gives_back_the_event_in_hand(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        client.queue(name).send_many(range(3))
        with client.queue(name).receive(confirm="auto") as incoming:
            incoming.next(timeout=10)
            incoming.next(timeout=10)
            client.recover()

            again = [(event.data, event.deliveries) for event in [incoming.next(timeout=10) for _ in range(2)]]

        assert again == [(1, 1), (2, 0)]
        assert client.describe(name)["waiting"] == 0


def test_an_unknown_mode_is_refused(name: str) -> None:
    with holdfast.blocking.connect("memory:") as client:
        with pytest.raises(BadSetting, match="there are: event, auto, client, duplicates-ok"):
            client.session(confirm="sometimes")  # type: ignore[arg-type]
        with pytest.raises(BadSetting, match="there are: event, auto, client, duplicates-ok"):
            client.queue(name).receive(confirm="sometimes").open()  # type: ignore[arg-type]
