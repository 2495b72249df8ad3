"""Settlement: an operator says what became of an effect of which nobody can tell.

A carrier that runs hears it at once; one that starts reads it. A server that asks for the effect again gets the result, or, if it
was not done, has it carried out.
"""

from __future__ import annotations

from holdfast.client.client import Client
from holdfast.continuity import register
from holdfast.continuity.domain import HISTORY
from holdfast.continuity.effects.effect_events import Outcome, decode_outcome, encode, identity_of, outcome_fields
from holdfast.continuity.errors import NotInDoubt
from holdfast.continuity.machines.effects import Result


async def settle(client: Client, name: str, key: str, result: Result | None) -> None:
    """Record the result of an effect, or None if it was not done. NotInDoubt if it needs none."""
    domain = await register.read(client, name)
    try:
        identity = identity_of(key)
    except ValueError as problem:
        raise NotInDoubt(str(problem)) from problem
    newest, place = None, 0
    async with client.topic(domain.results).browse(HISTORY) as browser:
        async for event in browser:
            told = decode_outcome(bytes(event.body))
            if told.identity == identity:
                newest, place = told.kind, told.place
    if newest != "begun":
        found = {None: "was never begun", "result": "has a result", "not done": "was not done"}[newest]
        raise NotInDoubt(f"effect {key} {found}; there is nothing to settle")
    outcome = Outcome(identity, "not done", reason="an operator", place=place)
    if result is not None:
        outcome = Outcome(identity, "result", result, place=place)
    await client.topic(domain.results).send(encode(outcome), **outcome_fields(outcome))
