"""Workers: after which exceptions an event is tried again, and how long it waits (E2)."""

from __future__ import annotations

import holdfast
from holdfast.worker.worker import Worker
from tests.contract.places import name, server, url  # noqa: F401 (fixtures)
from tests.working import emptied, working


class Away(Exception):
    pass


class Wrong(Exception):
    pass


async def test_an_exception_that_is_to_be_rejected_is_not_tried_again(url: str, name: str) -> None:  # noqa: F811
    worker, tried = Worker(url), []

    @worker.queue(name, backoff=(0, 0), reject_on=Wrong)
    async def handle(word: str) -> None:
        tried.append(word)
        if word == "wrong":
            raise Wrong("no such article")
        if tried.count("away") < 3:
            raise Away

    async with working(worker) as client:
        await client.queue(name).send_many(["wrong", "away"])
        await emptied(client, name)
        (dead,) = await client.dead.list(queue=name)

    assert sorted(tried) == ["away"] * 3 + ["wrong"]
    assert dead.dead[0].code == "rejected"
    assert "Wrong: no such article" in dead.dead[0].reason


async def test_where_kinds_to_retry_are_named_all_others_are_rejected_at_once(url: str, name: str) -> None:  # noqa: F811
    worker, tried = Worker(url), []

    @worker.queue(name, backoff=(0, 0), retry_on=(Away, OSError))
    def handle(word: str) -> None:
        tried.append(word)
        if word == "away" and tried.count("away") < 3:
            raise ConnectionResetError
        if word == "wrong":
            raise Wrong("no such article")
        if word == "asked" and tried.count("asked") < 2:
            raise holdfast.Retry(after=0)  # said by the handler itself

    async with working(worker) as client:
        await client.queue(name).send_many(["wrong", "away", "asked"])
        await emptied(client, name)
        (dead,) = await client.dead.list(queue=name)

    assert sorted(tried) == ["asked"] * 2 + ["away"] * 3 + ["wrong"]
    assert "Wrong: no such article" in dead.dead[0].reason


async def test_a_handler_that_is_too_slow_is_tried_again_whatever_kinds_are_named(name: str) -> None:  # noqa: F811
    worker, tried = Worker("memory:"), []

    @worker.queue(name, backoff=(0, 0), timeout=0.01, retry_on=Away)
    async def handle(word: str) -> None:
        import asyncio

        tried.append(word)
        if len(tried) < 3:
            await asyncio.Event().wait()

    async with working(worker) as client:
        await client.queue(name).send("slow")
        await emptied(client, name)
        assert await client.dead.list(queue=name) == []

    assert len(tried) == 3


async def test_pauses_are_shortened_by_the_dice(name: str, caplog: object) -> None:  # noqa: F811
    thrown = iter([0.0, 1.0, 0.5])
    worker, tried = Worker("memory:", dice=lambda: next(thrown)), []

    @worker.queue(name, backoff=(0.01, 0.04))
    async def handle(word: str) -> None:
        tried.append(word)
        if len(tried) <= 3:
            raise Away

    async with working(worker) as client:
        await client.queue(name).send("again")
        await emptied(client, name)

    told = [record.getMessage() for record in caplog.records if "is tried again" in record.getMessage()]  # type: ignore[attr-defined]
    assert [text.split("tried again in ")[1].split(" s:")[0] for text in told] == ["0.01", "0.01", "0.03"]
