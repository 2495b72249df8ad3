"""The power goes at every single call that a node makes to its disk while every feature is in use (A5, B11, B13, rules 3, 8, 16).

After each cut: nothing that was synced is lost; transactions are whole or not at all; a large event that was broken off is never
seen, and leaves no space behind; groups and producers keep their order; what is replayed is the state of a replica that applied
every command since the beginning; and when all is confirmed, no entry of the channel is needed.
"""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from holdfast.client.assembly import stream_sender
from holdfast.errors import HoldfastError
from holdfast.simulation.simulated_disk import PowerCut, SimulatedDisk, Survival, by_seed, everything_survives, nothing_survives
from tests import effort
from tests.simulation.features_life import FRAGMENT_BYTES, Story, check, live

SEED = 20_261_116
# Cuts of the short variant, spread over the whole life.
SAMPLES = 12


def run_until_cut(cut_at: int | None) -> tuple[SimulatedDisk, Story]:
    disk, story = SimulatedDisk(cut_at=cut_at), Story()
    try:
        asyncio.run(live(disk, story))
    except (HoldfastError, PowerCut):
        assert cut_at is not None
    return disk, story


def survive_cut(cut_at: int, survives: Survival, how: str) -> None:
    disk, story = run_until_cut(cut_at)
    try:
        asyncio.run(check(disk.after_crash(survives), story))
    except AssertionError as problem:
        raise AssertionError(f"cut at {cut_at}, {how}: {problem}") from problem


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> int:
    """How many calls to the disk a whole life makes."""
    caplog.set_level(logging.CRITICAL + 1)
    monkeypatch.setattr(stream_sender, "FRAGMENT_BYTES", FRAGMENT_BYTES)
    disk, story = run_until_cut(None)
    assert story.is_over and len(story.transfers.committed) == 3
    assert disk.calls > 100, "the life must be long enough to be worth cutting"
    asyncio.run(check(disk.after_crash(nothing_survives), story))
    return disk.calls


def test_at_some_cuts_every_feature_keeps_its_promises(whole: int) -> None:
    dice = random.Random(effort.seed(SEED))
    stride = whole // SAMPLES
    print(f"{whole} calls to the disk")
    for begin in range(0, stride * SAMPLES, stride):
        cut_at = begin + dice.randrange(stride)
        survive_cut(cut_at, by_seed(cut_at), "by seed")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("survives", [nothing_survives, everything_survives, "by seed"])
def test_at_every_cut_every_feature_keeps_its_promises(whole: int, survives: Survival | str) -> None:
    for cut_at in range(whole):
        if isinstance(survives, str):
            survive_cut(cut_at, by_seed(cut_at), survives)
        else:
            survive_cut(cut_at, survives, survives.__name__)
