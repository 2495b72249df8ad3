"""A program that stages and publishes, and says how far it is, so that it can be killed there: URL NUMBER on its command line."""

from __future__ import annotations

import asyncio
import sys

import holdfast
from tests.waiting import turn_loop

EVENTS = 200


async def work(url: str, number: int, attempt: str, *, is_telling: bool = False) -> bool:
    """Stage what belongs to a number, in two stages, and publish it; whether that was new."""

    def tell(what: str) -> None:
        if is_telling:
            print(what, flush=True)

    async with holdfast.connect(url, timeout=20) as client:
        stages = [client.stage(f"{number}-{task}-{attempt}") for task in ("a", "b")]
        for index in range(EVENTS):
            await stages[index % 2].send("out", f"{number} {index} {'x' * 1_000}")
            if index == EVENTS * 3 // 4:
                tell("staging")
        sealed = [await stage.seal() for stage in stages]
        tell("sealed")
        publishing = asyncio.create_task(client.publish("job", number, sealed))
        await turn_loop()  # it is on its way
        tell("asked")
        published = await publishing
        tell("published")
        return published.is_new


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], int(sys.argv[2]), "victim", is_telling=True))
