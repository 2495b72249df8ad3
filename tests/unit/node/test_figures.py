"""What a node counts for those who watch it."""

from __future__ import annotations

from holdfast.bus.message import DeliveredSlice
from holdfast.node.figures import CODES_MAX, Figures, Histogram

BACKLOG = ("orders", "")


def slice_of(events: int, deliveries: int = 0, accepted_us: int = 0) -> DeliveredSlice:
    return DeliveredSlice(0, events, deliveries, True, b"", "", (), accepted_us)


def test_an_observation_is_counted_at_the_first_bound_it_does_not_exceed() -> None:
    histogram = Histogram((0.1, 1.0))

    for value, count in ((0.1, 1), (0.2, 3), (5.0, 1)):
        histogram.observe(value, count)

    assert histogram.counts == [1, 3, 1]
    assert histogram.sum == 0.1 + 3 * 0.2 + 5.0


def test_a_handout_is_counted_once_for_its_events_and_again_for_those_delivered_before() -> None:
    figures = Figures()

    assert figures.handed_out(BACKLOG, [slice_of(3), slice_of(2, deliveries=1)], 0) == 5
    assert figures.handed_out(BACKLOG, [slice_of(1)], 0) == 1

    assert (figures.delivered, figures.redelivered) == ({BACKLOG: 6}, {BACKLOG: 2})
    assert sum(figures.end_to_end.counts) == 0


def test_first_deliveries_are_timed_while_somebody_watches() -> None:
    figures = Figures()
    figures.is_timing = True

    figures.handed_out(BACKLOG, [slice_of(3, 0, 1_000_000), slice_of(2, 1, 1_000_000), slice_of(4)], 3_000_000)

    assert (sum(figures.end_to_end.counts), figures.end_to_end.sum) == (3, 6.0)


def test_a_deleted_backlog_leaves_nothing_behind() -> None:
    figures = Figures()
    figures.handed_out(BACKLOG, [slice_of(2, deliveries=1)], 0)

    figures.forget(BACKLOG)

    assert (figures.delivered, figures.redelivered) == ({}, {})


def test_codes_beyond_the_bound_are_counted_together() -> None:
    figures = Figures()

    for number in range(CODES_MAX + 10):
        figures.died(f"code-{number}", 1)

    assert len(figures.deaths) == CODES_MAX + 1
    assert figures.deaths["other"] == 10
