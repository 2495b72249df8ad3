"""What `import holdfast` gives, and what it costs."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import holdfast
from holdfast.client.receipt import Receipt, Receipts

LIGHT = """
import sys, holdfast
heavy = [name for name in ("asyncio", "msgspec", "uvloop", "holdfast.node", "holdfast.client.client") if name in sys.modules]
assert not heavy, heavy
holdfast.connect
assert "holdfast.node" not in sys.modules
"""


def test_everything_that_is_announced_is_there() -> None:
    assert all(getattr(holdfast, name) is not None for name in holdfast.__all__)


def test_what_is_there_is_listed_before_it_is_loaded_and_nothing_else_is() -> None:
    looked = subprocess.run(
        [sys.executable, "-c", "import holdfast; print(*(n for n in dir(holdfast) if not n.startswith('_')))"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert looked.stdout.split() == sorted(each for each in holdfast.__all__ if not each.startswith("_"))
    assert {"connect", "Client", "Recorder", "blocking", "errors"} <= set(looked.stdout.split())


def test_the_blocking_client_is_there_without_a_second_import() -> None:
    program = "import holdfast; print(holdfast.blocking.connect.__name__)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert (done.stdout, done.stderr) == ("connect\n", "")


def test_receipts_and_events_print_shortly() -> None:
    receipt = Receipt(1048576, 1, True, 2169975322944275679910660986445496320)

    assert repr(receipt) == "Receipt(at 1048576, id='01M7P0PA9T0006FD8350000000')"
    assert repr(holdfast.Event(data={"sku": 7}, type="order.placed")) == "Event(data={'sku': 7}, type='order.placed')"
    assert repr(holdfast.Event()) == "Event()"
    assert repr(holdfast.Event(priority=9, ttl_ms=500)) == "Event(priority=9, ttl_ms=500)"
    assert len(repr(holdfast.Event(data=b"x" * 1_000_000))) < 120


def test_anything_else_is_missing_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        holdfast.conect  # noqa: B018


def test_importing_loads_neither_a_loop_nor_a_client_nor_a_node() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_calls_of_the_blocking_client_have_the_arguments_and_docstrings_of_their_twins() -> None:
    for name in ("create_queue", "delete", "create_subscription", "status", "publish"):
        twin, call = getattr(holdfast.Client, name), getattr(holdfast.blocking.Client, name)

        assert inspect.signature(call) == inspect.signature(twin)
        assert call.__doc__ == twin.__doc__
        assert not inspect.iscoroutinefunction(call)


class Accepted:
    """A batch that has its receipt."""

    def __init__(self, entry: int) -> None:
        self.entry = entry

    def receipt(self, index: int) -> Receipt:
        return Receipt(self.entry * 100 + index, 1, True, f"{self.entry}-{index}")


def test_receipts_are_a_sequence_in_the_order_of_sending() -> None:
    receipts = Receipts()
    receipts.extend(Accepted(1), 0, 3)
    receipts.extend(Accepted(2), 5, 2)

    assert [each.position for each in receipts] == [100, 101, 102, 205, 206]
    assert [receipts[place].position for place in range(5)] == [100, 101, 102, 205, 206]
    assert receipts[-1].id == "2-6"
    assert [each.position for each in receipts[1:4]] == [101, 102, 205]
    assert (len(receipts), len(Receipts())) == (5, 0)
    with pytest.raises(IndexError):
        receipts[5]
    with pytest.raises(IndexError):
        receipts[-6]


def test_of_a_receiver_a_program_sees_what_it_should_use() -> None:
    seen = {name for name in dir(holdfast.Incoming) if not name.startswith("_")}

    assert seen == {
        "batches", "close", "confirm", "destination", "encoded", "give_back_prefetched", "held", "identity", "is_open", "lost",
        "next", "open", "reject", "release", "settled", "subscription", "take_at_once"
    }  # fmt: skip
    assert all(getattr(holdfast.Incoming, name).__doc__ for name in seen)
    blocking = {name for name in dir(holdfast.blocking.Incoming) if not name.startswith("_")}
    assert blocking <= seen


async def test_a_receiver_prints_where_it_receives_from() -> None:
    async with holdfast.connect("memory:") as client:
        incoming = client.subscribe("prices.*", "pager")
        assert repr(incoming) == "Incoming(from subscription 'pager' of 'prices.*', not open)"
        async with client.queue("orders").receive() as incoming:
            assert repr(incoming) == "Incoming(from 'orders')"
            assert (incoming.destination, incoming.subscription, incoming.is_open) == ("orders", "", True)
