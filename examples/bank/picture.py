"""The bank drawn: answers of each server, the balance at each, and how long clients waited, over the same time."""

from __future__ import annotations

import itertools
from pathlib import Path

from examples.bank.clients import Deposit

COLOURS = {"a": "#2a6f97", "b": "#f4a261"}
STEP_S = 0.25


def draw(
    seen: dict[str, list[tuple[float, int]]], deposits: list[Deposit], away: tuple[float, float], title: str, file: Path
) -> None:
    """`seen`: times and balances, by server; `away`: when a server was killed, and when it was started again."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    begin = min(at for each in seen.values() for at, _ in each)
    figure, (answers, balances, waits) = pyplot.subplots(3, 1, figsize=(10, 8), sharex=True, layout="constrained")
    for name, points in seen.items():
        times, counts = _rates(points, begin)
        answers.step(times, counts, where="post", color=COLOURS[name], label=f"server {name}")
        balances.plot([at - begin for at, _ in points], [balance for _, balance in points], color=COLOURS[name])
    answers.set(title="deposits that each server has answered", ylabel="a second")
    answers.legend(loc="upper left")
    balances.set(title="balance at each server", ylabel="balance")
    waits.plot(
        [each.at - begin for each in deposits], [each.seconds * 1000 for each in deposits], ".", markersize=2, color="#6a4c93"
    )
    waits.set(title="from a client's first try to its answer", ylabel="milliseconds", xlabel="seconds", yscale="log")
    for axes in (answers, balances, waits):
        axes.axvspan(away[0] - begin, away[1] - begin, color="#d62828", alpha=0.12)
    figure.suptitle(title)
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def _rates(points: list[tuple[float, int]], begin: float) -> tuple[list[float], list[float]]:
    """How much the balance grew, a second, in each step of time."""
    last: dict[int, int] = {}
    for at, balance in points:
        last[int((at - begin) / STEP_S)] = balance
    steps = sorted(last)
    grown = [(last[step] - last[before]) / ((step - before) * STEP_S) for before, step in itertools.pairwise(steps)]
    return [step * STEP_S for step in steps[:-1]], grown
