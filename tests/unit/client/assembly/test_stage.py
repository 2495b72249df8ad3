"""Stages (D3). At a client manager, what is not one's own ends the link, and what may not be staged is refused before it takes
space. At their client, no more is in flight than the window allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.client.assembly.stage import PARTS_MAX
from holdfast.errors import TimedOut
from holdfast.node.clients import assembly_requests
from holdfast.wire.frame import Answered, Failed, Goodbye, Manage, Message, Part, Publish, Receipted
from tests.raw_client import RawClient
from tests.scripted_server import ScriptedServer, connected
from tests.unit.node.clients.test_assembly_requests import Company, part, send_part
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
        (lambda token: Manage(token, "drop_stages", {"names": [7]}), "bad-setting"),
        (lambda token: Manage(token, "drop_stages", {"names": [""]}), "bad-name"),
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
    monkeypatch.setattr(assembly_requests, "STAGES_MAX", 2)
    async with Company() as client:
        refused = await answer_to(client, lambda token: Manage(token, "drop_stages", {"names": ["a", "b", "c"]}))
        assert refused.code == "too-large"
        assert type(await answer_to(client, lambda token: Manage(token, "drop_stages", {"names": ["a", "b"]}))) is Answered


async def test_a_part_that_gets_no_turn_in_time_is_refused_and_nothing_of_it_was_sent() -> None:
    server = ScriptedServer()
    async with connected(server) as connection:
        stages = connection.session.stages
        first, second = stages.new("first", 5), stages.new("second", 0.01)
        for _ in range(PARTS_MAX):
            await first.send("q", bytes(70_000))
        await server.hear(Part, PARTS_MAX)

        with pytest.raises(TimedOut, match="nothing was sent"):
            await second.send("q", bytes(70_000))

        assert len(server.of(Part)) == PARTS_MAX
        for each in server.of(Part):
            server.say(Receipted(each.token, 1, 1, True))
        assert (await first.seal())[:3] == ("first", PARTS_MAX, PARTS_MAX)
