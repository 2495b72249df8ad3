"""What is marked is not appended again, and a mark goes when upstream has settled all of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.relay.machines.marks import Mark, Marks, Stretch, judged

JOURNAL = "7c1e"
SUBSCRIPTION = f"{JOURNAL}:12"


def mark(number: int, *runs: tuple[int, int], identity: str = SUBSCRIPTION) -> Mark:
    return Mark(number, identity, tuple(Stretch(*run) for run in runs))


def test_a_marked_range_that_comes_again_is_not_new() -> None:
    marks = Marks()
    marks.add(mark(1, (10, 19)))

    assert marks.split(5, 24) == ([(5, 9), (20, 24)], [(10, 19)])


def test_a_mark_goes_when_upstream_has_settled_the_last_of_its_positions() -> None:
    marks = Marks()
    marks.add(mark(1, (10, 19), (30, 39)))
    marks.add(mark(2, (20, 29)))

    assert marks.settled(10, 34) == [2]
    assert marks.settled(35, 39) == [1]
    assert len(marks) == 0


def test_marks_of_the_subscription_that_is_there_hold() -> None:
    assert judged(SUBSCRIPTION, [mark(1, (1, 2))], [SUBSCRIPTION]).held == [mark(1, (1, 2))]


def test_marks_of_a_subscription_that_is_gone_go() -> None:
    found = judged(SUBSCRIPTION, [mark(1, (1, 2))], [f"{JOURNAL}:99"])

    assert (found.held, [each.number for each in found.gone], found.restored_from) == ([], [1], "")


def test_an_upstream_that_was_restored_is_noticed_by_its_marks_and_without_any() -> None:
    restored = f"{JOURNAL}+1-9f3a:12"

    assert judged("", [mark(1, (1, 2))], [restored]).restored_from == JOURNAL
    assert judged(SUBSCRIPTION, [], [restored]).restored_from == JOURNAL


def test_another_journal_in_the_place_of_the_first_is_not_a_restored_one() -> None:
    found = judged(SUBSCRIPTION, [mark(1, (1, 2))], ["aaaa:3"])

    assert (found.restored_from, [each.number for each in found.gone]) == ("", [1])


RUNS = st.tuples(st.integers(1, 30), st.integers(0, 5)).map(lambda drawn: (drawn[0], drawn[0] + drawn[1]))


@given(st.lists(st.one_of(RUNS.map(lambda run: ("come", run)), RUNS.map(lambda run: ("settle", run))), max_size=40))
def test_marks_answer_as_a_plain_table_of_positions_does(steps: list[tuple[str, tuple[int, int]]]) -> None:
    marks = Marks()
    naive: dict[int, int] = {}  # position: number of the mark that has it
    number = 0

    for what, (first, last) in steps:
        if what == "come":
            new, marked = marks.split(first, last)
            assert [p for low, high in new for p in range(low, high + 1)] == [p for p in range(first, last + 1) if p not in naive]
            assert [p for low, high in marked for p in range(low, high + 1)] == [p for p in range(first, last + 1) if p in naive]
            if new:
                made = mark(number := number + 1, *new)
                marks.add(made)
                naive |= {p: made.number for low, high in new for p in range(low, high + 1)}
        else:
            hit = {naive[p] for p in range(first, last + 1) if p in naive}
            naive = {p: of for p, of in naive.items() if not first <= p <= last}
            assert set(marks.settled(first, last)) == hit - set(naive.values())

    assert {each.number for each in marks} == set(naive.values())
