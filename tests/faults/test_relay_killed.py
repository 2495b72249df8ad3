"""A9: a chain of two relays, killed and stopped in turn under load, in every pair of modes; now and then a server is killed.

    head ──▶ relay first ──▶ mid ──▶ relay second ──▶ tail

Nothing is lost, nothing is twice at the last journal, the order of each producer is kept, and at every kill upstream was told
only what the mode allows.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
from collections import defaultdict
from pathlib import Path

import pytest

import holdfast
from holdfast.client.client import Client
from holdfast.simulation.checkers.account import Account
from tests import effort
from tests.relay_process import RelayProcess
from tests.server_process import ServerProcess
from tests.waiting import until

pytestmark = pytest.mark.faults

MODES = ("receipt", "end-to-end", "each")
SHORT = ["receipt.end-to-end", "end-to-end.receipt", "end-to-end.end-to-end", "each.each"]
CHAINS = [f"{first}.{second}" for first, second in itertools.product(MODES, MODES)] if effort.IS_LONG else SHORT
KILLS = effort.rounds(short=5, long=25)
PRODUCERS = 2
OPTIONS = ("--session-grace-ms", "1000")
# A relay that is stopped for longer than every grace: its sessions are given up.
STOPPED_S = 1.5


def _routes(place: int) -> str:
    """The routes of the first or second relay: one for each pair of modes."""
    made = []
    for chain in CHAINS:
        mode, name = chain.split(".")[place], chain.replace(".", "-")
        each = 'recipients = ["next"]\n' if mode == "each" else ""
        to = f"{'mt'[place]}.{chain}.{'{recipient}' if mode == 'each' else 'next'}"
        source = f"h.{chain}" if place == 0 else f"m.{chain}.next"
        made.append(f'[routes.{name}]\nfrom = "up"\ntopic = "{source}"\nto = "{to}"\nmode = "{mode}"\n{each}')
    return "\n".join(made)


def _definition(name: str, place: int, upstream: str, local: str) -> str:
    return f'name = "{name}"\nlocal = "{local}"\n[upstreams.up]\nurl = "{upstream}"\n{_routes(place)}'


# What upstream was told, by place and chain.
Told = dict[tuple[int, str], int]


class Chain:
    """The load on the chain, and what is known of it."""

    def __init__(self, head: Client, mid: Client, tail: Client) -> None:
        self.head, self.mid, self.tail = head, mid, tail
        self.account = Account(*CHAINS)
        self.sent: defaultdict[str, int] = defaultdict(int)
        self.seen: defaultdict[str, int] = defaultdict(int)
        self.is_over = False

    async def prepare(self) -> None:
        for chain in CHAINS:
            await self.tail.ensure_subscription(f"t.{chain}.next", "last")
            await self.head.ensure_topic(f"h.{chain}")

    async def produce(self, producer: int) -> None:
        async with self.head.session() as session:
            for number in itertools.count():
                if self.is_over:
                    return
                for chain in CHAINS:
                    name = (f"{chain}/{producer}", number)
                    self.account.sent(*name)
                    await session.topic(f"h.{chain}").send([producer, number])
                    self.account.accepted(*name, chain)
                    self.sent[chain] += 1
                await asyncio.sleep(0.02)  # a load, not a flood: the relays keep up

    async def receive(self, chain: str) -> None:
        async with self.tail.session() as session, session.subscribe(f"t.{chain}.next", "last") as incoming:
            async for event in incoming:
                producer, number = event.data
                self.account.delivered(chain, "last", f"{chain}/{producer}", number)
                await event.confirm()
                self.seen[chain] += 1

    async def told(self, *places: int) -> Told:
        """How many events head (0) and mid (1) were told to be confirmed, by place and chain."""
        found: Told = {}
        for place in places:
            for chain in CHAINS:
                source = (f"h.{chain}", f"m.{chain}.next")[place]
                found[place, chain] = (await _counts((self.head, self.mid)[place], source))["confirmed"]
        return found

    async def check_modes(self, told: Told | None = None) -> None:
        """Upstream was told only what the mode allows. What it was told is asked first: what is here only grows meanwhile."""
        for (place, chain), confirmed in (told or await self.told(0, 1)).items():
            here = await _counts((self.mid, self.tail)[place], (f"m.{chain}.next", f"t.{chain}.next")[place])
            allowed = here["accepted"] if chain.split(".")[place] == "receipt" else here["confirmed"]
            assert confirmed <= allowed, f"{chain} was confirmed too early at {place}: {confirmed}, {here}"


async def _counts(client: Client, topic: str) -> dict[str, int]:
    found = {"accepted": 0, "confirmed": 0}
    for each in await client.subscriptions():
        if each.get("topic") == topic:
            found = {name: each.get(name, 0) for name in found}  # type: ignore[misc]
    return found


async def test_a_chain_of_relays_killed_and_stopped_in_turn_loses_and_doubles_nothing(tmp_path: Path) -> None:
    dice = random.Random(effort.seed(20_261_118))
    with contextlib.ExitStack() as stack:
        head, mid, tail = (stack.enter_context(ServerProcess(tmp_path / name, *OPTIONS)) for name in ("head", "mid", "tail"))
        relays = [
            stack.enter_context(RelayProcess(tmp_path / f"{name}.toml", _definition(name, place, upstream, local)))
            for place, (name, upstream, local) in enumerate((("first", head.url, mid.url), ("second", mid.url, tail.url)))
        ]
        async with (
            holdfast.connect(head.url) as at_head,
            holdfast.connect(mid.url) as at_mid,
            holdfast.connect(tail.url) as at_tail,
        ):
            chain = Chain(at_head, at_mid, at_tail)
            await chain.prepare()
            await until(lambda: _are_subscribed(chain), "both relays have their subscriptions", poll_s=0.1)
            receiving = [asyncio.create_task(chain.receive(each)) for each in CHAINS]
            producing = [asyncio.create_task(chain.produce(each)) for each in range(PRODUCERS)]
            for turn in range(KILLS):
                if turn % 5 == 4:
                    await _fault_of_server(chain, (mid, tail, head)[turn // 5 % 3], dice)
                else:
                    await _fault(chain, relays[turn % 2], dice, is_kill=turn % 4 < 2)
            chain.is_over = True
            await asyncio.gather(*producing)
            await until(lambda: chain.seen == chain.sent, f"all has arrived: {chain.sent}, {chain.seen}", poll_s=0.1)
            await until(lambda: _is_told(chain), "head and mid hold nothing for the relays", poll_s=0.1)
            for task in receiving:
                task.cancel()
            await asyncio.gather(*receiving, return_exceptions=True)

            assert {each: (await _counts(at_tail, f"t.{each}.next"))["accepted"] for each in CHAINS} == dict(chain.sent)
            verdict = chain.account.verdict()
            assert verdict.is_kept, str(verdict)
        assert [relay.stop() for relay in relays] == [0, 0]


async def _fault(chain: Chain, relay: RelayProcess, dice: random.Random, *, is_kill: bool) -> None:
    """Kill or stop a relay in the middle of its work, look what upstream was told, and let it go on."""
    before = sum(chain.seen.values())
    await until(lambda: sum(chain.seen.values()) > before + dice.randrange(20, 60), "events pass", poll_s=0.002)
    if is_kill:
        relay.kill()
        await chain.check_modes()
        relay.start()
    else:
        relay.signal(signal.SIGSTOP)
        await chain.check_modes()
        await asyncio.sleep(STOPPED_S)
        relay.signal(signal.SIGCONT)


async def _fault_of_server(chain: Chain, server: ServerProcess, dice: random.Random) -> None:
    """Kill a server in the middle of its work, look what was told above it while it is down, and start it again.

    What upstream was told of must be there when the killed server has read its journal; and an upstream that was killed must not
    have been told more than is there below it.
    """
    before = sum(chain.seen.values())
    await until(lambda: sum(chain.seen.values()) > before + dice.randrange(20, 60), "events pass", poll_s=0.002)
    server.kill()
    alive = [place for place, each in enumerate((chain.head, chain.mid)) if each.url != server.url]
    told = await chain.told(*alive)
    server.start()
    told |= await chain.told(*{0, 1}.difference(alive))
    await chain.check_modes(told)


async def _are_subscribed(chain: Chain) -> bool:
    first = [each for each in await chain.head.subscriptions() if each["name"].startswith("relay.first.")]
    second = [each for each in await chain.mid.subscriptions() if each["name"].startswith("relay.second.")]
    return len(first) == len(second) == len(CHAINS)


async def _is_told(chain: Chain) -> bool:
    found = [*await chain.head.subscriptions(), *await chain.mid.subscriptions()]
    return all(not each["waiting"] for each in found if each["name"].startswith("relay."))
