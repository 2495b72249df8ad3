"""Known keys on generated topics: two listeners agree at every event, however one of them lives, and agree with a naive twin."""

from __future__ import annotations

from mmap import mmap

from hypothesis import given
from hypothesis import strategies as st

from holdfast.continuity.machines.known_keys import BUCKETS, Clash, Judgement, Known, KnownKeys, New, shortened

KEPT = 320
WIDTH = KEPT // BUCKETS

DIGESTS = st.sampled_from([b"1" * 16, b"2" * 16, bytes(16)])
# Times of which many are alike, many go back, and some jump.
TIMES = st.one_of(st.integers(0, 3 * KEPT), st.integers(0, 20 * KEPT))
EVENTS = st.lists(
    st.tuples(st.sampled_from(["judge", "judge", "judge", "given"]), st.integers(0, 20).map("key {}".format), DIGESTS, TIMES),
    min_size=20,
    max_size=60,
)


class Naive:
    """Keep everything in one list, and look at all of it at every event."""

    def __init__(self) -> None:
        self.clock = 0
        self.known: dict[str, tuple[bytes, int, int, bytes | None]] = {}  # digest, place, time of entry, given

    def judge(self, key: str, digest: bytes, time: int, place: int) -> Judgement:
        self.clock = max(self.clock, time)
        self.known = {each: of for each, of in self.known.items() if (of[2] // WIDTH + 1) * WIDTH + KEPT > self.clock}
        if key not in self.known:
            self.known[key] = digest, place, self.clock, None
            return New()
        first, at, _, answer = self.known[key]
        return Known(at, answer and shortened(answer)) if first == digest else Clash(at)

    def given(self, key: str, digest: bytes) -> None:
        if key in self.known and self.known[key][3] is None:
            self.known[key] = *self.known[key][:3], digest


@given(events=EVENTS, restored_at=st.sets(st.integers(0, 60)))
def test_two_listeners_agree_at_every_event_though_one_is_restored_from_its_records_and_has_small_tables(
    events: list[tuple[str, str, bytes, int]], restored_at: set[int]
) -> None:
    one, other, naive = KnownKeys(KEPT), small_tables(), Naive()

    for place, (what, key, digest, time) in enumerate(events):
        if place in restored_at:
            other = small_tables()
            for before, event in enumerate(events[:place]):
                enter(other, before, *event)
        judged = [enter(each, place, what, key, digest, time) for each in (one, other, naive)]
        assert judged[0] == judged[1] == judged[2]
        assert type(judged[0]) is type(judged[1]) is type(judged[2])
        if what != "given":
            assert len(one) == len(other) == len(naive.known)


def small_tables() -> KnownKeys:
    """Known keys in mapped memory. A table has room for two, so that there are many, and full ones."""
    return KnownKeys(KEPT, lambda size: mmap(-1, size), table_keys=2)


def enter(keys: KnownKeys | Naive, place: int, what: str, key: str, digest: bytes, time: int) -> Judgement | None:
    return keys.given(key, digest) if what == "given" else keys.judge(key, digest, time, place)


@given(events=st.lists(st.tuples(st.sampled_from("abc"), TIMES), min_size=20, max_size=60))
def test_a_key_is_never_forgotten_before_its_time_by_the_clock_of_the_topic(events: list[tuple[str, int]]) -> None:
    keys, clock, entered = KnownKeys(KEPT), 0, dict[str, int]()

    for place, (key, time) in enumerate(events):
        clock = max(clock, time)
        found = keys.judge(key, b"1" * 16, time, place)
        if isinstance(found, New):
            assert clock - entered.get(key, clock - KEPT) >= KEPT
            entered[key] = clock
        else:
            assert clock - entered[key] < KEPT + 2 * WIDTH
