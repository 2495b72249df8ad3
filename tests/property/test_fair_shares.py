"""Fair shares on generated loads: the line always moves, keeps the order of each session, and loses or doubles nothing (B22)."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.session.fair_shares import (
    BESIDE_QUIET_BYTES_MIN,
    COMPANY_SECONDS,
    FLOOD_SECONDS,
    IN_COMPANY_BYTES_MAX,
    QUIET_BYTES_MAX,
    QUIET_SECONDS,
    SOON_SECONDS,
    FairShares,
)

SESSIONS = st.sampled_from(["one", "two", "three", "four"])
SIZES = st.one_of(st.integers(0, QUIET_BYTES_MAX), st.sampled_from([QUIET_BYTES_MAX + 1, 64 << 10, 512 << 10]))


class Load(RuleBasedStateMachine):
    """Sessions submit, the channel writes in order, links are lost; time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.shares = FairShares[tuple[str, int]]()
        self.now = 100.0
        self.count = 0
        self.under_way: deque[tuple[str, int, int, bool]] = deque()
        self.waiting: dict[str, list[int]] = {}  # by session, in order
        self.stopped: dict[str, tuple[tuple[str, int], int]] = {}  # by session: the batch that waits for selectors, and its size

    def append(self, session: str, number: int, size: int, is_flood: bool) -> None:
        self.under_way.append((session, number, size, is_flood))

    def go_on(self) -> None:
        while (found := self.shares.next(self.now)) is not None:
            session, (whose, number), size = found
            assert session == whose
            assert self.waiting[session].pop(0) == number
            self.append(session, number, size, True)

    @rule(session=SESSIONS, size=SIZES)
    def submit(self, session: str, size: int) -> None:
        self.count += 1
        is_flood = self.shares.offer(session, (session, self.count), size, self.now)
        if is_flood is None:
            self.waiting.setdefault(session, []).append(self.count)
        else:
            assert not self.waiting.get(session)
            self.append(session, self.count, size, is_flood)

    @rule()
    def write_one(self) -> None:
        if self.under_way:
            session, _, size, is_flood = self.under_way.popleft()
            self.shares.receipted(session, size, is_flood)
            self.go_on()

    @rule(session=SESSIONS, size=SIZES)
    def submit_what_must_wait_for_selectors(self, session: str, size: int) -> None:
        item = session, self.count + 1
        is_flood = self.shares.offer(session, item, size, self.now)
        self.count += 1
        self.waiting.setdefault(session, []).append(self.count)
        if is_flood is not None:
            self.shares.stop(session, item, size, is_flood)
            self.stopped[session] = item, size

    @rule(session=SESSIONS)
    def selectors_answer(self, session: str) -> None:
        if session in self.stopped:
            item, size = self.stopped.pop(session)
            assert self.shares.resume(session, item)
            assert self.waiting[session].pop(0) == item[1]
            self.append(session, item[1], size, True)
            self.go_on()

    @rule(session=SESSIONS)
    def lose_link(self, session: str) -> None:
        self.shares.drop(session)
        self.waiting.pop(session, None)
        if session in self.stopped:
            assert not self.shares.resume(session, self.stopped.pop(session)[0])

    @rule(seconds=st.sampled_from([0.001, QUIET_SECONDS / 2, QUIET_SECONDS, COMPANY_SECONDS]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def whoever_waits_in_line_waits_for_a_batch_that_is_under_way(self) -> None:
        in_line = [session for session, numbers in self.waiting.items() if numbers and session not in self.stopped]
        assert not in_line or any(is_flood for *_, is_flood in self.under_way)

    def teardown(self) -> None:
        for session in list(self.stopped):
            self.selectors_answer(session)
        while self.under_way:
            self.write_one()
        assert not any(self.waiting.values())
        self.now += 10 * COMPANY_SECONDS
        assert self.shares.offer("another", ("another", 0), 1 << 30, self.now) is True  # nothing counts as under way any more


TestLoad = Load.TestCase


@given(sizes=st.lists(st.integers(QUIET_BYTES_MAX + 1, 256 << 10), min_size=1, max_size=60), floods=st.integers(1, 3))
def test_beside_a_quiet_session_all_floods_together_have_little_under_way(sizes: list[int], floods: int) -> None:
    shares, under_way = FairShares[int](), deque[tuple[str, int]]()
    assert shares.offer("quiet", 0, 100, 1.0) is False
    for number, size in enumerate(sizes):
        if shares.offer(f"flood {number % floods}", number, size, 1.1):
            under_way.append((f"flood {number % floods}", size))

    while under_way:
        assert len(under_way) == 1 or sum(size for _, size in under_way) <= BESIDE_QUIET_BYTES_MIN
        session, size = under_way.popleft()
        shares.receipted(session, size, is_flood=True)
        while (found := shares.next(1.1)) is not None:
            under_way.append((found[0], found[2]))


@given(before=st.floats(0, 3), size=st.integers(QUIET_BYTES_MAX + 1, 1 << 20))
def test_a_session_that_begins_to_flood_is_seen_at_once_and_one_that_ends_after_a_quarter_of_a_second(
    before: float, size: int
) -> None:
    shares = FairShares[int]()
    assert shares.offer("one", 0, 100, before) is False
    shares.receipted("one", 100, is_flood=False)
    assert shares.is_beside_quiet(before)

    assert shares.offer("one", 1, size, before) is True
    assert not shares.is_beside_quiet(before)

    shares.receipted("one", size, is_flood=True)
    assert shares.offer("one", 2, 100, before + FLOOD_SECONDS / 2) is True
    shares.receipted("one", 100, is_flood=True)
    assert shares.offer("one", 3, 100, before + FLOOD_SECONDS) is False
    assert shares.is_beside_quiet(before + FLOOD_SECONDS)
    assert not shares.is_beside_quiet(before + FLOOD_SECONDS + QUIET_SECONDS)


@given(quiet=st.integers(1, 50))
def test_any_number_of_quiet_sessions_go_in_at_once_whatever_waits_in_line(quiet: int) -> None:
    shares = FairShares[int]()
    for number in range(60):
        shares.offer("a flood", number, 64 << 10, 1.0)
        shares.offer("another", number, 64 << 10, 1.0)

    assert [shares.offer(f"quiet {number}", number, QUIET_BYTES_MAX, 1.0) for number in range(quiet)] == [False] * quiet


@given(took=st.lists(st.floats(0, 2), max_size=60))
def test_beside_a_quiet_session_the_bound_grows_while_receipts_come_soon_and_shrinks_when_they_do_not(took: list[float]) -> None:
    shares = FairShares[int]()
    shares.offer("quiet", 0, 100, 1.0)
    for seconds in took:
        shares.learn(64 << 10, 1.0 - seconds, 1.0)
        assert BESIDE_QUIET_BYTES_MIN <= shares.beside_quiet_bytes <= IN_COMPANY_BYTES_MAX

    for _ in range(100):
        shares.learn(64 << 10, 1.0 - SOON_SECONDS / 2, 1.0)
    assert shares.beside_quiet_bytes == IN_COMPANY_BYTES_MAX

    for _ in range(15):
        shares.learn(64 << 10, 1.0 - 10 * SOON_SECONDS, 1.0)
    assert shares.beside_quiet_bytes == BESIDE_QUIET_BYTES_MIN


def test_where_every_receipt_takes_long_the_bound_grows_all_the_same() -> None:
    shares = FairShares[int]()
    shares.offer("quiet", 0, 100, 1.0)

    for _ in range(100):
        shares.learn(64 << 10, 0.9, 1.0)

    assert shares.beside_quiet_bytes == IN_COMPANY_BYTES_MAX


def test_sessions_in_line_take_turns() -> None:
    shares = FairShares[int]()
    shares.offer("quiet", 0, 100, 1.0)
    for number in range(3):
        shares.offer("a flood", number, 64 << 10, 1.0)
    for number in range(3):
        shares.offer("another", number, 64 << 10, 1.0)

    taken, under_way = list[str](), "a flood"
    while True:
        shares.receipted(under_way, 64 << 10, is_flood=True)
        found = shares.next(1.0)
        if found is None:
            break
        under_way = found[0]
        taken.append(under_way)

    assert taken == ["a flood", "another", "a flood", "another", "another"]


def test_alone_a_flood_has_no_bound_and_beside_another_flood_a_wide_one() -> None:
    shares = FairShares[int]()
    assert shares.offer("a flood", 0, 64 << 10, 1.0) is True
    alone = 1.0 + COMPANY_SECONDS
    assert all(shares.offer("a flood", number, 64 << 10, alone) for number in range(100))
    for _ in range(100):
        shares.receipted("a flood", 64 << 10, is_flood=True)

    went_in = [shares.offer(session, 0, 64 << 10, alone) for _ in range(20) for session in ("a flood", "another")]

    assert sum(each is True for each in went_in) == IN_COMPANY_BYTES_MAX // (64 << 10) - 1
