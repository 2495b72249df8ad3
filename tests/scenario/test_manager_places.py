"""Several message managers in one process, a journal each: where destinations are, and who is told so (ADR 22)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from argon2 import PasswordHasher

import holdfast
from holdfast.access import users as users_files
from holdfast.errors import AccessDenied, BadSetting, HoldfastError, NoSuchDestination, NotAJournal, Refused
from holdfast.event.position import Ranges
from holdfast.node.login.login import Login
from holdfast.node.node import Node
from holdfast.recorder.recorder import Recorder
from holdfast.wire.frame import CloseSession, Deliver, Failed, Goodbye, OpenSession, SessionOpened, Settle, Welcome
from tests.raw_client import RawClient
from tests.running_server import SETTINGS, running, start

TWO = replace(SETTINGS, managers=("m1", "m2"))


async def taken(incoming: holdfast.Incoming, count: int) -> list[object]:
    found = []
    for _ in range(count):
        event = await incoming.next(10)
        found.append(event.data)
        await event.confirm()
    return found


async def test_each_manager_has_a_journal_of_its_own_and_all_is_there_after_a_crash(tmp_path: Path) -> None:
    server = await start(tmp_path, TWO)
    async with holdfast.connect(server.url) as client:
        before = [(await client.queue(name).send(name)).channel for name in "abcd"]
    await server.crash()

    assert sorted(each.name for each in (tmp_path / "managers").iterdir()) == ["m1", "m2"]
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        assert before == [(await client.queue(name).send(name.upper())).channel for name in "abcd"] == ["m1", "m2", "m1", "m2"]
        for name in "abcd":
            async with client.queue(name).receive() as incoming:
                assert await taken(incoming, 2) == [name, name.upper()]


async def test_a_table_of_places_that_was_lost_is_made_again(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        before = [(await client.queue(name).send(1)).channel for name in "abc"]
    (tmp_path / "places").unlink()

    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        assert [(await client.queue(name).send(2)).channel for name in "cba"] == before[::-1]


async def test_a_place_without_a_destination_is_completed_by_whoever_uses_the_name(tmp_path: Path) -> None:
    tmp_path.joinpath("places").write_text('["orders","m2"]\n')

    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        await client.create_queue("invoices")
        assert (await client.queue("orders").send(1)).channel == "m2"


async def test_a_rule_places_new_destinations(tmp_path: Path) -> None:
    ruled = replace(TWO, placement=(("eu.>", "m2"), ("**", "m1")))

    async with running(tmp_path, ruled) as server, holdfast.connect(server.url) as client:
        assert [(await client.queue(name).send(1)).channel for name in ("eu.a", "us.a", "eu.b", "us.b")] == ["m2", "m1"] * 2


async def test_a_folder_is_opened_as_it_was_made(tmp_path: Path) -> None:
    three = replace(SETTINGS, managers=("m1", "m2", "m3"))
    for number, (made, opened) in enumerate(((SETTINGS, TWO), (TWO, SETTINGS), (TWO, three), (three, TWO))):
        folder = tmp_path / str(number)
        folder.mkdir()
        await (await Node.open(folder, made)).close()
        with pytest.raises(NotAJournal, match="open it as it was made"):
            await Node.open(folder, opened)


@pytest.mark.parametrize("managers", [("m1",), ("m1", "m1"), ("m1", "M2"), ("m1", "a/b"), ("m1", "")])
def test_names_that_are_none_for_managers_are_refused(managers: tuple[str, ...]) -> None:
    with pytest.raises(BadSetting, match="are not two or more different names"):
        replace(SETTINGS, managers=managers)


# --- who knows nothing of channels, and who says the wrong one -----------------------------------------------------------


async def test_a_client_of_before_uses_what_is_at_its_manager_and_is_refused_the_rest(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        await client.create_queue("first")
        await client.create_queue("second")
        older = holdfast.connect(server.url)
        async with older:
            session = older._opened()
            session.lanes = None  # it does not ask where anything is
            near, far = ("first", "second") if session.channel == "m1" else ("second", "first")

            assert (await older.queue(near).send(1)).channel == session.channel
            with pytest.raises(NoSuchDestination, match=f"not at message manager '{session.channel}' but at"):
                await older.queue(far).send(1)


async def test_clients_are_at_home_at_all_managers_in_turn_and_at_none_that_stands_still(tmp_path: Path) -> None:
    async def homes(url: str) -> list[str]:
        found = []
        for _ in range(4):
            async with holdfast.connect(url) as client:
                found.append((await client.temporary_queue()).name.partition("/")[0].removeprefix("_temporary."))
        return sorted(found)

    async with running(tmp_path, TWO) as server:
        assert await homes(server.url) == ["m1", "m1", "m2", "m2"]
        await server.node.managers["m1"].stop()
        assert await homes(server.url) == ["m2"] * 4


async def test_a_session_at_a_manager_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server:
        raw = RawClient(server.node)
        opened = await raw.greet()
        assert opened.channel in ("m1", "m2")
        assert (await raw.hear(Welcome))[0].channels == ["m1", "m2"]

        raw.say(OpenSession(7, channel="m9"), session=2)
        raw.say(OpenSession(8, channel="m2"), session=3)
        (refused,) = await raw.hear(Failed)
        assert (refused.token, refused.sentence) == (7, "there is no message manager 'm9' here; there is m1, m2")
        second = (await raw.hear(SessionOpened, 2))[1]
        assert (second.channel, second.incarnation) == ("m2", server.node.managers["m2"].channel.id)


async def test_a_verdict_on_positions_of_another_channel_ends_the_link_and_decides_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        await client.queue("q").send("mine")
        raw = RawClient(server.node)
        await raw.greet()
        await raw.ask(CloseSession)
        await raw.ask(OpenSession, channel="m1")
        await raw.receive("q")
        (delivered,) = await raw.hear(Deliver)
        assert delivered.channel == "m1"

        first = delivered.slices[0].first
        raw.say(Settle(9, 1, "confirm", Ranges.of((first, first)).to_bytes(), channel="m2"))
        await raw.until_lost()

        assert "these positions are of channel 'm2', and the session of 'm1'" in raw.of(Goodbye)[0].sentence
        async with client.queue("q").receive() as incoming:
            assert await taken(incoming, 1) == ["mine"]


async def test_what_a_recorder_holds_is_not_forwarded_there_and_stays_with_it(tmp_path: Path) -> None:
    with Recorder(tmp_path / "recorder") as recorder:
        recorder.record("kept", "orders")
        async with running(tmp_path / "data", TWO) as server:
            with pytest.raises(Refused, match="forward to one that has one alone"):
                await asyncio.to_thread(recorder.forward, server.url)
        async with running(tmp_path / "alone") as server, holdfast.connect(server.url) as client:
            await asyncio.to_thread(recorder.forward, server.url)
            async with client.queue("orders").receive() as incoming:
                assert await taken(incoming, 1) == ["kept"]


async def test_a_user_is_told_of_places_of_what_the_rules_allow_and_of_no_other(tmp_path: Path) -> None:
    secret = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("secret")
    rules = f'[users.ann]\npassword = "{secret}"\n[[access]]\nwho = "ann"\ndestination = "a.*"\nactions = ["send"]\n'
    async with running(tmp_path, TWO) as server:
        server.node.clients.login = Login(users_files.read(rules))
        async with holdfast.connect(f"holdfast://ann:secret@127.0.0.1:{server.port}") as client:
            assert {(await client.queue(f"a.{number}").send(1)).channel for number in range(2)} == {"m1", "m2"}
            for refused in (client.queue("b").send(1), client.queue("b").receive().open(), client.queue("a.1").receive().open()):
                with pytest.raises(AccessDenied):
                    await refused
        assert server.node.clients.places is not None and server.node.clients.places.find("b") is None


async def test_every_action_says_what_is_wrong_over_several_managers_too(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        for refused in (client.describe("nowhere"), client.delete("nowhere"), client.purge("nowhere")):
            with pytest.raises(HoldfastError, match="nowhere"):
                await refused
