"""A server that is watched: its HTTP endpoint, as a test asks it, and its metrics, as Prometheus would read them."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from holdfast.http.endpoint import Endpoint
from tests.running_cluster import RunningNode
from tests.running_server import RunningServer


class Told(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str


def ask(port: int, path: str, token: str = "", method: str = "GET", tls: ssl.SSLContext | None = None) -> Told:
    made = http.client.HTTPSConnection("127.0.0.1", port, context=tls) if tls else http.client.HTTPConnection("127.0.0.1", port)
    try:
        made.request(method, path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = made.getresponse()
        return Told(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode())
    finally:
        made.close()


class Watched:
    def __init__(self, endpoint: Endpoint) -> None:
        self.port = endpoint.port

    async def ask(self, path: str, token: str = "", method: str = "GET") -> Told:
        return await asyncio.to_thread(ask, self.port, path, token, method)

    async def value(self, name: str, **labels: str) -> float | None:
        return value_in((await self.ask("/metrics")).body, name, **labels)


def value_in(text: str, name: str, **labels: str) -> float | None:
    """The value of one series; None where there is none."""
    found = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    assert len(found) <= 1
    return found[0] if found else None


@asynccontextmanager
async def watched(server: RunningServer | RunningNode, data: Path, token: str | None = None) -> AsyncIterator[Watched]:
    endpoint = await Endpoint.open(server.node, data, "127.0.0.1", 0, token, None, "1.2.3")
    try:
        yield Watched(endpoint)
    finally:
        await endpoint.close()
