"""The server's time: it follows the machine's clock and never goes back; what is measured is measured with a steady one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.node.clock import TIMER_MS_MAX, SystemClock

SECOND = 10**9
HOUR = 3600 * SECOND


class Machine:
    """A machine whose clock can be set."""

    def __init__(self) -> None:
        self.ns = 1_800_000_000 * SECOND
        self.steady = 0

    def pass_by(self, ns: int) -> None:
        self.ns += ns
        self.steady += ns

    def clock(self) -> SystemClock:
        return SystemClock(lambda: self.ns, lambda: self.steady)


def test_it_is_the_time_of_the_machine_and_follows_when_that_is_set_forward() -> None:
    machine = Machine()
    clock = machine.clock()

    machine.pass_by(5 * SECOND)
    assert clock.now_us() == machine.ns // 1000
    machine.ns += HOUR
    assert clock.now_us() == machine.ns // 1000


def test_when_the_machine_is_set_back_time_goes_on_at_half_speed_until_they_agree() -> None:
    machine = Machine()
    clock = machine.clock()
    before = clock.now_ms()

    machine.ns -= 2 * HOUR
    machine.pass_by(10 * SECOND)
    assert clock.now_ms() == before + 5_000
    machine.pass_by(4 * HOUR)
    assert clock.now_us() == machine.ns // 1000


def test_setting_the_machine_moves_no_steady_time() -> None:
    machine = Machine()
    clock = machine.clock()

    machine.ns -= 2 * HOUR
    machine.pass_by(SECOND)

    assert clock.steady_ms() == 1_000


async def test_a_timer_for_a_far_moment_is_looked_at_again_within_a_minute() -> None:
    import asyncio

    clock = SystemClock()
    timer = clock.call_at(clock.now_ms() + 3_600_000, lambda: None)

    assert timer.when() - asyncio.get_running_loop().time() <= TIMER_MS_MAX / 1000
    timer.cancel()


@given(st.lists(st.tuples(st.integers(-HOUR, HOUR), st.integers(0, HOUR)), max_size=20))
def test_it_never_goes_back_and_never_stands_still(steps: list[tuple[int, int]]) -> None:
    machine = Machine()
    clock = machine.clock()
    told = clock.now_us()
    for set_by, passed in steps:
        machine.ns += set_by
        machine.pass_by(passed)
        now = clock.now_us()
        assert now >= told + passed // 2000 - 1
        assert now >= machine.ns // 1000
        told = now
