"""Rules for comparison that are learnt from a domain: its disagreements, and what its servers answered there (25).

    history of the requests ─▶ disagreements ─▶ transactions ─▶ stored answers of the listeners ─▶ `machines.learning`

Only servers are asked, not shadows, unless they are named: rules are to hide what differs within one version, and not what a new
version does otherwise. Answers to reads are stored nowhere, nor are those that a listener has evicted: such transactions are
counted as `not_kept`. Bodies of answers go over Holdfast to whoever asks.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast.client.client import Client
from holdfast.continuity import register, roll_call
from holdfast.continuity.answer import Answer
from holdfast.continuity.domain import HISTORY, ComparisonRules, Domain
from holdfast.continuity.machines.learning import Proposal, propose
from holdfast.continuity.request import MEMBER
from holdfast.errors import BadSetting


class Learned(msgspec.Struct, frozen=True):
    """What was learnt of a domain."""

    domain: Domain
    servers: tuple[str, ...]  # whose answers were compared
    disagreements: int  # transactions in which servers differed
    not_kept: int  # those of them of which fewer than two answers are stored
    proposal: Proposal

    @property
    def is_new(self) -> bool:
        """Whether there is anything to propose."""
        return self.proposal.rules != self.domain.compare


async def learn(client: Client, name: str, servers: tuple[str, ...] = (), since_s: float = 0.0, count: int = 100) -> Learned:
    """Propose rules from the newest disagreements of a domain. `servers`: only these; `since_s`: not older, in seconds."""
    domain = await register.read(client, name)
    if domain.compare.function:
        raise BadSetting(
            f"domain {name!r} compares by the function {domain.compare.function!r}: no rule is learnt beside it",
            setting="compare",
        )
    transactions = await _disagreements(client, domain, since_s, count)
    by_transaction: dict[str, list[Answer]] = {each: [] for each in transactions}
    seen: set[str] = set()
    stored = await roll_call.ask_answers(client, name, transactions) if transactions else []
    for each in sorted(stored, key=lambda each: each.server):  # so that examples name them in this order
        if each.answer is not None and (each.server in servers if servers else each.role == "server"):
            by_transaction[each.transaction].append(each.answer)
            seen.add(each.server)
    groups = [answers for answers in by_transaction.values() if len(answers) > 1]
    return Learned(
        domain, tuple(sorted(seen)), len(transactions), len(transactions) - len(groups), propose(domain.compare, groups)
    )


async def apply(client: Client, learned: Learned) -> None:
    """Put the proposed rules into the definition. Listeners and engines take it when they start again."""
    await register.change(client, msgspec.structs.replace(learned.domain, compare=learned.proposal.rules))


async def _disagreements(client: Client, domain: Domain, since_s: float, count: int) -> list[str]:
    """The transactions of the newest disagreements, the oldest first, each once."""
    newest: deque[str] = deque(maxlen=min(count, roll_call.ASKED_MAX))
    oldest = datetime.now(UTC) - timedelta(seconds=since_s) if since_s else None
    async with client.topic(domain.requests).browse(HISTORY, selector=f"type = '{MEMBER}'") as events:
        async for event in events:
            told: Any = event.data
            is_wanted = isinstance(told, dict) and told.get("kind") == "disagreement" and (oldest is None or event.time >= oldest)
            if is_wanted and told["transaction"] not in newest:
                newest.append(told["transaction"])
    return list(newest)


def as_toml(rules: ComparisonRules) -> str:
    """The rules as they stand in a definition, those that are set."""
    lines = ["[compare]"]
    for name, value in msgspec.to_builtins(rules).items():
        if value:
            lines.append(f"{name} = {msgspec.json.encode(value).decode()}")
    return "\n".join(lines)
