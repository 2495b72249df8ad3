"""What a relay logs is in `_LOG` of its server, within bounds, and holds nothing up (B19)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

import pytest

import holdfast
from holdfast.client.administration import LogLine
from holdfast.errors import BadSetting
from holdfast.relay.log_forwarder import BUFFER_MAX, LogForwarder
from tests.contract.places import CuttingProxy
from tests.relay_process import RelayProcess
from tests.running_server import running
from tests.scenario.test_relay_command import definition
from tests.server_process import ServerProcess
from tests.waiting import until


async def test_what_a_relay_logs_is_received_from_the_log_of_its_server(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        head, berlin = (stack.enter_context(ServerProcess(tmp_path / name)) for name in ("head", "berlin"))
        async with (
            holdfast.connect(berlin.url) as client,
            client.topic("_LOG").subscribe(selector="program = 'relay berlin'") as incoming,
        ):
            changed = definition(head.url, berlin.url).replace('queue = "orders"', 'topic = "orders"')
            stack.enter_context(RelayProcess(tmp_path / "relay.toml", changed))

            event = await incoming.next(timeout=30)

            assert "route orders draws nothing: nobody receives here" in event.data
            assert event.properties == {
                "level": "INFO", "logger": "holdfast.relay", "node": "holdfast", "program": "relay berlin"
            }  # fmt: skip


async def test_lines_wait_while_the_server_is_away_up_to_a_bound_and_the_newest_are_kept(tmp_path: Path) -> None:
    log = logging.getLogger("holdfast.relay")
    async with (
        running(tmp_path / "data") as server,
        holdfast.connect(server.url) as reader,
        reader.topic("_LOG").subscribe(selector="program = 'relay x'") as incoming,
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url, timeout=0.5) as client,
    ):
        forwarder = LogForwarder(client, "relay x")
        running_it = asyncio.create_task(forwarder.run())
        await until(lambda: forwarder in log.handlers, "it listens")
        proxy.is_refusing = True
        proxy.cut()
        for number in range(BUFFER_MAX + 700):
            log.warning("line %d", number)
        assert forwarder.dropped == 700
        proxy.is_refusing = False

        first = await incoming.next(timeout=30)
        second = await incoming.next(timeout=30)

        assert first.data == "700 lines of the log were dropped: they came faster than they could be sent"
        assert second.data == "line 700"
        running_it.cancel()
        await asyncio.gather(running_it, return_exceptions=True)
        assert forwarder not in log.handlers


async def test_a_line_of_a_level_of_its_own_has_the_level_below_it() -> None:
    log = logging.getLogger("holdfast.relay")
    async with holdfast.connect("memory:shared") as client, client.topic("_LOG").subscribe(selector="program = 'x'") as incoming:
        forwarder = LogForwarder(client, "x")
        running_it = asyncio.create_task(forwarder.run())
        await until(lambda: forwarder in log.handlers, "it listens")

        log.log(logging.WARNING + 5, "loud")

        assert (await incoming.next(timeout=30)).properties["level"] == "WARNING"
        running_it.cancel()
        await asyncio.gather(running_it, return_exceptions=True)


async def test_lines_of_a_program_push_out_nothing_that_the_server_logs() -> None:
    async with holdfast.connect("memory:") as client:
        lines = [LogLine("INFO", "holdfast.relay", f"line {number}", 1_700_000_000_000_000) for number in range(100)]
        assert not await client.log_lines("relay x", lines), "nobody subscribes: they are dropped"
        async with client.topic("_LOG").subscribe() as incoming:
            for number in range(400):
                logging.getLogger("holdfast.server").warning("own %d", number)
            assert all(await asyncio.gather(*(client.log_lines("relay x", lines) for _ in range(10))))
            found: list[str] = []
            while len(found) < 400:
                event = await incoming.next(timeout=10)
                if event.properties["logger"] == "holdfast.server":
                    found.append(event.data)
            assert found == [f"own {number}" for number in range(400)]


async def test_too_many_lines_at_once_and_levels_that_are_none_are_refused() -> None:
    line = LogLine("INFO", "holdfast.relay", "x", 1)
    async with holdfast.connect("memory:") as client:
        with pytest.raises(BadSetting):
            await client.log_lines("relay x", [line] * 129)
        with pytest.raises(BadSetting):
            await client.log_lines("relay x", [line._replace(level="LOUD")])
        with pytest.raises(BadSetting):
            await client.log_lines("", [line])
