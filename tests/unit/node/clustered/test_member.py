"""Members of one message manager on several nodes: one is primary, a silent one is followed by the next, all are equal."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from holdfast.errors import Damaged
from holdfast.node.clustered import member as member_module
from holdfast.node.messages.message_manager import MessageManager
from holdfast.node.messages.start import Backup
from tests.members import MANAGER, clustered, now_ms
from tests.waiting import PATIENCE_S, until


async def test_the_first_in_rank_is_primary_and_the_others_follow_it() -> None:
    async with clustered("a", "b", "c") as cluster:
        await cluster.until_primary("a")
        await cluster.send(1)
        await cluster.until_equal()

        assert [cluster.nodes[name].member.takeovers for name in "abc"] == [1, 0, 0]
        state = cluster.nodes["b"].member.state()
        assert state is not None and (state.manager, state.epoch, state.is_primary) == (MANAGER, 1, False)


async def test_when_the_primary_dies_the_next_in_rank_takes_over() -> None:
    async with clustered("a", "b", "c") as cluster:
        await cluster.until_primary("a")
        await cluster.send(1)
        await cluster.stop("a")
        await cluster.until_primary("b")
        await cluster.stop("b")
        await cluster.until_primary("c")
        await cluster.send(2)
        await cluster.until_equal()


async def test_a_primary_that_was_cut_off_steps_down_and_becomes_a_backup() -> None:
    async with clustered("a", "b") as cluster:
        await cluster.until_primary("a")
        former = cluster.nodes["a"].member.manager
        cluster.nodes["a"].bus.is_cut = True
        await cluster.until_primary("b")
        await cluster.send(1)
        await until(lambda: cluster.nodes["a"].member.manager not in (None, former), "it is opened anew")

        cluster.nodes["a"].bus.is_cut = False
        await cluster.until_equal()
        await until(lambda: cluster.nodes["b"].member.candidate.wrongly_suspected == 1, "b learns that a was alive")
        assert cluster.primaries() == ["b"]
        assert cluster.nodes["b"].member.candidate.silence_ms == 1_000


async def test_a_backup_that_is_cut_off_suspects_nobody() -> None:
    async with clustered("a", "b", "c") as cluster:
        await cluster.until_primary("a")
        cluster.nodes["b"].bus.is_cut = True
        cluster.nodes["c"].heart.stop()  # so silent that it would be suspected, were it the primary
        await until(lambda: cluster.nodes["a"].heart.liveness.is_silent("b2", now_ms()), "a finds b silent")
        assert cluster.primaries() == ["a"]
        assert cluster.nodes["b"].heart.liveness.alive(now_ms()) == []


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_all_are_stopped_and_started_in_any_order(order: str) -> None:
    async with clustered("a", "b") as cluster:
        await cluster.until_primary("a")
        await cluster.send(1)
        await cluster.stop("a", "b")

        cluster.start(*order)
        await until(lambda: len(cluster.primaries()) == 1, "there is a primary again")
        await cluster.send(2)
        await cluster.until_equal()
        assert len(cluster.primaries()) == 1


async def test_a_copy_whose_channel_is_away_is_opened_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_module, "OPEN_AGAIN_S", 0.01)
    async with clustered() as cluster:
        cluster.is_away = True
        cluster.start("a")
        await until(lambda: cluster.nodes["a"].heart.liveness.alive(now_ms()) == ["a1"], "its heart beats")
        assert cluster.nodes["a"].member.state() is None

        cluster.is_away = False
        await cluster.until_primary("a")


async def test_a_deposed_primary_that_reads_its_own_claim_again_does_not_lead_by_it() -> None:
    async with clustered("a", "b") as cluster:
        await cluster.until_primary("a")
        deposed, other = cluster.nodes["a"].member.manager, cluster.nodes["b"].member.manager
        assert other is not None
        await other.take_over()
        await until(lambda: cluster.nodes["a"].member.manager not in (None, deposed), "it is opened anew")
        await cluster.until_equal()
        assert (cluster.nodes["a"].led, cluster.primaries()) == ([1], ["b"])

        await cluster.stop("b")
        await cluster.until_primary("a")
        assert cluster.nodes["a"].led == [1, 3]


async def test_a_deposed_primary_ends_also_when_it_is_stopped_while_it_is_thrown_away() -> None:
    async with clustered("a", "b") as cluster:
        await cluster.until_primary("a")
        is_resigning, other = asyncio.Event(), cluster.nodes["b"].member.manager

        async def resign() -> None:
            """As parts of a primary are stopped: each ends its own task, and takes any cancellation for the one of that task."""
            is_resigning.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

        cluster.nodes["a"].member._resign = resign
        assert other is not None
        await other.take_over()
        await is_resigning.wait()

        async with asyncio.timeout(PATIENCE_S):
            await cluster.stop("a")


async def test_a_primary_that_cannot_follow_is_opened_anew_and_somebody_leads_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_module, "OPEN_AGAIN_S", 0.01)
    async with clustered("a", "b") as cluster:
        await cluster.until_primary("a")
        leading = cluster.nodes["a"].member.manager
        assert leading is not None
        leading.give_up(Damaged("an entry could not be read"))
        await until(lambda: cluster.nodes["a"].member.manager not in (None, leading), "it is opened anew")

        await until(lambda: len(cluster.primaries()) == 1, "there is a primary")
        await cluster.send(1)
        await cluster.until_equal()


async def test_a_copy_that_was_opened_while_its_member_was_stopped_is_not_followed() -> None:
    async with clustered("a", "b") as cluster:
        await cluster.until_primary("a")
        member, other = cluster.nodes["a"].member, cluster.nodes["b"].member.manager
        is_opening, opened, open_copy = asyncio.Event(), [], member._open

        async def open_late(whose: Backup) -> MessageManager:
            """As a request to NATS whose answer is there at that moment: it returns the answer, and the cancellation is lost."""
            is_opening.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            opened.append(await open_copy(whose))
            return opened[0]

        member._open = open_late
        assert other is not None
        await other.take_over()
        await is_opening.wait()

        async with asyncio.timeout(PATIENCE_S):
            await cluster.stop("a")
        async with asyncio.timeout(PATIENCE_S):
            await opened[0].ended()
