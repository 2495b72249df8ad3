"""Assemblies at a client manager: what a client must not do costs it its link, what it may not do is refused before it takes
space (B11, B13), and nothing a client asks for makes the server hold more than a little.
"""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.destination import command
from holdfast.errors import BadSetting
from holdfast.event import batch
from holdfast.event.event import Head, encode_head
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings
from holdfast.session.session import PARTS_MAX
from holdfast.wire.frame import (
    Abandon,
    Attach,
    CloseSession,
    Commit,
    Failed,
    Fragment,
    Goodbye,
    Part,
    ReadFragment,
    Receipted,
    SettledPart,
)
from tests.raw_client import FailingChannel, RawClient, failing_node


def part(session: str, number: int = 1, destination: str = "q", assembly: str = "t", **large: Any) -> bytes:
    encoded = batch.encode([encode_head(Head())], [b"" if large else b"x"], source="raw", first_id=7)
    return command.encode(command.Part(session, assembly, number, destination, **large), encoded if destination else b"fragment")


class Company:
    """A node and a client of it."""

    node: Node
    channel: FailingChannel
    client: RawClient

    async def __aenter__(self) -> RawClient:
        self.node, self.channel = await failing_node()
        await self.node.messages.wait_until_primary()
        self.client = RawClient(self.node)
        await self.client.greet()
        return self.client

    async def __aexit__(self, *exc: object) -> None:
        await self.node.close()


async def send_part(client: RawClient, body: bytes, count: int = 1) -> Any:
    """What is said to a part."""
    before = len(client.of(Receipted)) + len(client.of(Failed))
    client.say(Part(before + 1), body)
    while len(client.of(Receipted)) + len(client.of(Failed)) < before + count:
        client._heard.clear()
        await client._heard.wait()
    return client.heard[-1]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        command.encode(command.Claim(2, "me")),
        part("somebody else"),
        part("mine", number=0),
        part("mine", assembly=""),
        part("mine", assembly="x" * 65),
    ],
)
async def test_what_is_no_part_of_the_session_s_own_ends_the_link(body: bytes) -> None:
    async with Company() as client:
        client.say(Part(1), body.replace(b"\xa4mine", bytes([0xA0 + len(client.session)]) + client.session.encode()))
        await client.until_lost()
        assert client.of(Goodbye)[0].code == "protocol-error"


async def test_a_session_that_does_not_wait_for_receipts_is_ended() -> None:
    async with Company() as client:
        for number in range(PARTS_MAX + 1):
            client.say(Part(number), part(client.session, number + 1))
        await client.until_lost()
        assert "unreceipted" in client.of(Goodbye)[0].sentence


async def test_a_damaged_batch_in_a_part_is_refused_and_the_link_goes_on() -> None:
    async with Company() as client:
        refused = await send_part(client, part(client.session)[:-1])
        assert (type(refused), refused.code) == (Failed, "batch-damaged")
        assert type(await send_part(client, part(client.session))) is Receipted


@pytest.mark.parametrize(("destination", "code"), [("_DMQ", "bad-name"), ("no/such name", "bad-name")])
async def test_a_part_for_where_nobody_may_send_is_refused(destination: str, code: str) -> None:
    async with Company() as client:
        assert (await send_part(client, part(client.session, destination=destination))).code == code


async def test_a_large_event_bound_for_where_it_may_not_go_is_refused_with_its_first_fragment() -> None:
    company = Company()
    async with company as client:
        before = company.node.messages.directory.applied
        client.say(Part(1, "queue", "_DMQ"), part(client.session, destination=""))
        assert (await client.hear(Failed))[0].code == "bad-name"
        assert company.node.messages.directory.applied == before


async def test_a_commit_with_ranges_that_cannot_be_read_ends_the_link() -> None:
    async with Company() as client:
        client.say(Commit(1, "t", 0, [SettledPart(1, b"abc")]))
        await client.until_lost()
        assert client.of(Goodbye)[0].code == "protocol-error"


async def test_a_commit_with_a_receiver_that_is_gone_is_aborted() -> None:
    async with Company() as client:
        await send_part(client, part(client.session))
        aborted = await client.ask(Commit, "t", 1, [SettledPart(9, bytes(16))])
        assert aborted.code == "transaction-aborted"
        assert "not attached any more" in aborted.sentence
        assert (await client.ask(Abandon, "t")).value is True


async def test_a_commit_that_finds_no_room_has_not_happened_and_may_be_asked_again() -> None:
    company = Company()
    async with company as client:
        await send_part(client, part(client.session))
        company.channel.refused = {command.Commit}
        assert (await client.ask(Commit, "t", 1)).code == "blocked"
        company.channel.refused = set()
        assert list((await client.ask(Commit, "t", 1)).value[:2]) == [1, 0]


async def test_fragments_are_read_one_after_the_other_by_the_receiver_that_was_handed_the_event() -> None:
    async with Company() as client:
        await send_part(client, part(client.session, 1, ""))
        await send_part(client, part(client.session, 2, "q", fragments=(1, 1), fragment_bytes=8, large_bytes=8))
        answer = await client.ask(Commit, "t", 2)
        await client.receive("q")
        position = answer.value[2] << 16

        for _ in range(200):
            client.say(ReadFragment(5, 1, position, 0))
        await client.hear(Fragment, 200)
        for receiver, where, index in ((2, position, 0), (1, position, 1), (1, position + 1, 0), (1, 0, 0)):
            assert type(await client.ask(ReadFragment, receiver, where, index)) is Failed
        await client.ask(Attach, 3, "other", "queue")
        assert (await client.ask(ReadFragment, 3, position, 0)).code == "no-such-position"


async def test_a_session_that_is_being_closed_takes_no_more_parts() -> None:
    async with Company() as client:
        client.say(CloseSession(1))
        client.say(Part(2), part(client.session))
        (refused,) = await client.hear(Failed)
        assert (refused.token, refused.code) == (2, "detached")


@pytest.mark.parametrize("wrong", [{"assemblies_max": 0}, {"assemblies_max": 33}, {"parts_max": 0}, {"large_bytes_max": -1}])
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadSetting):
        NodeSettings(**wrong)  # type: ignore[arg-type]


def test_one_event_may_take_half_of_the_journal_unless_said_otherwise() -> None:
    settings = NodeSettings()
    assert settings.assembly_bytes_max == settings.journal.size_bytes // 2
    assert NodeSettings(large_bytes_max=7).assembly_bytes_max == 7
