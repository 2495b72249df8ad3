"""The blocking client: the same behaviour without a loop, over every place (E1, E2)."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import holdfast.blocking
from holdfast.errors import (
    BadEvent,
    BadName,
    BadSetting,
    BadUrl,
    Closed,
    NoSuchDestination,
    NotEmpty,
    Refused,
    TimedOut,
    Unreachable,
    WrongKind,
)
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


def test_what_is_sent_is_received_and_confirmed(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        receipt = client.queue(name).send({"sku": 7}, type="order.placed", properties={"amount": 1})
        with client.queue(name).receive() as incoming:
            event = incoming.next(timeout=10)
            event.confirm()
            incoming.settled(timeout=10)

            assert (event.data, event.type, event.properties) == ({"sku": 7}, "order.placed", {"amount": 1})
            assert (event.id, event.position) == (receipt.id, receipt.position)
            assert client.describe(name)["waiting"] == 0


def test_a_pipeline_keeps_the_order_and_a_loop_confirms_it_all(url: str, name: str) -> None:
    count = 5_000
    with holdfast.blocking.connect(url) as client:
        receipts = client.queue(name).send_many(b"%d" % number for number in range(count))
        seen = []
        with client.queue(name).receive() as incoming:
            for event in incoming:
                seen.append(int(event.data))
                event.confirm()
                if len(seen) == count:
                    break

        assert seen == list(range(count))
        assert len(receipts) == count
        assert client.describe(name)["waiting"] == 0


def test_what_was_looked_at_comes_again_as_redelivered_and_what_was_not_does_not(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        client.queue(name).send_many(range(5))
        with client.queue(name).receive() as incoming:
            assert incoming.next(timeout=10).data == 0

        with client.queue(name).receive() as incoming:
            again = {event.data: event.deliveries for event in (incoming.next(timeout=10) for _ in range(5))}

            assert again == {0: 1, 1: 0, 2: 0, 3: 0, 4: 0}


def test_release_and_reject_do_what_they_say(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        client.queue(name).send(1, subject=name)
        with client.queue(name).receive() as incoming:
            incoming.next(timeout=10).release(delay=0.01)
            again = incoming.next(timeout=10)
            assert again.redelivered
            again.reject("of no use")
        with client.queue("_DMQ").receive() as dead:
            event = dead.next(timeout=10)
            assert event.subject == name
            event.confirm()


def test_a_confirm_travels_by_itself_although_nobody_asks_for_more(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client, client.queue(name).receive() as incoming:
        client.queue(name).send(1)
        incoming.next(timeout=10).confirm()

        assert any(client.describe(name)["waiting"] == 0 for _ in range(10_000))


def test_topics_and_administration_have_the_same_names(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        client.create_topic(name)
        client.create_subscription(name, "pager")
        client.topic(name).send("x")
        with client.subscribe(name, "pager") as incoming:
            assert incoming.next(timeout=10).data == "x"
        assert [each["name"] for each in client.subscriptions(name)] == ["pager"]
        with pytest.raises(NotEmpty):
            client.delete(name)
        with pytest.raises(NotEmpty):
            client.create_subscription(name, "pager", selector="n > 1")
        client.create_subscription(name, "pager", selector="n > 1", replace=True)
        client.topic(name).send("y", properties={"n": 2})
        with pytest.raises(NotEmpty), client.topic(name).subscribe("pager") as incoming:
            pass
        with client.topic(name).subscribe("pager", replace=True), client.subscribe(name, "pager2", replace=True):
            client.topic(name).send("z")
        with pytest.raises(NotEmpty):
            client.delete_subscription(name, "pager")
        client.delete_subscription(name, "pager", force=True)
        assert name in {each["name"] for each in client.destinations()}
        client.delete(name, force=True)
        with pytest.raises(NoSuchDestination):
            client.describe(name)
        client.create_queue(name, redelivery_limit=1)
        assert client.describe(name)["redelivery_limit"] == 1
        assert client.is_linked
        assert not client.is_blocked
        assert client.blocked_reason == ""
        assert client.status()


def test_errors_come_to_the_caller() -> None:
    with pytest.raises(BadUrl):
        holdfast.blocking.connect("nowhere")
    with pytest.raises(Unreachable):
        holdfast.blocking.connect("holdfast://127.0.0.1:1", timeout=0.1).open()
    with holdfast.blocking.connect("memory:") as client:
        with pytest.raises(BadName):
            client.queue("")
        with pytest.raises(BadEvent):
            client.queue("q").send(priority=11)
        with pytest.raises(BadEvent), client.queue("q").pipeline() as pipeline:
            pipeline.send(priority=11)
        client.create_topic("t")
        with pytest.raises(WrongKind):
            client.queue("t").send_many([1, 2, 3])
        with client.queue("q").receive(timeout=0.01) as incoming, pytest.raises(TimedOut):
            next(iter(incoming))
        with client.queue("q").receive() as incoming:
            client.queue("q").send(1)
            event = incoming.next(timeout=10)
            with pytest.raises(BadSetting):
                event.reject("")
            event.confirm()
            event.confirm()
            with pytest.raises(Refused):
                event.release()
        with pytest.raises(Closed):
            incoming.next()
    with pytest.raises(Closed):
        client.queue("q")


def test_clients_of_one_process_share_a_named_memory_from_any_thread() -> None:
    seen: list[object] = []

    def receive() -> None:
        with holdfast.blocking.connect("memory:threads") as client, client.queue("q").receive() as incoming:
            seen.append(incoming.next(timeout=10).data)

    with holdfast.blocking.connect("memory:threads") as client:
        thread = threading.Thread(target=receive)
        thread.start()
        client.queue("q").send("hello")
        thread.join(20)

    assert seen == ["hello"]


INTERRUPTED = """
import os, signal, threading, holdfast.blocking
with holdfast.blocking.connect("memory:") as client:
    try:
        with client.queue("q").receive() as incoming:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            incoming.next()
    except KeyboardInterrupt:
        print("interrupted", client.queue("q").send(1).position > 0)
"""


def test_ctrl_c_ends_a_wait_and_the_client_goes_on() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60)

    assert (done.stdout, done.stderr, done.returncode) == ("interrupted True\n", "", 0)


def test_a_client_used_in_a_forked_child_says_so_instead_of_waiting_for_ever() -> None:
    """P14: threads do not survive a fork, and nobody would ever answer."""
    program = """
import os, signal, sys, holdfast.blocking
with holdfast.blocking.connect("memory:") as client:
    child = os.fork()
    if not child:
        signal.alarm(10)
        try:
            client.queue("q").send(1, timeout=1)
        except holdfast.Refused as problem:
            os._exit(7 if "connect again" in str(problem) else 8)
        os._exit(9)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 7
