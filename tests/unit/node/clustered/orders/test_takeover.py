"""The planned takeover: a primary resigns, and leads until its successor does."""

from __future__ import annotations

import pytest

from holdfast.errors import Unavailable
from tests.members import MANAGER, Cluster, clustered, now_ms
from tests.waiting import until


async def _all_heard(cluster: Cluster) -> None:
    """Every node has heard of the copies of all others, in the newest epoch."""

    def is_known() -> bool:
        found = [node.roster.standings(MANAGER, now_ms()) for node in cluster.nodes.values()]
        return all({each.epoch for each in known.values()} == {1} and set(known) == set(cluster.nodes) for known in found)

    await until(is_known, "all nodes have heard of each other")


async def test_a_primary_that_resigns_leads_until_the_first_by_rank_does_and_nobody_is_suspected() -> None:
    async with clustered("a", "b", "c") as cluster:
        await cluster.until_primary("a")
        await _all_heard(cluster)
        await cluster.nodes["a"].takeovers.resign(MANAGER)

        await cluster.until_primary("b")
        await cluster.send(1)
        await cluster.until_equal()
        members = [node.member for node in cluster.nodes.values()]
        assert [each.takeovers for each in members] == [1, 1, 0]
        assert [each.candidate.wrongly_suspected for each in members] == [0, 0, 0]


async def test_a_primary_resigns_to_the_node_that_is_wanted_and_back() -> None:
    async with clustered("a", "b", "c") as cluster:
        await cluster.until_primary("a")
        await _all_heard(cluster)
        await cluster.nodes["a"].takeovers.resign(MANAGER, "c")
        await cluster.until_primary("c")

        await until(lambda: cluster.nodes["a"].member.state() is not None, "a is opened anew")
        await until(
            lambda: {each.epoch for each in cluster.nodes["c"].roster.standings(MANAGER, now_ms()).values()} == {2},
            "c has heard that all have followed",
        )
        await cluster.nodes["c"].takeovers.resign(MANAGER, "a")
        await cluster.until_primary("a")


async def test_a_primary_whose_successor_does_not_claim_goes_on_and_invites_the_next() -> None:
    async with clustered("a", "b", "c") as cluster:
        await cluster.until_primary("a")
        await _all_heard(cluster)
        cluster.nodes["b"].bus.is_cut = True  # a has heard it a moment ago, and it does not hear a

        await cluster.nodes["a"].takeovers.resign(MANAGER)
        await cluster.until_primary("c")


async def test_a_primary_that_nobody_can_follow_says_why_and_goes_on() -> None:
    async with clustered("a", "b") as cluster:
        await cluster.until_primary("a")
        await _all_heard(cluster)
        cluster.nodes["b"].heart.is_drained = True
        cluster.nodes["b"].heart.tell()
        await until(lambda: cluster.nodes["a"].roster.standings(MANAGER, now_ms())["b"].is_drained, "a has heard it")

        with pytest.raises(Unavailable, match="b is drained"):
            await cluster.nodes["a"].takeovers.resign(MANAGER)
        assert await cluster.nodes["a"].takeovers.resign_all() == {
            MANAGER: "nobody can take orders over from a now: b is drained. It goes on as before"
        }
        with pytest.raises(Unavailable, match="is not primary"):
            await cluster.nodes["b"].takeovers.resign(MANAGER)
        assert cluster.primaries() == ["a"]
        await cluster.send(1)
        await cluster.until_equal()
