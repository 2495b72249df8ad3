"""A bank with several servers, for tests of continuity: engine and listeners in this process, each bank in one of its own."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import holdfast
from holdfast.continuity import register
from holdfast.continuity.domain import Domain
from holdfast.continuity.engine.engine import Engine
from holdfast.continuity.listener.listener import Listener
from tests.bank_process import BankProcess
from tests.listening import running
from tests.waiting import until

_numbers = itertools.count()


class Branch:
    """A domain with banks: the engine, and a listener with each bank."""

    def __init__(self, url: str, folder: Path, engine: Engine, stack: AsyncExitStack) -> None:
        self.url, self.folder, self.engine = url, folder, engine
        self.banks: dict[str, BankProcess] = {}
        self.listeners: dict[str, Listener] = {}
        self._stack = stack
        self.deposits = 0

    async def add(self, name: str, *bank_options: str, **options: Any) -> BankProcess:
        """Start a bank and its listener, and wait until it is current."""
        self.banks[name] = bank = self._stack.enter_context(BankProcess(self.folder, name, *bank_options))
        await self.listen(name, **options)
        return bank

    async def listen(self, name: str, **options: Any) -> None:
        bank = self.banks[name]
        options = {"reset": bank.reset} | options
        listener = Listener(self.url, "bank", name, call=bank.url, store=self.folder / f"store-{name}", **options)
        self.listeners[name] = await self._stack.enter_async_context(running(listener))
        await self.until_current(name)

    async def until_current(self, *names: str) -> None:
        for name in names:
            await until(lambda name=name: self._is_current(name), f"{name} is current")  # type: ignore[misc]

    def _is_current(self, name: str) -> bool:
        """It says so, and the engine has heard it."""
        seen = self.engine.servers.get(name)
        return self.listeners[name].state_now == "current" and seen is not None and seen.state.state == "current"

    def member(self, name: str, seen_by: str) -> str:
        members = self.listeners[seen_by].membership.members
        return members[name].state if name in members else "gone"

    def snapshot(self, name: str, seen_by: str) -> int:
        """The place of the oldest snapshot that a server keeps."""
        return self.listeners[seen_by].membership.members[name].snapshot

    async def deposit(self, count: int) -> list[int]:
        """Deposit 1 so many times, in ten accounts; the balances that were answered."""
        balances = []
        for _ in range(count):
            self.deposits += 1
            answer = await self.engine.request("POST", f"/accounts/n{self.deposits % 10}/deposit", [], b'{"amount": 1}')
            assert answer.head.status == 200
            balances.append(json.loads(answer.body)["balance"])
        return balances

    async def until_equal(self) -> None:
        """All banks have the same accounts."""
        await until(lambda: len({bank.digest() for bank in self.banks.values()}) == 1, "all banks are equal", poll_s=0.1)

    async def say(self, kind: str, name: str) -> None:
        async with holdfast.connect(self.url) as client:
            await register.change_member(client, "bank", kind, name)


@asynccontextmanager
async def branch(folder: Path, **settings: Any) -> AsyncIterator[Branch]:
    url = f"memory:branch-{next(_numbers)}"
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(holdfast.connect(url))
        await register.create(client, Domain(name="bank", call_timeout=2.0, **settings))
        engine = await stack.enter_async_context(Engine(url, "bank"))
        yield Branch(url, folder, engine, stack)
