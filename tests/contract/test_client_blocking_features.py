"""The plain twin over every place: subscriptions, wildcards, temporary destinations, requests, browsers."""

from __future__ import annotations

import threading

import pytest

import holdfast.blocking
from holdfast.errors import BadEvent, BadSelector, NoReply, SubscriptionInUse
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


def take(incoming: holdfast.blocking.Incoming, count: int) -> list[object]:
    found = []
    for _ in range(count):
        event = incoming.next(timeout=10)
        found.append(event.data)
        event.confirm()
    return found


def test_subscriptions_have_selectors_and_are_shared(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        with (
            client.subscribe(name, "pool", shared=True, selector="n > 1") as incoming,
            client.topic(name).subscribe("pool", shared=True, selector="n > 1"),
        ):
            with pytest.raises(SubscriptionInUse), client.subscribe(name, "pool", shared=True):
                pass
            assert client.subscriptions(name)[0]["receivers"] == 2
        with client.subscribe(name, "pool", shared=True, selector="n > 1") as incoming:
            for n in range(4):
                client.topic(name).send(n, properties={"n": n})

            assert take(incoming, 2) == [2, 3]


def test_wildcards_say_where_each_event_was_sent(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        with client.subscribe(f"{name}.*", no_local=False) as glob, client.subscribe(regex=rf"{name}\..") as regex:
            client.topic(f"{name}.a").send(1)

            assert glob.next(timeout=10).destination == regex.next(timeout=10).destination == f"{name}.a"
        client.create_subscription(None, "pager", regex=rf"{name}\..", selector="n = 1")
        assert [each["pattern"] for each in client.subscriptions(None, regex=rf"{name}\..")] == [rf"{name}\.."]
        client.delete_subscription(None, "pager", regex=rf"{name}\..")


def test_a_request_is_answered_by_its_reply(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:

        def answer() -> None:
            with client.queue(name).receive() as incoming:
                event = incoming.next(timeout=10)
                event.reply(event.data + 1)
                event.confirm()

        thread = threading.Thread(target=answer)
        thread.start()
        reply = client.queue(name).request(1, timeout=10)
        thread.join()

        assert reply.data == 2
        reply.confirm()  # again, which changes nothing
        with pytest.raises(NoReply):
            client.queue(name).request(2, timeout=0.1)


def test_a_temporary_queue_and_topic_belong_to_their_client(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        queue, topic = client.temporary_queue(), client.temporary_topic()
        with queue.receive() as incoming, topic.subscribe() as news:
            queue.send(1)
            topic.send(2)

            event = incoming.next(timeout=10)
            assert (event.data, news.next(timeout=10).data) == (1, 2)
            with pytest.raises(BadEvent, match="no reply_to"):
                event.reply(3)


def test_a_browser_shows_what_waits(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        client.queue(name).send_many(holdfast.Event(data=n, properties={"n": n}) for n in range(5))
        client.create_subscription(f"{name}.*", "pager")
        client.topic(f"{name}.a").send("a")

        with client.queue(name).browse(selector="n > 2", page=1) as events:
            assert [event.data for event in events] == [3, 4]
        with client.browse(f"{name}.*", "pager") as events:
            assert [event.destination for event in events] == [f"{name}.a"]
        client.create_topic(f"{name}-t")
        client.create_subscription(f"{name}-t", "audit")
        with client.topic(f"{name}-t").browse("audit") as events:
            assert events.next() is None
        with pytest.raises(BadSelector):
            client.queue(name).browse(selector="n >")
