"""A listener whose server fails: what is told, what is in doubt, and how each policy resolves it."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from holdfast.continuity.domain import Domain
from holdfast.continuity.listener.listener import Listener
from tests.asking_engine import asking_engine
from tests.listening import OK, Account, bodies, json_answer, listening, raw_account, running
from tests.raw_http_server import raw_http_server
from tests.waiting import until

_numbers = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory:doubt-{next(_numbers)}"


async def test_a_call_that_fails_is_told_and_resent_before_the_next_is_called(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine, raw_account() as (server, said):
        said.extend([b"", OK])
        async with listening(url, server.url, tmp_path / "s"):
            numbers = [await engine.send("/a", key="k"), await engine.send("/b")]
            answers = await bodies(engine, numbers)
            failed = engine.parts[numbers[0]]["one"][0]

    assert (failed.outcome, answers) == ("failed", [b"ok", b"ok"])
    assert [each.split()[1] for each in server.requests] == [b"/a", b"/a", b"/b"]
    assert all(b"idempotency-key: k\r\n" in each for each in server.requests[:2])


async def test_a_probe_that_says_done_finishes_the_request_without_calling_it_again(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine, raw_account(b"running", b"done") as (server, said):
        said.append(b"")
        async with listening(url, server.url, tmp_path / "s", in_doubt="ask", probe="/probe"):
            first, second = await engine.send("/a"), await engine.send("/b")
            await engine.answer(second)

    asked = [each.split()[1] for each in server.requests]
    assert asked == [b"/a", *[f"/probe?transaction={first}".encode()] * 2, b"/b"]
    assert {part.outcome for part in engine.parts[first]["one"]} == {"failed"}


async def test_a_probe_that_does_not_know_the_number_after_the_time_is_over_has_it_called_again(url: str, tmp_path: Path) -> None:
    domain = Domain(name="shop", call_timeout=0.2)
    async with asking_engine(url, domain) as engine, raw_account(b"unknown") as (server, said):
        said.append(b"")
        async with listening(url, server.url, tmp_path / "s", in_doubt="ask", probe="/probe"):
            number = await engine.send("/a")
            await until(lambda: [each.split()[1] for each in server.requests].count(b"/a") == 2, "it is called again")
            await engine.answer(number)

    assert b"/probe" in server.requests[1]


async def test_with_the_policy_rebuild_nothing_follows_and_the_state_says_so(url: str, tmp_path: Path) -> None:
    account = raw_account()
    async with asking_engine(url, Domain(name="shop")) as engine, account as (server, said):
        listener = Listener(url, "shop", "one", call=server.url, store=tmp_path / "s", in_doubt="rebuild")
        async with running(listener):
            await engine.until_current("one")
            said.append(b"")
            await engine.send("/a")
            await engine.send("/b")
            await until(lambda: engine.states["one"].state == "rebuilding", "it says that it must be rebuilt")

            assert [each.split()[1] for each in server.requests] == [b"/a"]
            assert "in doubt" in listener.requests.needs_rebuild


async def test_a_request_that_is_skipped_before_its_call_has_begun_is_not_called(url: str, tmp_path: Path) -> None:
    account, go_on = Account(), asyncio.Event()
    async with asking_engine(url, Domain(name="shop")) as engine, listening(url, account, tmp_path / "s") as listener:
        await engine.until_current("one")
        reserve = listener.confirms.reserve

        async def reserve_late(place: int) -> None:
            await go_on.wait()
            await reserve(place)

        listener.confirms.reserve = reserve_late  # type: ignore[method-assign]
        number = await engine.send("/poison")
        await until(lambda: listener.requests.place_of(number), "it is under way")
        listener.requests.skip(number)
        go_on.set()
        after = await engine.answer(await engine.send("/next"))
        skipped = await engine.answer(number)

    assert (account.targets, after.body) == (["/next"], b"1")
    assert skipped.head is not None
    assert skipped.head.status == 500


async def test_a_server_that_is_away_is_behind_until_it_is_back_and_has_caught_up(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine:
        async with raw_account() as (server, _):
            port = server.port
        async with listening(url, f"http://127.0.0.1:{port}", tmp_path / "s"):
            await engine.until_current("one")
            numbers = [await engine.send(f"/{each}") for each in range(3)]
            await until(lambda: engine.states["one"].state == "behind", "it says that it is behind")
            back = await asyncio.start_server(_ok, "127.0.0.1", port)
            async with back:
                assert await bodies(engine, numbers) == [b"ok"] * 3
                await engine.until_current("one")


async def _ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(OK.replace(b"200 OK\r\n", b"200 OK\r\nConnection: close\r\n"))
    writer.close()


# --- a server that was started again (15) --------------------------------------------------------------------------------------


class Restarting:
    """A server that knows its transactions, and ends every connection: it can be started again between any two requests."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.starts = 1
        self.tells_last = True

    async def say(self, writer: asyncio.StreamWriter, asked: bytes) -> bool:
        if b"GET /probe" in asked:
            last = f', "last": "{self.done[-1] if self.done else ""}"' if self.tells_last else ""
            writer.write(json_answer(f'{{"start": "{self.starts}"{last}}}'.encode()))
            return True
        number = next(line.split(b": ")[1] for line in asked.split(b"\r\n") if line.startswith(b"holdfast-transaction"))
        self.done.append(number.decode())
        writer.write(OK)
        return False


async def _after_a_restart(url: str, folder: Path, server: Restarting, lost: int) -> tuple[list[str], bool, list[str], list[str]]:
    """Three requests, a restart in which the newest are lost, and two more: resets, whether its state is known, what is done."""
    resets: list[str] = []

    async def reset(snapshot: str) -> None:
        resets.append(snapshot)
        server.done.clear()

    domain = Domain(name="shop", tell_server=True)
    async with (
        raw_http_server(server.say) as http,
        asking_engine(url, domain) as engine,
        listening(url, http.url, folder, probe="/probe", reset=reset) as listener,
    ):
        numbers = [await engine.send(f"/{each}") for each in range(3)]
        await bodies(engine, numbers)
        server.starts += 1
        del server.done[len(server.done) - lost :]
        numbers += [await engine.send("/3"), await engine.send("/4")]
        await until(lambda: server.done[-1:] == numbers[-1:], "the last one is done")
        await engine.until_current("one")
        return resets, not listener.description()["unknown"], list(server.done), numbers


async def test_a_server_that_was_started_again_and_tells_its_last_transaction_goes_on(url: str, tmp_path: Path) -> None:
    resets, is_known, done, numbers = await _after_a_restart(url, tmp_path / "s", Restarting(), lost=0)

    assert (resets, is_known, done) == ([], True, numbers)


@pytest.mark.parametrize("lost", [1, 3])
async def test_a_server_whose_last_transaction_is_an_earlier_one_is_rebuilt_before_it_is_called(
    url: str, tmp_path: Path, lost: int
) -> None:
    resets, _, done, numbers = await _after_a_restart(url, tmp_path / "s", Restarting(), lost)

    assert (resets, done) == ([""], numbers)


async def test_the_state_of_a_server_that_was_started_again_and_does_not_tell_its_last_transaction_is_called_unknown(
    url: str, tmp_path: Path
) -> None:
    server = Restarting()
    server.tells_last = False

    resets, is_known, done, numbers = await _after_a_restart(url, tmp_path / "s", server, lost=0)

    assert (resets, is_known, done) == ([], False, numbers)
