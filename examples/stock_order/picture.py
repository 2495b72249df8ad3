"""The stock order drawn: when each order was sent, reached the exchange and was answered, and who was killed when."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Order(NamedTuple):
    key: str
    sent: float
    answered: float
    confirmation: str
    at_exchange: int  # how often the exchange saw it


class Kill(NamedTuple):
    at: float
    victim: str


def draw(orders: list[Order], kills: list[Kill], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (times, counts) = pyplot.subplots(2, 1, figsize=(10, 7), layout="constrained", height_ratios=[3, 1])
    rows = range(len(orders))
    times.barh(
        rows, [max(each.answered - each.sent, 0.01) for each in orders], left=[each.sent for each in orders], color="#2a6f97"
    )
    for row, each in zip(rows, orders, strict=True):
        times.annotate(f" {each.confirmation}", (each.answered, row), va="center", fontsize=7)
    for kill in kills:
        times.axvline(kill.at, color="#c1121f", linestyle="--")
        times.annotate(f"{kill.victim} killed", (kill.at, len(orders) - 0.4), color="#c1121f", rotation=20, fontsize=8)
    times.set(title="orders, from sent to confirmed", xlabel="seconds", ylabel="order", ylim=(-1, len(orders) + 1.5))
    counts.bar(rows, [each.at_exchange for each in orders], color="#61a5c2")
    counts.set(title="how often the exchange saw each order", xlabel="order", yticks=[0, 1, 2])
    figure.savefig(file, dpi=110)
    pyplot.close(figure)
