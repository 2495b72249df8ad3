"""The plots of an audit's page, drawn as SVG: nothing to install, nothing to fetch, sharp at any size.

where_they_are     one bar for each destination: archived, waiting, dead, delivered, lost
when_accepted      columns over time, by where the events are now
counters           one strip for each producer, from its first id to its last: what is lost, doubled, or was never seen
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from html import escape
from itertools import pairwise

from holdfast.event import identifier
from holdfast.spark.pipelines.auditing.report import Counted, Moment, Produced, Report

STATES = ("archived", "delivered", "waiting", "dead", "lost")
# Told apart in the light and in the dark, and by most who see colours otherwise.
COLOURS = {
    "archived": "#2f9e77", "delivered": "#4c86c6", "waiting": "#e0b040", "dead": "#8a6fb0", "lost": "#d43d3d",
    "duplicated": "#c2388f", "hole": "#a9b3be",
}  # fmt: skip
WIDTH = 960
_LABEL = 220
_RIGHT = 110
_ROW = 30
_BAR = 18
_BARS_MAX = 30
_HEIGHT = 200
# The least that is drawn of something that must be seen, however little of the whole it is.
_VISIBLE = 2.5


def where_they_are(destinations: Sequence[Counted]) -> str:
    """The largest destinations; what is lost is drawn where it can be seen, even if it is one in a million."""
    shown = sorted(destinations, key=lambda each: (-each.lost, -each.all, each.destination))[:_BARS_MAX]
    most = max((each.all for each in shown), default=0) or 1
    rows = [_bar(row, each, (WIDTH - _LABEL - _RIGHT) / most) for row, each in enumerate(shown)]
    return _svg(len(shown) * _ROW + 4, rows, "Where the events of each destination are")


def _bar(row: int, counted: Counted, scale: float) -> str:
    parts, x, y = [_text(_LABEL - 10, row * _ROW + 17, counted.destination, "end")], float(_LABEL), row * _ROW + 4
    for state, events in _exclusive(counted):
        width = max(events * scale, _VISIBLE)
        parts.append(_rectangle(x, y, width, _BAR, state, f"{counted.destination}: {events:,} {state}"))
        x += width
    return "".join([*parts, _text(x + 8, row * _ROW + 17, f"{counted.all:,}", "faint")])


def _exclusive(counted: Counted) -> Iterator[tuple[str, int]]:
    """Each event once: where it is, not where else it was seen."""
    parts = (counted.archived, counted.delivered_only + counted.confirmed, counted.waiting_only, counted.dead_only, counted.lost)
    return ((state, events) for state, events in zip(STATES, parts, strict=True) if events)


def states_in(destinations: Sequence[Counted]) -> list[str]:
    """Choose the rows that are drawn."""
    drawn = {state for each in destinations for state, _ in _exclusive(each)}
    return [state for state in STATES if state in drawn]


def when_accepted(timeline: Sequence[Moment]) -> str:
    moments = sorted({moment.at for moment in timeline})
    heights = {at: sum(moment.events for moment in timeline if moment.at == at) for at in moments}
    begin, end = (datetime.fromisoformat(at).timestamp() for at in (moments[0], moments[-1]))
    steps = [datetime.fromisoformat(at).timestamp() for at in moments]
    least = min((later - earlier for earlier, later in pairwise(steps)), default=1.0)
    places = round((end - begin) / least) + 1
    column = (WIDTH - 60) / places
    most = max(heights.values())
    parts = [_grid(most)]
    stacked: dict[str, float] = {}
    for moment in sorted(timeline, key=lambda each: STATES.index(each.state)):
        x = 56 + (datetime.fromisoformat(moment.at).timestamp() - begin) / least * column
        height = moment.events / most * (_HEIGHT - 40)
        y = stacked.get(moment.at, float(_HEIGHT - 24)) - height
        stacked[moment.at] = y
        title = f"{moment.at[:19].replace('T', ' ')}: {moment.events:,} {moment.state}"
        parts.append(_rectangle(x, y, max(column - 1, 1), height, moment.state, title))
    return _svg(_HEIGHT, [*parts, *_ends(moments[0], moments[-1])], "When the events were accepted")


def _grid(most: int) -> str:
    lines = []
    for part in (0.0, 0.5, 1.0):
        y = (_HEIGHT - 24) - part * (_HEIGHT - 40)
        lines.append(f'<line stroke="currentColor" stroke-opacity="0.15" x1="56" x2="{WIDTH - 4}" y1="{y:.1f}" y2="{y:.1f}"/>')
        if part * most == int(part * most):
            lines.append(_text(48, y + 4, f"{int(part * most):,}", "faint end"))
    return "".join(lines)


def _ends(first: str, last: str) -> Iterator[str]:
    yield _text(56, _HEIGHT - 6, first[:19].replace("T", " "), "faint")
    if last != first:
        yield _text(WIDTH - 4, _HEIGHT - 6, f"{last[:19].replace('T', ' ')} UTC", "faint end")


def counters(report: Report) -> str:
    """The producers that count their own ids, those with something wrong first."""
    shown: dict[str, Produced] = {}
    for each in report.producers:
        if each.producer is not None and len(shown) < _BARS_MAX:
            shown.setdefault(each.producer, each)
    rows = [_strip(row, producer, report) for row, producer in enumerate(shown)]
    return _svg(len(rows) * _ROW + 4, rows, "The ids of each producer, from the first to the last")


def _strip(row: int, producer: str, report: Report) -> str:
    mine = [each for each in report.producers if each.producer == producer]
    first, last = min(_counter(each.first) for each in mine), max(_counter(each.last) for each in mine)
    scale = (WIDTH - _LABEL - _RIGHT) / (last - first + 1)
    y = row * _ROW + 4
    parts = [
        _text(_LABEL - 10, row * _ROW + 17, f"{producer[:10]}…{producer[15:20]}", "end"),
        _rectangle(_LABEL, y, WIDTH - _LABEL - _RIGHT, _BAR, "archived", f"{producer}: ids {first:,} to {last:,}"),
        _text(WIDTH - _RIGHT + 8, row * _ROW + 17, f"{last - first + 1:,} ids", "faint"),
    ]
    for state, low, high in _marks(producer, report):
        title = f"{state}: {high - low + 1:,} ids from {low:,}"
        x = min(_LABEL + (low - first) * scale, WIDTH - _RIGHT - _VISIBLE)
        parts.append(_rectangle(x, y, max((high - low + 1) * scale, _VISIBLE), _BAR, state, title))
    return "".join(parts)


def _marks(producer: str, report: Report) -> Iterator[tuple[str, int, int]]:
    for hole in report.holes:
        if hole.producer == producer:
            yield "hole", _counter(hole.first), _counter(hole.last)
    for each in report.duplicates:
        if identifier.is_text(each.id) and _start(each.id) == _start(producer):
            yield "duplicated", _counter(each.id), _counter(each.id)
    for lost in report.lost_ranges:
        if lost.producer == producer:
            yield "lost", _counter(lost.first), _counter(lost.last)


def _counter(text: str) -> int:
    return identifier.from_text(text) & identifier.COUNTER_MAX


def _start(text: str) -> int:
    return identifier.from_text(text) & ~identifier.COUNTER_MAX


def _rectangle(x: float, y: float, width: float, height: float, kind: str, title: str) -> str:
    return (
        f'<rect fill="{COLOURS[kind]}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _text(x: float, y: float, text: str, kind: str) -> str:
    shown = text if len(text) <= 30 else f"{text[:14]}…{text[-14:]}"
    anchor = ' text-anchor="end"' if "end" in kind.split() else ""
    faint = ' fill-opacity="0.65"' if "faint" in kind.split() else ""
    return f'<text fill="currentColor" font-size="12.5" x="{x:.1f}" y="{y:.1f}"{anchor}{faint}>{escape(shown)}</text>'


def _svg(height: int, parts: Iterable[str], title: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
