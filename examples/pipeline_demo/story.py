"""The story so far: receipts, batches, kills. The demo writes it, `screen` shows it, `picture` draws it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from examples.pipeline_demo.outcome import Told
from examples.pipeline_demo.places import PIPELINES, SHOPS

SERVER, DRIVER = "server", "Spark driver"


class Kill(NamedTuple):
    at: float
    victim: str


class Lag(NamedTuple):
    """Events of the archive's subscription that were not confirmed."""

    at: float
    events: int


@dataclass
class Pipeline:
    name: str
    rows: int = 0
    batches: int = 0
    last: Told | None = None

    def note(self, told: Told) -> None:
        self.last = told
        self.rows += told.rows
        self.batches += bool(told.rows)


@dataclass
class Story:
    receipted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SHOPS, 0))
    pipelines: dict[str, Pipeline] = field(default_factory=lambda: {name: Pipeline(name) for name in PIPELINES})
    kills: list[Kill] = field(default_factory=list)
    lags: list[Lag] = field(default_factory=list)
    is_server_up: bool = False
    spark: str = "not started"

    def note(self, told: Told) -> None:
        self.pipelines[told.pipeline].note(told)
        if told.pipeline == "archive" and told.lag is not None:
            self.lags.append(Lag(datetime.fromisoformat(told.at).timestamp() + told.seconds, told.lag))

    def kills_of(self, victim: str) -> int:
        return sum(kill.victim == victim for kill in self.kills)

    @property
    def batches(self) -> int:
        """The count of the pipeline that has made the fewest."""
        return min(each.batches for each in self.pipelines.values())
