"""Which backlogs have series of their own, and what the others add up to."""

from __future__ import annotations

from holdfast.destination.name import temporary
from holdfast.http.backlog_figures import Counts, Row, Shown, merged


def row(name: str, accepted: int, waiting: int = 0, oldest_entry: int = 0) -> Row:
    return Row(name, "", Counts(accepted=accepted), waiting, 0, 0, oldest_entry)


def rows(**accepted: int) -> dict[tuple[str, str], Row]:
    return {(name, ""): row(name, count, waiting=count) for name, count in accepted.items()}


def test_the_first_have_series_of_their_own_and_the_rest_are_summed_as_other() -> None:
    shown, other = Shown(2).choose(rows(a=1, b=2, c=3, d=4))

    assert [each.destination for each in shown] == ["a", "b"]
    assert other == row("other", 7, waiting=7)


def test_without_others_there_is_no_sum() -> None:
    assert Shown(2).choose(rows(a=1, b=2))[1] is None


def test_one_that_was_summed_stays_summed_so_that_no_count_falls() -> None:
    choice = Shown(2)
    choice.choose(rows(a=1, b=2, c=3))

    shown, other = choice.choose(rows(b=2, c=3))

    assert [each.destination for each in shown] == ["b"]
    assert other is not None and other.counts.accepted == 3


def test_what_a_deleted_one_had_counted_stays_in_the_sum_and_nothing_waits_in_it() -> None:
    choice = Shown(1)
    choice.choose(rows(a=1, b=2, c=3))

    _, other = choice.choose(rows(a=1, c=4))

    assert other is not None
    assert (other.counts.accepted, other.waiting) == (6, 4)


def test_the_place_of_a_deleted_one_goes_to_one_that_is_new() -> None:
    choice = Shown(1)
    choice.choose(rows(a=1))

    assert [each.destination for each in choice.choose(rows(b=1))[0]] == ["b"]


def test_a_temporary_destination_is_never_shown_by_its_name() -> None:
    secret = temporary("queue", "1-secret")

    shown, other = Shown(10).choose({(secret, ""): row(secret, 5)})

    assert shown == []
    assert other is not None and (other.destination, other.counts.accepted) == ("other", 5)


def test_the_oldest_of_the_others_is_the_oldest_of_all_of_them_that_have_one() -> None:
    _, other = Shown(0).choose({("a", ""): row("a", 1, 1, 9), ("b", ""): row("b", 1), ("c", ""): row("c", 1, 1, 7)})

    assert other is not None and other.oldest_entry == 7


def test_rows_of_several_message_managers_with_one_name_are_one_row() -> None:
    one = row("_DMQ", 3, waiting=2)._replace(oldest_seconds=4.0, in_flight=1)
    other = row("_DMQ", 5, waiting=1)._replace(oldest_seconds=9.0, in_flight=2)
    alone = row("orders", 7)

    assert merged([one, alone, other]) == [row("_DMQ", 8, waiting=3)._replace(oldest_seconds=9.0, in_flight=3), alone]
