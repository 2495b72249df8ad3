"""What `import holdfast` gives, and what it costs."""

from __future__ import annotations

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


def test_anything_else_is_missing_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        holdfast.conect  # noqa: B018


def test_importing_loads_neither_a_loop_nor_a_client_nor_a_node() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")


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
