"""Transactions over several message managers, on a simulated network, from seeds (ADR 25, B11): never half, whoever dies and
whatever is lost, doubled or late; all participants agree; and every lock is released soon after the faults end.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests import effort
from tests.simulation.transaction_cluster import Cluster

SEEDS = effort.rounds(short=60, long=4_000)
# Each has the time of a test.
GROUPS = 4
# Of the faulty time of a cluster, and of the time that it may take to end everything after that.
FAULTY_TICKS = 150
HEALED_TICKS_MAX = 60


def run(seed: int) -> Cluster:
    """A faulty time, then a healed one; the promises are checked at the end, and the state after every entry."""
    cluster = Cluster(seed)
    for _ in range(FAULTY_TICKS):
        if cluster.dice.random() < 0.5:
            cluster.happen()
        cluster.tick()
    cluster.heal(HEALED_TICKS_MAX)
    check_all_agree(cluster)
    cluster.hear_late()
    cluster.heal(HEALED_TICKS_MAX)
    check_all_agree(cluster)
    check_nothing_is_locked(cluster)
    check_no_event_is_confirmed_twice(cluster)
    return cluster


def check_all_agree(cluster: Cluster) -> None:
    for plan in cluster.plans:
        statuses = {name: cluster.managers[name].status(plan.key) for name in plan.participants}
        if "committed" in statuses.values():
            assert set(statuses.values()) == {"committed"}, (plan, statuses)
        if plan.key in cluster.decided:
            assert ("committed" in statuses.values()) == cluster.decided[plan.key], (plan, statuses)


def check_nothing_is_locked(cluster: Cluster) -> None:
    for manager in cluster.managers.values():
        assert all(backlog.locks is None for backlog in manager.directory.backlogs().values())
        assert not list(manager.directory.transactions.in_doubt())
        assert not manager.directory.transactions.waiting
        assert (manager.directory.transactions.names, manager.directory.transactions.backlogs) == ({}, {})


def check_no_event_is_confirmed_twice(cluster: Cluster) -> None:
    confirmed: Counter[tuple[str, int]] = Counter()
    for plan in cluster.plans:
        for name, settled in plan.settled.items():
            if cluster.managers[name].status(plan.key) == "committed":
                confirmed.update((name, each) for each in cluster.positions_of(settled))
    assert not [each for each, times in confirmed.items() if times > 1]


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_no_seed_leaves_a_transaction_half_done_or_a_lock_behind(group: int) -> None:
    first = effort.seed(20_261_118)
    ended: Counter[str] = Counter()
    for seed in range(first + group, first + SEEDS, GROUPS):
        try:
            cluster = run(seed)
        except AssertionError as problem:
            raise AssertionError(f"seed {seed}: {problem}") from problem
        for plan in cluster.plans:
            ended.update({cluster.managers[name].status(plan.key) for name in plan.participants})

    assert min(ended["committed"], ended["aborted"]) > SEEDS // GROUPS, f"the faults leave both outcomes frequent: {ended}"


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_gives_the_same_channels(seed: int) -> None:
    assert [each.log for each in run(seed).managers.values()] == [each.log for each in run(seed).managers.values()]
