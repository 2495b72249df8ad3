"""The server's time as a client reckons it: never too early, and exactly this machine's where that may be the server's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.link.server_time import ServerTime

HOUR_MS = 3_600_000


class Clocks:
    """A client's two clocks and a server's, which differ by so much."""

    def __init__(self, ahead_ms: int) -> None:
        self.ns = 0
        self.ahead_ms = ahead_ms
        self.base_ns = 1_800_000_000 * 10**9

    def server_ms(self) -> int:
        return (self.base_ns + self.ns) // 1_000_000 + self.ahead_ms

    def pass_by(self, ms: int) -> None:
        self.ns += ms * 1_000_000

    def known(self) -> ServerTime:
        return ServerTime(lambda: self.base_ns + self.ns, lambda: self.ns)


@given(
    st.sampled_from([0, 7, -7, HOUR_MS, -HOUR_MS]),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(0, 60_000)), min_size=1, max_size=5),
)
def test_it_is_behind_the_servers_by_no_more_than_can_be_seen_and_ahead_by_no_more_than_an_answer_takes(
    ahead_ms: int, rounds: list[tuple[int, int, int]]
) -> None:
    clocks = Clocks(ahead_ms)
    known = clocks.known()
    for out_ms, back_ms, later_ms in rounds:
        known.ask()
        clocks.pass_by(out_ms)
        told = clocks.server_ms()
        clocks.pass_by(back_ms)
        known.learn(told)
        clocks.pass_by(later_ms)

        took_ms = out_ms + back_ms
        slack_ms = ahead_ms if 0 < ahead_ms <= took_ms + 3 else 0  # a difference that cannot be seen
        assert clocks.server_ms() - slack_ms <= known.now_ms() <= clocks.server_ms() + took_ms + 3


def test_a_clock_that_may_be_the_servers_is_taken_as_it_is() -> None:
    clocks = Clocks(0)
    known = clocks.known()
    known.ask()
    clocks.pass_by(20)
    told = clocks.server_ms()
    clocks.pass_by(50)

    known.learn(told)

    assert known.now_ms() == clocks.server_ms()


def test_a_heartbeat_of_the_server_tells_that_its_clock_was_set() -> None:
    clocks = Clocks(0)
    known = clocks.known()
    known.ask()
    known.learn(clocks.server_ms())

    clocks.ahead_ms = HOUR_MS
    known.learn(clocks.server_ms(), is_answer=False)

    assert 0 <= known.now_ms() - clocks.server_ms() <= 2


def test_a_server_that_does_not_tell_leaves_it_to_this_machine() -> None:
    clocks = Clocks(HOUR_MS)
    known = clocks.known()

    known.learn(0)

    assert known.now_ms() == clocks.server_ms() - HOUR_MS
