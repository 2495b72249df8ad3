"""A subscription past a limit of its terms goes, whatever happens meanwhile: nobody who sends is held back by it (B12)."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast.errors import SubscriptionRemoved
from tests.contract.places import CuttingProxy
from tests.running_server import PATIENT, SETTINGS, running
from tests.server_process import ServerProcess
from tests.waiting import until


async def names(client: holdfast.Client, topic: str) -> list[str]:
    return [row["name"] for row in await client.subscriptions(topic)]


async def test_the_log_tells_which_was_removed_with_how_many_events_and_why(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "data", PATIENT) as server,
        holdfast.connect(server.url) as client,
        client.subscribe("_LOG", selector="logger = 'holdfast.flow'") as log,
    ):
        await client.create_topic("news")
        await client.create_subscription("news", "slow", remove_after_events=2)
        await client.topic("news").send_many(range(3))

        told = (await log.next(timeout=20)).data

    assert told == "subscription 'slow' of 'news' was removed with the 3 events that waited in it: 3 events wait, and 2 may"


async def test_the_space_that_it_alone_held_comes_back_and_sending_goes_on(tmp_path: Path) -> None:
    """Twice what the journal has room for is sent, while a recipient is away for good."""
    total = 2 * (SETTINGS.journal.size_bytes if SETTINGS.journal is not None else 0)
    async with running(tmp_path / "data", SETTINGS) as server, holdfast.connect(server.url, timeout=30) as client:
        await client.create_topic("news")
        for _ in range(total // 50_000):
            if await names(client, "news") == []:
                await client.create_subscription("news", "away", remove_after_bytes=300_000)
            await client.topic("news").send(b"x" * 50_000)


async def test_a_restarted_server_finds_what_has_waited_too_long_while_it_was_away(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with holdfast.connect(server.url, timeout=20) as client:
            await client.create_topic("news")
            await client.create_subscription("news", "aging", remove_after=1)
            await client.create_subscription("news", "audit")
            await client.topic("news").send(1)
            server.kill()
            server.start()

            await until(lambda: is_left(client, ["audit"]), "the subscription is gone")


async def is_left(client: holdfast.Client, left: list[str]) -> bool:
    return await names(client, "news") == left


@pytest.mark.parametrize("settings", [PATIENT, SETTINGS], ids=["within its grace", "after its session was given up"])
async def test_a_receiver_that_was_cut_off_hears_when_it_comes_back_that_its_subscription_was_removed(
    tmp_path: Path, settings: holdfast.node.settings.NodeSettings
) -> None:
    async with (
        running(tmp_path / "data", settings) as server,
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url, timeout=30) as away,
        holdfast.connect(server.url) as client,
    ):
        incoming = await away.subscribe("news", "slow", remove_after_events=2).open()
        proxy.is_refusing = True
        proxy.cut()
        await until(
            lambda: (
                len([each for each in server.node.clients.sessions.values() if each.away_since_ms is None]) == 1
                and (settings is PATIENT or len(server.node.messages.directory.sessions()) == 1)
            ),
            "the server knows that the link is lost, or has given the session up",
        )
        await client.topic("news").send_many(range(3))
        await until(lambda: is_left(client, []), "the subscription is gone")
        proxy.is_refusing = False

        with pytest.raises(SubscriptionRemoved):
            await incoming.next(timeout=20)
        await incoming.close()


async def test_a_subscription_read_by_place_goes_past_its_limit_like_any_other(tmp_path: Path) -> None:
    async with running(tmp_path / "data", PATIENT) as server, holdfast.connect(server.url) as client:
        await client.ensure_subscription("news", "lake", remove_after_events=2)
        reading = client.reading("news", "lake")
        async with reading.owner():
            await client.topic("news").send_many(range(3))
            await until(lambda: is_left(client, []), "the subscription is gone")
