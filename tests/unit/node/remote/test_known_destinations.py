"""What a client manager knows of the destinations of another process, after any changes and any primaries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.destination.backlog.bodies import Bodies
from holdfast.destination.settings import Settings
from holdfast.destination.state import catalog as catalogs
from holdfast.destination.state.catalog import Catalog
from holdfast.destination.state.queue import Queue
from holdfast.node.message_manager_view import DestinationNews
from holdfast.node.remote.known_destinations import KnownDestinations


class Primary:
    """The destinations of a primary, and its answers."""

    def __init__(self, epoch: int, names: set[str]) -> None:
        self.epoch = epoch
        self.catalog = Catalog(Bodies())
        for name in sorted(names):
            self.add(name)

    def add(self, name: str) -> None:
        self.catalog.add(Queue(name, Settings(), self.catalog._bodies))

    def news(self, since: int) -> DestinationNews:
        names = self.catalog.changed_since(since)
        told = [
            (name, "queue" if name in self.catalog.destinations else "", False)
            for name in (self.catalog.destinations if names is None else names)
        ]
        return DestinationNews(self.catalog.version, names is None or not since, told)


steps = st.lists(st.sampled_from(["a", "b", "c", "learn", "ask", "answer", "primary"]), max_size=40)


@given(steps, st.integers(1, 6))
def test_what_is_known_is_what_there_was_when_the_newest_answer_was_given(steps: list[str], remembered: int) -> None:
    known, primary = KnownDestinations(), Primary(1, set())
    under_way: tuple[int, DestinationNews] | None = None
    news_max, catalogs.NEWS_MAX = catalogs.NEWS_MAX, remembered
    try:
        primary = Primary(1, set())
        for step in [*steps, "answer", "learn"]:
            if step in "abc":
                if step in primary.catalog.destinations:
                    primary.catalog.remove(step)
                else:
                    primary.add(step)
            elif step == "primary":
                primary = Primary(primary.epoch + 1, set("abc") & set(primary.catalog.destinations))
            elif step in ("ask", "learn"):
                since = known.begin(primary.epoch, primary.catalog.version)
                if since is not None:
                    under_way = primary.epoch, primary.news(since)
            if step in ("answer", "learn") and under_way is not None:
                known.learn(*under_way)
                under_way = None
    finally:
        catalogs.NEWS_MAX = news_max

    expected = {name for name in "abc" if name in primary.catalog.destinations}
    assert {name for name in "abc" if known.kind_of(name)} == expected
