"""What was measured: figures as they came, and findings, which compare figures of the same run with each other and with a target.

A figure alone says as much about the machine as about the program. A ratio between two that were measured in turns (A B A B) on
the same machine in the same minute says something about the program: so every target but a few limits is a ratio.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """Where we mean to be. Exactly one of the two is given."""

    at_least: float | None = None
    at_most: float | None = None

    def is_met(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        return f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:g}"


@dataclass(frozen=True)
class Figure:
    """One thing measured of one party, as often as there were repetitions."""

    measure: str
    what: str
    who: str
    unit: str
    samples: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


@dataclass(frozen=True)
class Finding:
    """A ratio between two parties' figures, repetition by repetition, or one figure against a limit."""

    measure: str
    what: str
    unit: str
    samples: Sequence[float]
    target: Target | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "met" if self.target.is_met(self.median) else "missed"


@dataclass
class Results:
    figures: list[Figure] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def note(self, measure: str, what: str, unit: str, samples_by_party: Mapping[str, Sequence[float]]) -> None:
        for who, samples in samples_by_party.items():
            self.figures.append(Figure(measure, what, who, unit, list(samples)))

    def samples(self, measure: str, what: str) -> dict[str, Sequence[float]]:
        return {figure.who: figure.samples for figure in self.figures if (figure.measure, figure.what) == (measure, what)}

    def find(self, measure: str, what: str, samples: Sequence[float], target: Target | None = None, unit: str = "x") -> None:
        self.findings.append(Finding(measure, what, unit, list(samples), target))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ours over theirs, each repetition by itself."""
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def best(samples_by_party: Mapping[str, Sequence[float]]) -> str:
    """The party with the highest median."""
    return max(samples_by_party, key=lambda who: statistics.median(samples_by_party[who]))


def in_turns(repetitions: int, actions: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Every action once, then again in the opposite order, and so on: what drifts, drifts for all of them alike."""
    samples: dict[str, list[float]] = {who: [] for who in actions}
    for repetition in range(repetitions):
        for who in list(actions) if repetition % 2 == 0 else reversed(list(actions)):
            samples[who].append(actions[who]())
    return samples
