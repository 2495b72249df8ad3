"""Requests and replies: a service that converts currencies, and many clients that ask it at once.

    python examples/request_reply.py [URL]

A request is an event with a `reply_to`. `queue.request` sends one, and waits for the event that replies to it. No service has
to run when it is sent: a request waits in its queue, as every event does. After its timeout, the caller stops waiting.
"""

import asyncio
import contextlib
import sys

import holdfast
from holdfast.errors import NoReply, NoSuchDestination

RATES = {"EUR": 1.0, "USD": 1.1, "CHF": 0.95}


async def serve(client: holdfast.Client) -> None:
    async with client.queue("convert").receive(confirm="auto") as requests:
        async for request in requests:
            amount, currency = request.data["amount"], request.data["to"]
            known = currency in RATES
            answer = {"amount": round(amount * RATES[currency], 2)} if known else {"error": f"no rate for {currency}"}
            with contextlib.suppress(NoSuchDestination):  # the caller is gone
                await request.reply(answer)


async def ask(client: holdfast.Client, amount: float, currency: str) -> str:
    reply = await client.queue("convert").request({"amount": amount, "to": currency}, timeout=10)
    return f"{amount} EUR in {currency}: {reply.data.get('amount', reply.data.get('error'))}"


async def main(url: str) -> None:
    async with holdfast.connect(url, name="request_reply") as client:
        try:
            await client.queue("convert").request({"amount": 1, "to": "EUR"}, timeout=0.1)
        except NoReply:
            print("nobody answers yet")
        service = asyncio.create_task(serve(client))
        for answer in await asyncio.gather(*(ask(client, 10 * number, "USD") for number in (1, 2, 3)), ask(client, 5, "ZZZ")):
            print(answer)
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)


holdfast.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
