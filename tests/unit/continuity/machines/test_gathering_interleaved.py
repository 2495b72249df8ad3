"""Gathering under loss, reordering and duplication: whatever comes in whatever order, the client gets one honest answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Literal, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.continuity.answer import Head, Part, body_digest, without
from holdfast.continuity.machines.gathering import Begin, Chunk, Cut, Decided, End, Error, Gathering, Out, Resume

SERVERS = ("a", "b", "c")
ERROR_WAIT, ANSWER_TIMEOUT = 2.0, 10.0
# After all deliveries: wake-ups until everything is decided. Each of three servers may be waited for, and asked each second.
WAKES_MAX = 60


class Script(NamedTuple):
    """What a server does with the call: an answer in parts, which may be cut; or no answer."""

    server: str
    status: int
    body: bytes
    cuts: tuple[int, ...]
    is_length_known: bool = True
    cut_at: int | None = None  # after so many parts the call fails
    says: Literal["", "failed", "gone", "differs", "declined"] = ""

    @property
    def is_whole(self) -> bool:
        return all(part.outcome == "answered" for part in self.parts())

    def parts(self, begin: int = 0) -> Iterator[Part]:
        if self.says:
            yield without("t", 0, self.says, "reset")
            return
        bounds = sorted({0, len(self.body), *(cut for cut in self.cuts if cut < len(self.body))})
        pairs = list(itertools.pairwise(bounds)) or [(0, 0)]
        for number, (first, last) in enumerate(pairs):
            if number == self.cut_at:
                yield without("t", 0, "failed", "cut")
                return
            if last > begin or last == len(self.body):
                yield self._part(number, max(first, begin), last)

    def _part(self, number: int, first: int, last: int) -> Part:
        head = Head(self.status, [], len(self.body) if self.is_length_known else -1) if first == 0 else None
        is_last = last == len(self.body)
        return Part(
            "t", number, first, self.body[first:last], body_digest(self.body[:last]), is_last, "answered", head,
            body_digest(self.body) if is_last else b"",
        )  # fmt: skip


class Client:
    """What the client was told, and whether that was honest."""

    def __init__(self, scripts: dict[str, Script]) -> None:
        self.scripts = scripts
        self.begun: Begin | None = None
        self.body = b""
        self.last: End | Cut | Error | None = None
        self.decided: Decided | None = None

    def hear(self, out: list[Out]) -> list[Resume]:
        for each in out:
            match each:
                case Begin():
                    assert self.begun is None and self.last is None, "an answer begins once"
                    assert each.head.status == self.scripts[each.server].status
                    self.begun = each
                case Chunk():
                    assert self.begun is not None and self.last is None and each.body
                    self.body += each.body
                    assert any(self._is_beginning(script) for script in self.scripts.values()), "the bytes are nobody's"
                case End():
                    assert self.begun is not None and self.last is None
                    script = self.scripts[each.server]
                    assert self.body == script.body and script.is_whole, "an answer ends when it is whole"
                    assert each.comparison == body_digest(self.body)
                    self.last = each
                case Cut():
                    assert self.begun is not None and self.last is None
                    self.last = each
                case Error():
                    assert self.begun is None and self.last is None
                    self.last = each
                case Decided():
                    assert self.last is not None and self.decided is None
                    self.decided = each
        return [each for each in out if isinstance(each, Resume)]

    def _is_beginning(self, script: Script) -> bool:
        assert self.begun is not None
        return not script.says and script.status == self.begun.head.status and script.body.startswith(self.body)


def _scripts(server: str) -> st.SearchStrategy[Script]:
    answers = st.builds(
        Script,
        st.just(server),
        st.sampled_from([200, 200, 404, 500]),
        st.sampled_from([b"", b"abcdef", b"abcdef", b"abcxyz", b"abc"]),
        st.lists(st.integers(1, 5), max_size=3).map(tuple),
        st.booleans(),
        st.sampled_from([None, None, None, 0, 1, 2]),
    )
    none = st.sampled_from(["failed", "gone", "differs", "declined"]).map(
        lambda says: Script(server, 0, b"", (), says=says)  # type: ignore[arg-type]
    )
    return st.one_of(answers, answers, answers, none)


@settings(max_examples=400)
@given(
    st.tuples(*(_scripts(server) for server in SERVERS)),
    st.integers(1, 3),
    st.sampled_from(["first", "agreed"]),
    st.data(),
)
def test_the_client_gets_one_honest_answer_whatever_is_lost_late_or_twice(
    scripts: tuple[Script, ...], count: int, mode: Literal["first", "agreed"], data: st.DataObject
) -> None:
    known = {script.server: script for script in scripts[:count]}
    client = Client(known)
    gathering = Gathering("t", known, mode, ERROR_WAIT, 0.0, answer_timeout=ANSWER_TIMEOUT, compare_wait=ANSWER_TIMEOUT)
    under_way = [(server, part) for server, script in known.items() for part in script.parts()]
    now = 0.0

    for _ in range(data.draw(st.integers(0, 25))):
        step = data.draw(
            st.sampled_from(["deliver", "deliver", "deliver", "deliver", "twice", "drop", "lose", "back", "remove", "tick"])
        )
        out: list[Out] = []
        if step in ("deliver", "twice", "drop") and under_way:
            place = data.draw(st.integers(0, len(under_way) - 1))
            server, part = under_way[place] if step == "twice" else under_way.pop(place)
            out = gathering.part(server, part, now) if step != "drop" else []
        elif step == "tick":
            now = max(now, gathering.wake_at or now)
            out = gathering.tick(now)
        elif step in ("lose", "back", "remove"):
            server = data.draw(st.sampled_from(sorted(known)))
            if step == "back":
                out = gathering.back(server, now)
            else:
                out = gathering.lost(server, now, "link lost" if step == "lose" else "removed")
        for resume in client.hear(out):
            under_way += [(resume.server, part) for part in known[resume.server].parts(resume.offset)]

    for _ in range(WAKES_MAX):
        if gathering.wake_at is None:
            break
        now = max(now, gathering.wake_at)
        client.hear(gathering.tick(now))
        assert gathering.wake_at is None or gathering.wake_at > now, "a tick that is due is not due again at once"

    assert gathering.is_decided
    assert client.last is not None and client.decided is not None


def _interleaved(queues: tuple[tuple[Part | None, ...], ...]) -> Iterator[list[tuple[int, Part | None]]]:
    """Every order of the queues that keeps each queue's own."""
    turns = [number for number, queue in enumerate(queues) for _ in queue]
    for order in sorted(set(itertools.permutations(turns))):
        rest = [iter(queue) for queue in queues]
        yield [(number, next(rest[number])) for number in order]


def test_of_every_interleaving_the_client_gets_a_whole_answer_if_one_server_is_well() -> None:
    body = b"abcd"
    well = Script("a", 200, body, (2,))
    cut = Script("b", 200, body, (2,), cut_at=1)
    others = [Script("c", 500, b"oh", ()), Script("c", 0, b"", (), says="failed"), Script("c", 200, body, ())]
    tried = 0
    for other in others:
        scripts = {script.server: script for script in (well, cut, other)}
        # None: the link is lost, after what came before.
        queues = (tuple(well.parts()), tuple(cut.parts()), (*other.parts(), None))
        for order in _interleaved(queues):
            gathering, client = Gathering("t", scripts, "first", ERROR_WAIT, 0.0), Client(scripts)
            for number, part in order:
                server = SERVERS[number]
                resumes = client.hear(gathering.part(server, part, 0.1) if part is not None else gathering.lost(server, 0.1))
                while resumes:
                    resume = resumes.pop()
                    for again in scripts[resume.server].parts(resume.offset):
                        resumes += client.hear(gathering.part(resume.server, again, 0.1))
            tried += 1
            assert isinstance(client.last, End) and client.body == body and client.decided is not None

    assert tried == 3 * 90
