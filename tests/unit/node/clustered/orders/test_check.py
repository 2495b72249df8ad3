"""The check of copies: equal ones are told so, one that differs is named, and opened anew."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.destination.applying import managing
from holdfast.destination.command import Create
from holdfast.node.clustered import member as member_module
from holdfast.node.clustered.orders import check as check_module
from tests.members import Cluster, clustered
from tests.waiting import until


async def _checked(cluster: Cluster, node: str) -> dict[str, Any]:
    asked = cluster.nodes[node]
    (manager,) = (await asked.checks.order(asked.calls))["managers"]
    return dict(manager)


async def _until_all_follow(cluster: Cluster) -> None:
    await cluster.until_primary("a")
    await cluster.until_equal()


def _tamper(cluster: Cluster, node: str) -> None:
    """Give the copy of a node a queue that no entry made, as a fault of memory or of the program would."""
    manager = cluster.nodes[node].member.manager
    assert manager is not None
    managing.create(manager.directory, manager.applied, Create("invented", "queue"), memoryview(b""), [])


async def test_copies_that_are_equal_are_told_so_whichever_node_is_asked() -> None:
    async with clustered("a", "b", "c") as cluster:
        await _until_all_follow(cluster)
        await cluster.send(1)
        for node in "abc":
            told = await _checked(cluster, node)

            assert (told["primary"], told["differing"], told["silent"], told["problem"]) == ("a", [], [], "")
            assert told["entry"] == cluster.channel.durable
            assert [each["is_equal"] for each in told["copies"]] == [True] * 3
            assert len({each["digest"] for each in told["copies"]}) == 1


async def test_a_backup_that_differs_is_named_and_opened_anew_and_is_equal_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(member_module, "OPEN_AGAIN_S", 0.01)
    async with clustered("a", "b", "c") as cluster:
        await _until_all_follow(cluster)
        _tamper(cluster, "b")
        wrong = cluster.nodes["b"].member.manager

        told = await _checked(cluster, "c")
        assert (told["differing"], told["silent"]) == (["b"], [])
        assert [each["is_opened_anew"] for each in told["copies"]] == [False, True, False]
        assert any(
            each.levelname == "ERROR" and "at node b differs from its primary at entry" in each.message for each in caplog.records
        )

        await until(lambda: cluster.nodes["b"].member.manager not in (None, wrong), "it is opened anew")
        await cluster.until_equal()
        assert (await _checked(cluster, "c"))["differing"] == []
        assert cluster.primaries() == ["a"]


async def test_a_backup_that_differs_does_not_lead_before_it_is_opened_anew() -> None:
    async with clustered("a", "b") as cluster:
        await _until_all_follow(cluster)
        _tamper(cluster, "b")
        wrong = cluster.nodes["b"].member.manager
        assert (await _checked(cluster, "a"))["differing"] == ["b"]
        await cluster.stop("a")

        await cluster.until_primary("b")
        leading = cluster.nodes["b"].member.manager
        assert leading is not wrong
        assert leading is not None and ("invented", "") not in leading.directory.catalog.queues


async def test_a_primary_that_differs_from_most_is_named_and_leads_on_until_an_operator_decides(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with clustered("a", "b", "c") as cluster:
        await _until_all_follow(cluster)
        _tamper(cluster, "a")
        copies = [node.member.manager for node in cluster.nodes.values()]

        told = await _checked(cluster, "b")
        assert (told["primary"], told["differing"]) == ("a", ["a"])
        assert [each["is_opened_anew"] for each in told["copies"]] == [False] * 3
        assert "its primary a differs from most copies" in caplog.text
        assert [node.member.manager for node in cluster.nodes.values()] == copies


async def test_a_copy_that_does_not_answer_in_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "ANSWER_S", 0.2)
    async with clustered("a", "b", "c") as cluster:
        await _until_all_follow(cluster)
        cluster.nodes["c"].bus.is_cut = True

        told = await _checked(cluster, "b")
        assert (told["differing"], told["silent"]) == ([], ["c"])
        assert [each["is_equal"] for each in told["copies"]] == [True, True, None]


async def test_a_channel_that_takes_nothing_is_told_and_no_copy_is_judged() -> None:
    async with clustered("a", "b") as cluster:
        await _until_all_follow(cluster)
        await cluster.channel.close()

        told = await _checked(cluster, "a")
        assert (told["entry"], told["differing"], told["silent"]) == (None, [], ["a", "b"])
        assert told["problem"]


async def test_a_copy_that_had_the_entry_in_its_snapshot_or_is_right_is_not_opened_anew() -> None:
    async with clustered("a", "b") as cluster:
        await _until_all_follow(cluster)
        told = await _checked(cluster, "a")
        right = told["copies"][0]["digest"]
        backup = cluster.nodes["b"]
        copy = backup.member.manager

        assert not await backup.checks.serve_open_anew({"manager": "orders", "entry": told["entry"], "digest": right})
        assert not await backup.checks.serve_open_anew({"manager": "orders", "entry": 1, "digest": "another"})
        leading = cluster.nodes["a"]
        assert not await leading.checks.serve_open_anew({"manager": "orders", "entry": told["entry"], "digest": "another"})
        assert backup.member.manager is copy and cluster.primaries() == ["a"]
