"""The program of a set of rules: `holdfast actions rules.toml`, or in Python

    async with Actions("holdfast://localhost", [rule, …], name="alerting") as actions:
        await actions.run()

It arranges subscriptions and queues, then reads sources and does actions until it is told to stop. When the link to the server
fails for good, or nobody knows whether a commit happened, it begins anew from what is durable: nothing is missed, and nothing
told twice. New rules are taken while it runs (`change`), as a whole or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets as dice
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.actions.errors import BadRules, Mistake
from holdfast.actions.kinds.action import Surroundings
from holdfast.actions.machines.sharing import Table
from holdfast.actions.names import Names
from holdfast.actions.rule import Rule
from holdfast.actions.rules_file import RuleSet, load
from holdfast.actions.running.action_runner import ActionRunner
from holdfast.actions.running.arrangement import Arrangement
from holdfast.actions.running.source_reader import ReadRule, SourceReader
from holdfast.actions.running.ticker import Ticker
from holdfast.actions.secrets import RedactingFilter, Secrets
from holdfast.client.client import Client
from holdfast.errors import Closed, Damaged, HoldfastError, Refused

log = logging.getLogger("holdfast.actions")

# After a failure: the first and the longest pause before it begins anew.
PAUSE_S, PAUSE_S_MAX = 0.5, 30.0
# Loggers whose lines may have secrets: our own, and that of the library which posts for `notify`.
TELLING = ("holdfast.actions", "urllib3.connectionpool")
# How often the rules file is looked at.
LOOK_S = 1.0


class Actions:
    """The rules of one name at one server. One program has them at a time: a second one waits, then is refused."""

    def __init__(
        self,
        url: str | None = None,
        rules: Iterable[Rule] = (),
        *,
        name: str = "rules",
        metrics: str = "",
        rule_set: RuleSet | None = None,
        timeout: float | None = None,
    ) -> None:
        """`rules` of a program, or `rule_set` from a file. `metrics`: where counters are shown, HOST:PORT."""
        if rule_set is None:
            own = {rule.name: rule.checked for rule in rules}
            rule_set = RuleSet(name=name, metrics=metrics, rules=own, secrets=Secrets(), folder=Path())
        self._url, self._timeout = rule_set.url or url, timeout
        self._rule_set = rule_set
        self.names = Names(rule_set.name)
        self._surroundings = Surroundings(rule_set.name, rule_set.folder, rule_set.secrets)
        self._surroundings.metrics = rule_set.metrics
        self._redacting = RedactingFilter(rule_set.secrets)
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._wanted: RuleSet | None = None
        self._client: Client | None = None
        self._life: _Life | None = None
        self.ready = asyncio.Event()  # rules are at work; cleared while they change

    async def open(self) -> Self:
        """Connect, and arrange for the rules. SubscriptionInUse while another program has rules of this name."""
        for name in TELLING:
            logging.getLogger(name).addFilter(self._redacting)
        await self._begin()
        return self

    async def _begin(self) -> None:
        """Begin a life. The client has another name each time: ticks of former lives are known by it."""
        client = Client(self._url, name=f"actions/{self.names.program}/{dice.token_hex(4)}", timeout=self._timeout)
        await client.open()
        try:
            arrangement = Arrangement(client, self.names)
            await arrangement.open()
            self._life = await _Life.begin(client, self.names, arrangement, self._rule_set, self._surroundings)
        except BaseException:
            with contextlib.suppress(HoldfastError):
                await client.close()
            raise
        self._client = client
        self.ready.set()

    async def run(self) -> None:
        """Work until `stop`. Failures that may pass are logged, and it begins anew."""
        pause_s = PAUSE_S
        while not self._is_stopping:
            try:
                if self._life is None:
                    await self._begin()
                assert self._life is not None
                await self._life.until(self._wake)
                pause_s = PAUSE_S
                await self._take_wanted()
            except Damaged:
                raise
            except HoldfastError as problem:
                log.warning("rules %s begin anew in %g s: %s", self.names.program, pause_s, problem)
                await self._end()
                await self._pause(pause_s)
                pause_s = min(pause_s * 2, PAUSE_S_MAX)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def _take_wanted(self) -> None:
        """Take new rules, if there are some: the old ones finish what they have begun."""
        self._wake.clear()
        wanted, self._wanted = self._wanted, None
        if wanted is None or self._life is None:
            return
        self.ready.clear()
        await self._life.end()
        arrangement, self._life = self._life.arrangement, None
        former = self._rule_set
        try:
            await self._take(wanted, arrangement)
        except Refused as problem:
            log.error("the server refused the new rules, those from before are at work again: %s", problem)
            await self._take(former, arrangement)
        else:
            log.info("the rules of %s are at work now: %s", self.names.program, ", ".join(sorted(wanted.rules)))
        self.ready.set()

    async def _take(self, rule_set: RuleSet, arrangement: Arrangement) -> None:
        """Begin with these rules."""
        self._rule_set = rule_set
        self._surroundings.folder, self._surroundings.secrets = rule_set.folder, rule_set.secrets
        self._redacting.secrets = rule_set.secrets
        if not self._surroundings.is_sharing:  # what is shown already stays where it is until the program ends
            self._surroundings.metrics = rule_set.metrics
        assert self._client is not None
        self._life = await _Life.begin(self._client, self.names, arrangement, rule_set, self._surroundings)

    def change(self, rule_set: RuleSet) -> None:
        """Take these rules from now on. BadRules if they are of another name: that is another program."""
        if rule_set.name != self.names.program:
            sentence = f"rules {rule_set.name!r} are others than {self.names.program!r}; run them as a program of their own"
            raise BadRules("the new rules", [Mistake(("name",), sentence)])
        self._wanted = rule_set
        self._wake.set()

    def stop(self) -> None:
        self._is_stopping = True
        self._wake.set()

    @property
    def table(self) -> Table:
        """Which rules are at work, and what they read from."""
        if self._life is None:
            raise Closed("the rules are not at work")
        return self._life.table

    async def _end(self) -> None:
        """End this life. What is durable stays."""
        self.ready.clear()
        life, self._life = self._life, None
        client, self._client = self._client, None
        with contextlib.suppress(HoldfastError):
            if life is not None:
                await life.end()
        with contextlib.suppress(HoldfastError):
            if client is not None:
                await client.close()

    async def close(self) -> None:
        await self._end()
        for name in TELLING:
            logging.getLogger(name).removeFilter(self._redacting)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # --- the rules file ----------------------------------------------------------------------------------------------

    def reload(self, file: Path) -> bool:
        """Read the rules again, and take them. If they are wrong, all of them are refused, and the old ones stay."""
        try:
            self.change(load(file))
        except BadRules as problem:
            log.error("the rules were not reloaded, those from before stay at work: %s", problem)
            return False
        return True

    async def watch(self, file: Path) -> None:
        """Reload the rules whenever their file changes."""
        known = _look(file)
        while True:
            await asyncio.sleep(LOOK_S)
            found = _look(file)
            if found != known and found is not None:
                known = found
                self.reload(file)


def _look(file: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class _Life:
    """Readers, runners and ticker, from one arrangement of rules to the next."""

    def __init__(self, arrangement: Arrangement, table: Table) -> None:
        self.arrangement, self.table = arrangement, table
        self._readers: list[SourceReader] = []
        self._runners: list[ActionRunner] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def begin(
        cls, client: Client, names: Names, arrangement: Arrangement, rule_set: RuleSet, surroundings: Surroundings
    ) -> _Life:
        rules = rule_set.rules
        table = await arrangement.change_to(rules)
        life, ticker = cls(arrangement, table), Ticker(client, names)
        try:
            for name, source in table.sources.items():
                own = [
                    ReadRule(rules[rule], placed, 0, is_leaving=False)
                    for rule, placed in table.rules.items()
                    if placed.source == name
                ]
                life._readers.append(
                    SourceReader(client, names, source, own, ticker.heard, partial(surroundings.figures.add, "alerts"))
                )
            for rule in rules.values():
                for action in rule.actions:
                    queue = names.action(rule.name, action.name)
                    life._runners.append(ActionRunner(client, queue, rule, action, surroundings))
            for part in life._parts():
                await part.open()
        except BaseException:
            await life.end()
            raise
        life._start(ticker)
        return life

    def _parts(self) -> list[SourceReader | ActionRunner]:
        return [*self._runners, *self._readers]

    def _start(self, ticker: Ticker) -> None:
        works = [*(each.run() for each in self._readers), *(each.run() for each in self._runners), ticker.run(self._readers)]
        self._tasks = {asyncio.ensure_future(work) for work in works}

    async def until(self, wake: asyncio.Event) -> None:
        """Wait for this event. Raises what ended one of the parts."""
        waking = asyncio.ensure_future(wake.wait())
        try:
            await asyncio.wait({*self._tasks, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def end(self) -> None:
        """Finish what was begun, and close everything."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled() and task.exception() is not None:
                log.debug("a part ended with %r", task.exception())
        for part in self._parts():
            with contextlib.suppress(HoldfastError):
                await part.close()
