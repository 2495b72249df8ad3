"""B12: a program that waits for an event has credit at the server, whatever became of the events before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.client.receiving.credit.credit_window import MOST_EVENTS, START_EVENTS, WORK_S, CreditWindow

SECONDS = st.floats(0, 10)
LONG_S = 1_000.0


class Receiving(RuleBasedStateMachine):
    """A receiver and its server: every granted event is at the server, on its way, or here, until it is used up."""

    size: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.window = CreditWindow(self.size)
        self.now_s = 0.0
        self.is_waiting = False
        self.handed = 0  # of the current slice, which lies here until it is used up
        self.current = 0
        self.here: list[int] = []
        self.under_way: list[int] = []
        self.at_server = self.window.grant()

    def grant_due(self) -> None:
        if self.window.is_due(self.handed):
            self.window.look(self.now_s, self.handed)
        if self.window.is_due(self.handed):
            self.at_server += self.window.grant(self.handed)

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds

    @precondition(lambda self: self.at_server > 0)
    @rule(data=st.data())
    def the_server_hands_out_a_slice(self, data: st.DataObject) -> None:
        events = data.draw(st.integers(1, self.at_server))
        self.at_server -= events
        self.under_way.append(events)

    @precondition(lambda self: self.under_way)
    @rule()
    def a_slice_comes(self) -> None:
        self.here.append(self.under_way.pop(0))
        if self.is_waiting:
            self.the_program_asks()

    @rule()
    def the_program_asks(self) -> None:
        if self.handed == self.current:
            self.window.use(self.current)
            self.current = self.handed = 0
            if not self.here:
                self.is_waiting = True
                self.grant_due()
                self.window.wait(self.now_s)
                return
            self.current = self.here.pop(0)
        self.is_waiting = False
        self.handed += 1
        self.window.go_on(self.now_s)
        self.grant_due()

    @precondition(lambda self: self.here)
    @rule()
    def a_slice_expires_before_it_is_handed_out(self) -> None:
        self.window.drop(self.here.pop(0))

    @precondition(lambda self: not self.is_waiting)
    @rule()
    def the_program_is_looked_at(self) -> None:
        ahead = self.current - self.handed + sum(self.here)
        self.window.look(self.now_s, self.handed)
        keep = self.window.keep(self.now_s, ahead)
        assert min(1, ahead) <= keep <= ahead
        if keep < ahead:
            self.at_server -= self.window.withdraw(self.current + sum(self.here))
            self.window.use(self.handed)
            self.window.drop(ahead - keep)
            self.current = self.handed = 0
            self.here = [keep]

    @precondition(lambda self: not self.is_waiting and self.current + sum(self.here) > self.handed + 1)
    @rule()
    def the_program_stalls(self) -> None:
        self.the_program_is_looked_at()
        self.now_s += LONG_S
        self.the_program_is_looked_at()
        assert self.size is not None or self.current - self.handed + sum(self.here) == 1

    @rule()
    def a_link_is_lost_and_made_again(self) -> None:
        self.under_way.clear()
        self.window.begin(self.current + sum(self.here))
        self.at_server = self.window.grant()

    @invariant()
    def every_event_of_the_window_is_somewhere(self) -> None:
        assert self.window.open == self.at_server + sum(self.under_way) + sum(self.here) + self.current

    @invariant()
    def a_program_that_waits_has_credit_or_an_event_on_its_way(self) -> None:
        if self.is_waiting and not self.here:
            assert self.at_server + sum(self.under_way) >= 1

    @invariant()
    def the_window_is_within_its_bounds(self) -> None:
        assert 1 <= self.window.size <= MOST_EVENTS
        assert self.size is None or self.window.size == self.size

    @invariant()
    def no_more_is_granted_than_the_widest_window(self) -> None:
        assert self.at_server + sum(self.under_way) + sum(self.here) <= MOST_EVENTS


class ReceivingExactly(Receiving):
    size = 3


TestReceiving = Receiving.TestCase
TestReceivingExactly = ReceivingExactly.TestCase


@given(event_s=st.floats(0, 100), round_trip_s=st.floats(0.0001, 0.4))
def test_a_steady_program_gets_a_quarter_of_a_second_of_work_and_two_round_trips_worth_at_least(
    event_s: float, round_trip_s: float
) -> None:
    window, now_s = CreditWindow(None), 0.0
    window.note_round_trip(round_trip_s)
    window.grant()

    for _ in range(20_000 if event_s < WORK_S / START_EVENTS else 20):
        window.use(1)
        now_s += event_s
        if window.is_due():
            window.look(now_s)
            window.grant()

    wanted = max(WORK_S, 2 * round_trip_s) / event_s if event_s else MOST_EVENTS
    assert max(1, int(0.99 * min(wanted, MOST_EVENTS))) <= window.size <= max(1, min(1.01 * wanted, MOST_EVENTS))
