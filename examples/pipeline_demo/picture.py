"""The demo drawn: three plots in a PNG file, and strips of blocks for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.pipeline_demo.outcome import Outcome
from examples.pipeline_demo.places import SHOPS
from examples.pipeline_demo.story import SERVER, Story

BLOCKS = " ▁▂▃▄▅▆▇█"
COLUMNS = 64
LABEL = 16
COLOURS = {"shop.orders": "#2a6f97", "shop.payments": "#61a5c2"}


def strips(story: Story, outcome: Outcome) -> list[str]:
    """Accepted events and the archive's lag over time, and below them who was killed when."""
    begin, end = _span(outcome)
    step = (end - begin) / COLUMNS
    accepted, marks = [0.0] * COLUMNS, [" "] * COLUMNS

    def column(at: float) -> int:
        return min(COLUMNS - 1, max(0, int((at - begin) / step)))

    for second in outcome.seconds:
        for part in range(10):  # a second may span columns
            accepted[column(second.at + part / 10)] += second.events / 10
    lags = [_lag_in(story, begin + place * step, begin + (place + 1) * step) for place in range(COLUMNS)]
    for kill in story.kills:
        marks[column(kill.at)] = "s" if kill.victim == SERVER else "D"
    return [
        f"{'accepted/s':<{LABEL}}{_strip(accepted)}  at most {max(accepted) / step:,.0f}",
        f"{'lag of archive':<{LABEL}}{_strip(lags)}  at most {max(lags):,.0f}",
        f"{'':<{LABEL}}{''.join(marks)}  s: server killed, D: Spark driver killed",
    ]


def _lag_in(story: Story, begin: float, end: float) -> int:
    """The highest value between these times; without one, the last before them."""
    told = [lag.events for lag in story.lags if begin <= lag.at < end]
    return max(told) if told else next((lag.events for lag in reversed(story.lags) if lag.at < begin), 0)


def draw(story: Story, outcome: Outcome, file: Path) -> None:
    """Three plots over the same time: events accepted, lag of the archive, time of the statistics."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    begin, _ = _span(outcome)
    figure, (rates, lags, waits) = pyplot.subplots(3, 1, figsize=(10, 8), sharex=True, layout="constrained")
    _draw_rates(rates, outcome)
    lags.fill_between([each.at - begin for each in story.lags], [each.events for each in story.lags], color="#f4a261")
    lags.set(title="lag of the archive: accepted, not confirmed", ylabel="events")
    _draw_waits(waits, outcome)
    for axes in (rates, lags, waits):
        _mark_kills(axes, story, begin)
    rates.legend(loc="lower left")
    figure.suptitle(f"{outcome.report['totals']['receipted']:,} events receipted: {outcome.report['verdict']}")
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def _draw_rates(axes: Any, outcome: Outcome) -> None:
    begin, end = _span(outcome)
    seconds = range(int(begin), int(end))
    events = {(each.at, each.destination): each.events for each in outcome.seconds}
    stacked = [[events.get((at, topic), 0) for at in seconds] for topic in SHOPS]
    axes.stackplot([at - begin for at in seconds], stacked, labels=SHOPS, colors=[COLOURS[topic] for topic in SHOPS])
    axes.set(title="accepted in each second, from the archive's table", ylabel="events")


def _draw_waits(axes: Any, outcome: Outcome) -> None:
    begin, _ = _span(outcome)
    waited = [each.confirm_ms / 1000 for each in outcome.windows]
    axes.plot([each.at - begin for each in outcome.windows], waited, ".", color="#6a4c93", label="p95 of a window and type")
    axes.plot([each.at - begin for each in outcome.alerts], [0] * len(outcome.alerts), "^", color="#d62828", label="alert")
    axes.set(title="from accepted to taken by the statistics", ylabel="seconds", xlabel="seconds")
    axes.legend(loc="upper left")


def _mark_kills(axes: Any, story: Story, begin: float) -> None:
    named: set[str] = set()
    for kill in story.kills:
        label = None if kill.victim in named else f"{kill.victim} killed"
        axes.axvline(kill.at - begin, color="#d62828", linestyle="--" if kill.victim == SERVER else "-", label=label)
        named.add(kill.victim)
    axes.set_ylim(bottom=0)


def _span(outcome: Outcome) -> tuple[float, float]:
    times = [each.at for each in outcome.seconds]
    return min(times), max(times) + 1


def _strip(values: Sequence[float]) -> str:
    most = max(values) or 1.0
    return "".join(BLOCKS[math.ceil(value / most * (len(BLOCKS) - 1))] for value in values)
