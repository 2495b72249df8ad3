"""A client on the machine of its server goes on over the server's local socket, unless something is between, or a login."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import holdfast
from holdfast.node.login import users_file
from holdfast.node.login.passwords import hashed
from holdfast.node.login.security import Security
from holdfast.node.server import Server
from holdfast.node.settings import NodeSettings
from tests.contract.places import CuttingProxy
from tests.running_server import SMALL
from tests.waiting import until

SETTINGS = NodeSettings(journal=SMALL, session_grace_ms=120_000)


@asynccontextmanager
async def serving(data: Path, port: int = 0, security: Security | None = None) -> AsyncIterator[Server]:
    server = await Server.open(SETTINGS, data, "127.0.0.1", port, security=security)
    try:
        yield server
    finally:
        await server.close()


def url_of(server: Server) -> str:
    return f"holdfast://127.0.0.1:{server.port}"


def peer_of(client: holdfast.Client) -> str:
    assert client._connection is not None
    link = client._connection._keeper.link
    assert link is not None
    return link.peer


async def test_a_client_of_this_machine_sends_and_receives_over_the_local_socket(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as server, holdfast.connect(url_of(server)) as client:
        assert peer_of(client) == "this machine, by a local socket"
        await until(lambda: server.node.clients.open_links == 1, "the link of the greeting is gone")

        await client.queue("orders").send({"number": 1})
        async with client.queue("orders").receive() as incoming:
            event = await incoming.next(timeout=10)
            await event.confirm()

    assert event.data == {"number": 1}


async def test_a_client_behind_a_proxy_stays_at_the_proxy(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as server, CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client:
        await client.queue("orders").send(1)

        assert peer_of(client) == f"127.0.0.1:{proxy.url.rpartition(':')[2]}"


async def test_a_client_that_logs_in_stays_where_it_has_logged_in(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    users_file.add(users, "ann", hashed("secret"))
    async with (
        serving(tmp_path / "data", security=Security(users=users)) as server,
        holdfast.connect(url_of(server).replace("//", "//ann:secret@")) as client,
    ):
        assert peer_of(client) == f"127.0.0.1:{server.port}"


async def test_a_client_whose_server_was_started_again_finds_its_new_local_socket(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as server:
        port, former = server.port, server.node.clients.local
        client = await holdfast.connect(url_of(server)).open()
    async with serving(tmp_path / "data", port) as server:
        await client.queue("orders").send(1, timeout=20)

        assert server.node.clients.local != former
        assert peer_of(client) == "this machine, by a local socket"
        await client.close()
