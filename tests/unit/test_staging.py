"""Stages at a client manager, and the window of their client (D3): what is not one's own ends the link, what may not be staged is
refused before it takes space, and no more is under way than may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.client import staging_window
from holdfast.client.staging_window import Window
from holdfast.errors import TimedOut
from holdfast.node import staging
from holdfast.wire.frame import Answered, Failed, Goodbye, Manage, Message, Part, Publish, Receipted
from tests.raw_client import RawClient
from tests.unit.test_assembling import Company, part, send_part
from tests.waiting import until


@pytest.mark.parametrize("body", [part("/bob"), part("/", number=0)])
async def test_a_part_of_another_user_s_stage_ends_the_link(body: bytes) -> None:
    async with Company() as client:
        client.say(Part(1), body)
        await client.until_lost()
        assert client.of(Goodbye)[0].code == "protocol-error"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (part("/", assembly=""), "bad-name"),
        (part("/", assembly="x" * 129), "bad-name"),
        (part("/", destination=""), "too-large"),
        (part("/", destination="_DMQ"), "bad-name"),
        (part("/")[:-1], "batch-damaged"),
        (part("/", number=(1 << 20) + 1), "too-large"),
    ],
)
async def test_what_may_not_be_staged_is_refused_and_takes_no_space(body: bytes, code: str) -> None:
    company = Company()
    async with company as client:
        applied = company.node.messages.directory.applied

        assert (await send_part(client, body)).code == code

        assert company.node.messages.directory.applied == applied
        assert type(await send_part(client, part("/"))) is Receipted


async def test_a_first_part_that_was_not_sent_before_is_refused_where_its_stage_is_there() -> None:
    company = Company()
    async with company as client:
        await send_part(client, part("/"))
        await until(lambda: company.node.messages.directory.assemblies.staged.parts == 1, "it is applied")

        assert (await send_part(client, part("/"))).code == "stage-exists"
        client.say(Part(9, "queue", "", True), part("/"))
        assert type(await send_part(client, part("/", number=2), count=2)) is Receipted

        assert company.node.messages.directory.assemblies.staged.parts == 2


async def answer_to(client: RawClient, make: Callable[[int], Message]) -> Any:
    before = len(client.of(Answered)) + len(client.of(Failed))
    client.say(make(1_000 + before))
    await until(lambda: len(client.of(Answered)) + len(client.of(Failed)) > before, "it is answered")
    return client.heard[-1]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda token: Publish(token, "", 0, []), "bad-name"),
        (lambda token: Publish(token, "x" * 256, 0, []), "bad-name"),
        (lambda token: Publish(token, "q", -1, []), "bad-setting"),
        (lambda token: Publish(token, "q", 1 << 63, []), "bad-setting"),
        (lambda token: Publish(token, "q", 0, [("", 1)]), "bad-name"),
        (lambda token: Publish(token, "q", 0, [("t", -1)]), "bad-setting"),
        (lambda token: Publish(token, "q", 0, [("t", 2)]), "not-published"),
        (lambda token: Publish(token, "q", 0, [("t", 1 << 62)]), "not-published"),
        (lambda token: Manage(token, "drop_stages", {}), "bad-setting"),
        (lambda token: Manage(token, "drop_stages", {"names": "t"}), "bad-setting"),
        (lambda token: Manage(token, "drop_stages", {"names": [7]}), "bad-name"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused_and_the_stages_stay(make: Callable[[int], Message], code: str) -> None:
    company = Company()
    async with company as client:
        await send_part(client, part("/"))

        assert (await answer_to(client, make)).code == code

        answered = await answer_to(client, lambda token: Publish(token, "q", 0, [("t", 1)]))
        assert answered.value == {"is_new": True, "events": 1, "last": 0}


async def test_so_many_stages_are_named_at_once_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "STAGES_MAX", 2)
    async with Company() as client:
        refused = await answer_to(client, lambda token: Manage(token, "drop_stages", {"names": ["a", "b", "c"]}))
        assert refused.code == "too-large"
        assert type(await answer_to(client, lambda token: Manage(token, "drop_stages", {"names": ["a", "b"]}))) is Answered


# --- the window of a client ------------------------------------------------------------------------------------------


async def entering(window: Window, size: int, seconds: float = 10) -> None:
    await window.enter(size, asyncio.get_running_loop().time() + seconds)


async def test_what_is_larger_than_the_window_goes_alone_and_whoever_came_first_goes_first() -> None:
    window, gone = Window(), []
    await entering(window, 2 * staging_window.BYTES_MAX)

    async def go(size: int) -> None:
        await entering(window, size)
        gone.append(size)

    waiting = [asyncio.create_task(go(size)) for size in (staging_window.BYTES_MAX, 1, 2)]
    await asyncio.sleep(0)
    assert gone == []
    window.leave(2 * staging_window.BYTES_MAX)
    await waiting[0]
    assert gone == [staging_window.BYTES_MAX]
    window.leave(staging_window.BYTES_MAX)
    await asyncio.gather(*waiting)
    assert gone[1:] == [1, 2]


async def test_one_that_is_withdrawn_or_runs_out_of_time_leaves_its_turn_to_the_next() -> None:
    window = Window()
    for _ in range(staging_window.PARTS_MAX):
        await entering(window, 1)
    with pytest.raises(TimedOut, match="nothing was sent"):
        await entering(window, 1, 0.01)
    cancelled, served = [asyncio.create_task(entering(window, 1)) for _ in range(2)]
    await asyncio.sleep(0)

    window.leave(1)  # the turn of the first, which is cancelled before it hears of it
    cancelled.cancel()

    await served
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    for _ in range(staging_window.PARTS_MAX):
        window.leave(1)
    await entering(window, 2 * staging_window.BYTES_MAX, 1)
