"""An engine outlives the server of Holdfast that it is connected to."""

from __future__ import annotations

from pathlib import Path

import holdfast
from holdfast.continuity import register, request
from holdfast.continuity.domain import Domain
from holdfast.continuity.engine.engine import Engine
from tests.server_process import ServerProcess


async def test_an_engine_whose_session_was_given_up_registers_anew_with_a_queue_that_is_there(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--session-grace-ms", "1") as server:
        async with holdfast.connect(server.url) as client:
            await register.create(client, Domain(name="shop"))
            await client.create_subscription("domain.shop.requests", "test")
            async with Engine(server.url, "shop", name="e"):
                server.kill()
                server.start()
                async with client.subscribe("domain.shop.requests", "test") as incoming:
                    told: list[dict[str, str]] = []
                    while len(told) < 2:
                        event = await incoming.next(timeout=60)
                        told += [event.data] if event.type == request.ENGINE else []
                        await event.confirm()
                found = await client.describe(told[1]["reply_to"])

    assert told[0]["start"] == told[1]["start"] and told[0]["reply_to"] != told[1]["reply_to"]
    assert found["receivers"] <= 1
