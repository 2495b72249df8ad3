"""How much the tests try: a little in `make test`, everything in `make test-long`.

Environment variables decide, and only this module reads them:

    HOLDFAST_TEST=long    what `make test-long` sets; anything else, or nothing, is short
    HOLDFAST_SEED=17      replay a run: a test that fails shows the seed it has printed
    HOLDFAST_SOAK=10      for how many minutes a soak runs, what `make soak` sets

Every promise has tests of both lengths. A short run tries each kind of fault a few times, from fixed seeds, so that it finds the
same today and tomorrow; a long run tries it often, from new seeds. A test says which amounts it means where it uses them:

    for _ in range(effort.rounds(short=3, long=50)):       kill so often
    dice = random.Random(effort.seed(20_261_115))          this seed; in a long run a new one, printed
    @pytest.mark.parametrize("seed", effort.cases([0], long=[1, 2, 3]))
    @pytest.mark.long                                      only in a long run: another test of the same promise is short

To replay one fault of a long run:

    HOLDFAST_TEST=long HOLDFAST_SEED=17 .venv/bin/pytest -n 0 tests/faults/test_server_killed.py

In a long run hypothesis has its profile "wide": many more examples, and new ones. It prints what replays a failure.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import Any

import pytest

IS_LONG = os.environ.get("HOLDFAST_TEST") == "long"
SEEDS = 1 << 32
# Of a soak that is part of a long run.
SOAK_MINUTES = 2


def rounds(*, short: int, long: int) -> int:
    """Return how often, how many or how large, in this run."""
    return long if IS_LONG else short


def cases(short: Iterable[Any], *, long: Iterable[Any]) -> list[Any]:
    """Return the values of a parameter: those of every run, and those that only a long run tries."""
    return [*short, *(pytest.param(each, marks=pytest.mark.long) for each in long)]


def soak_minutes() -> float:
    """Return for how many minutes a soak runs."""
    return float(os.environ.get("HOLDFAST_SOAK") or SOAK_MINUTES)


def seed(fixed: int) -> int:
    """Return the seed of a short run, or a new one in a long run, and print it: pytest shows what a failed test has printed."""
    told = os.environ.get("HOLDFAST_SEED")
    chosen = int(told) if told else random.SystemRandom().randrange(SEEDS) if IS_LONG else fixed
    print(f"seed {chosen}; to replay: {'HOLDFAST_TEST=long ' if IS_LONG else ''}HOLDFAST_SEED={chosen}")
    return chosen
