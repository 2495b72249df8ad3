"""Staying awake for a sender that comes back at once. The clock is the test's own; the loop is real."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from holdfast.errors import BadSetting
from holdfast.node.busy_wait import BusyWait
from holdfast.node.settings import VIGIL_US_MAX, NodeSettings
from tests.waiting import turn_loop

SECONDS = 0.0003


class Server:
    """A busy wait with a clock, and a loop whose turns are counted by what it is asked to do next."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.now = 100.0
        self.turns = 0
        self.busy_wait = BusyWait(seconds, self._tell)

    def _tell(self) -> float:
        self.turns += 1
        return self.now

    async def is_awake(self) -> bool:
        """The loop is going round: the clock is looked at in every turn."""
        before = self.turns
        await turn_loop(3)
        return self.turns >= before + 3

    def sends_after(self, seconds: float) -> None:
        """A sender's next batch, and its receipt."""
        self.now += seconds
        self.busy_wait.came("a")
        self.busy_wait.receipted("a")


async def test_a_sender_that_came_back_at_once_is_waited_for_awake() -> None:
    server = Server()
    server.sends_after(1.0)
    assert not await server.is_awake()  # nothing is known of it yet

    server.sends_after(SECONDS / 2)

    assert await server.is_awake()


async def test_it_ends_when_the_next_batch_comes_and_begins_again_with_its_receipt() -> None:
    server = Server()
    server.sends_after(1.0)
    server.sends_after(SECONDS / 2)

    server.now += SECONDS / 2
    server.busy_wait.came("a")
    assert not await server.is_awake()

    server.busy_wait.receipted("a")
    assert await server.is_awake()


async def test_a_sender_that_does_not_come_back_costs_one_busy_wait_and_no_more() -> None:
    server = Server()
    server.sends_after(1.0)
    server.sends_after(SECONDS / 2)
    server.now += 2 * SECONDS
    await server.is_awake()

    server.busy_wait.receipted("b")  # who is not known to come back
    assert not await server.is_awake()

    server.sends_after(10 * SECONDS)
    assert not await server.is_awake()


async def test_many_that_take_their_time_are_not_taken_for_one_that_comes_back() -> None:
    server = Server()
    for round_ in range(3):
        for sender in "abcdef":
            server.now += SECONDS / 2
            server.busy_wait.came(sender)
            server.busy_wait.receipted(sender)
            assert not await server.is_awake(), (round_, sender)


async def test_receipts_in_quick_succession_keep_one_busy_wait_not_many() -> None:
    server = Server()
    server.sends_after(1.0)
    server.sends_after(SECONDS / 2)
    for _ in range(10):
        server.busy_wait.receipted("a")

    before = server.turns
    await turn_loop()

    assert server.turns == before + 1


async def test_with_no_time_for_it_there_is_none() -> None:
    server = Server(seconds=0)
    for _ in range(3):
        server.sends_after(SECONDS / 2)

    assert not await server.is_awake()


def test_a_node_keeps_none_unless_it_is_told_to_and_never_a_long_one() -> None:
    assert NodeSettings().vigil_us == 0
    for wrong in (-1, VIGIL_US_MAX + 1):
        with pytest.raises(BadSetting, match="vigil_us"):
            NodeSettings(vigil_us=wrong)


@pytest.mark.parametrize(("cores", "default"), [(1, 0), (2, 300)])
def test_a_server_keeps_one_by_default_unless_it_may_use_one_core_only(cores: int, default: int) -> None:
    """In a process of its own, because the default is that of the process."""
    mine = sorted(os.sched_getaffinity(0))
    if len(mine) < cores:
        pytest.skip("this machine has one core")
    code = (
        f"import os; os.sched_setaffinity(0, {mine[:cores]}); "
        "from holdfast.cli.operations import serve; print(serve.VIGIL_US_DEFAULT)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert int(done.stdout) == default
