"""Reports: what a relay says about itself, and what a server knows of the relays around it.

    relay.NAME.ask    a topic, at the relay's own journal and at each upstream; a question with `reply_to` is answered in JSON

Nothing is kept of questions and answers. The topic itself stays while the relay is away: so a server knows which relays there
should be, and `holdfast status` names those that do not answer. Of such a one the server tells what waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from holdfast.client.client import Client
from holdfast.client.description import SubscriptionDescription
from holdfast.errors import Closed, HoldfastError, NoReply, Unavailable
from holdfast.relay.names import PREFIX, ask_topic, relay_of_ask, route_of

log = logging.getLogger("holdfast.relay")

# A relay that runs answers at once.
ANSWER_S = 3.0
# The status of a server does not wait for longer.
IN_STATUS_S = 1.0
# A place that does not let the relay answer is tried again this much later.
AGAIN_S = 10.0


async def answer_for_ever(client: Client, relay: str, describe: Callable[[], dict[str, Any]], begun: Callable[[], None]) -> None:
    """Answer those who ask how the relay fares. A place where that is not allowed, or is not possible now, is tried again."""
    told = ""
    while True:
        try:
            async with client.session(name="relay status") as session, session.subscribe(ask_topic(relay)) as incoming:
                begun()
                async for event in incoming:
                    event.confirm()
                    try:
                        await event.reply(describe())
                    except HoldfastError as problem:
                        log.info("who asked for the status is gone: %s", problem)
        except Closed:
            return
        except HoldfastError as problem:
            if problem.sentence != told:
                log.info("questions about this relay at %s are not answered for the moment: %s", client.url, problem)
            told = problem.sentence
        begun()
        await asyncio.sleep(AGAIN_S)


async def ask_status(client: Client, relay: str, timeout: float = ANSWER_S) -> dict[str, Any]:
    """Ask a relay, over its journal or an upstream, how it fares. Unavailable if it does not answer."""
    try:
        answer = await client.topic(ask_topic(relay)).request(timeout=timeout)
    except NoReply as problem:
        raise Unavailable(
            f"relay {relay!r} does not answer: it does not run, or cannot reach {client.url}; start it with "
            "holdfast relay --config"
        ) from problem
    found: dict[str, Any] = answer.data
    return found


async def ask_if_running(client: Client, relay: str, timeout: float = IN_STATUS_S) -> dict[str, Any] | None:
    """What a relay says; None if it does not run, or does not answer. Nothing is asked where nobody would hear it."""
    try:
        topic = await client.describe(ask_topic(relay))
        return await ask_status(client, relay, timeout) if topic.get("receivers") else None
    except HoldfastError:
        return None


async def relays_at(client: Client, timeout: float = IN_STATUS_S) -> list[dict[str, Any]]:
    """The relays that a server knows, each with what it says; of those that do not answer, what waits for them."""
    found = [relay_of_ask(row["name"]) for row in await client.destinations(prefix=PREFIX)]
    relays = [name for name in found if name is not None]
    answers = await asyncio.gather(*(ask_if_running(client, name, timeout) for name in relays))
    subscriptions = [] if all(answers) else await client.subscriptions()
    return [
        {"is_running": True, **told} if told is not None else _of_silent(name, subscriptions)
        for name, told in zip(relays, answers, strict=True)
    ]


def _of_silent(name: str, subscriptions: list[SubscriptionDescription]) -> dict[str, Any]:
    """What a server knows of a relay that does not answer: the subscriptions that wait for it here."""
    own = [(route_of(name, each["name"]), each) for each in subscriptions]
    routes = [{"route": route, "waiting_upstream": each["waiting"]} for route, each in own if route is not None]
    return {"is_running": False, "relay": name, "routes": routes}
