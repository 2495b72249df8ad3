"""Servers that are brought up to date: real banks that lose everything, come late, lag or lie, behind an engine that goes on."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.continuity import domain_status, register, request
from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.domain import HISTORY, Domain, LagLimit
from holdfast.continuity.errors import NotTaken, StoreDamaged
from holdfast.continuity.listener.listener import Listener
from holdfast.continuity.listener.rebuild import upkeep
from holdfast.continuity.request import Content
from tests.asking_engine import asking_engine
from tests.bank_branch import branch
from tests.bank_process import BankProcess
from tests.listening import Account, listening, running
from tests.waiting import until

pytestmark = pytest.mark.slow

_numbers = itertools.count()


# --- lost servers ------------------------------------------------------------------------------------------------------


async def test_a_server_that_lost_everything_becomes_equal_again_from_the_history(tmp_path: Path) -> None:
    async with branch(tmp_path) as domain:
        for name in "ab":
            await domain.add(name, forgets=name == "b")
        await domain.deposit(50)
        domain.banks["b"].kill_and_lose_everything()
        await domain.deposit(20)

        await until(lambda: domain.banks["b"].resets, "b was reset")
        await domain.until_current("b")
        await domain.deposit(5)
        await domain.until_equal()

        assert domain.banks["b"].resets == [""]
        assert domain.banks["a"].resets == []


async def test_a_server_that_forgets_and_was_started_again_unseen_is_rebuilt_before_it_is_called(tmp_path: Path) -> None:
    async with branch(tmp_path) as domain:
        await domain.add("a")
        bank = await domain.add("b", forgets=True, probe="/start")
        await domain.deposit(20)
        await domain.until_equal()
        bank.kill_and_lose_everything()
        bank.start()
        empty = bank.digest()

        balances = await domain.deposit(20)
        await until(lambda: bank.resets, "b was reset")
        await domain.until_current("b")
        await domain.until_equal()

        assert bank.resets == [""]
        assert bank.digest() != empty
        assert balances == [balance for balance in (3, 4) for _ in range(10)]  # never an answer of the empty one


async def test_a_server_that_answered_an_error_where_another_answer_was_given_is_rebuilt(tmp_path: Path) -> None:
    url = f"memory:rebuild-{next(_numbers)}"
    resets: list[str] = []

    async def broken(content: Content) -> Answer:
        return Answer(Head(500 if not resets else 200, [], 0), b"")

    async def reset(snapshot: str) -> None:
        resets.append(snapshot)

    async with asking_engine(url, Domain(name="shop")) as engine, listening(url, broken, tmp_path / "s", reset=reset):
        await engine.answer(await engine.send("/a", key="k"))
        await engine.client.topic("domain.shop.requests").send({"given": [["k", "two", "00" * 16]]}, type=request.GIVEN)
        await until(lambda: resets, "it was reset")
        await engine.until_current("one")

    assert resets == [""]


async def test_a_server_that_dies_of_a_request_that_another_answered_is_rebuilt(tmp_path: Path) -> None:
    async with branch(tmp_path) as domain:
        await domain.add("a", "--slow", "0.05")
        bank = await domain.add("b")
        await domain.deposit(5)
        bank.make_unwritable()
        await domain.deposit(1)

        await until(lambda: bank.resets, "b was reset")
        await domain.until_current("b")
        await domain.until_equal()


async def test_a_server_that_must_be_rebuilt_and_cannot_be_is_told_with_what_to_do_and_is_behind_for_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with branch(tmp_path) as domain:
        await domain.add("a", "--slow", "0.05")
        bank = await domain.add("b", reset=None)
        await domain.deposit(5)
        bank.make_unwritable()
        await domain.deposit(1)

        await until(lambda: domain.member("b", seen_by="a") == "behind", "all know that b is behind")
        told: dict[str, Any] = {}

        async def is_told() -> bool:  # a listener may be too late to be in one status
            told.update(await domain_status.ask(domain.engine.client, "bank"))
            return any("must be rebuilt" in each for each in told["attention"])

        await until(is_told, "the status says it")
        await domain.deposit(5)

    (sentence,) = [each for each in told["attention"] if "must be rebuilt" in each]
    assert "server b" in sentence
    assert "--reset" in sentence
    assert "another has answered" in sentence
    assert [each["state"] for each in told["servers"]] == ["current", "rebuilding"]
    assert any(each.levelname == "ERROR" and "--reset" in each.getMessage() for each in caplog.records)


async def test_a_server_is_rebuilt_on_command_from_its_newest_snapshot_and_what_came_after(tmp_path: Path) -> None:
    async with branch(tmp_path) as domain:
        await domain.add("a")
        bank = domain.banks["b"] = domain._stack.enter_context(BankProcess(tmp_path, "b"))
        await domain.listen("b", snapshot=bank.snapshot, snapshot_every="30")
        await domain.deposit(70)
        snapshots = domain.listeners["b"]._rebuild.snapshots
        await until(lambda: snapshots.newest() is not None, "a snapshot was taken")
        await domain.deposit(5)
        bank.kill_and_lose_everything()
        bank.start()

        await domain.say("rebuild", "b")
        await until(lambda: bank.resets, "b was reset")
        await domain.until_current("b")
        await domain.deposit(5)
        await domain.until_equal()

        assert len(bank.resets) == 1
        assert Path(bank.resets[0]).parent.parent == snapshots.folder
        assert domain.member("b", seen_by="a") == "current"


async def test_a_new_server_joins_under_load_and_ends_equal(tmp_path: Path) -> None:
    async with branch(tmp_path) as domain:
        for name in "ab":
            await domain.add(name)
        await domain.deposit(100)
        load = asyncio.create_task(domain.deposit(200))
        await domain.add("c")
        joined_after = domain.deposits
        await load
        await domain.until_equal()

        assert joined_after < 300
        assert domain.banks["c"].resets == []


async def test_a_rebuild_that_was_interrupted_is_begun_again_at_the_next_start(tmp_path: Path) -> None:
    url, account, resets = f"memory:rebuild-{next(_numbers)}", Account(), [0]

    async def reset(snapshot: str) -> None:
        resets[0] += 1
        account.targets.clear()
        if resets[0] == 1:
            raise OSError("the machine goes down")

    async with asking_engine(url, Domain(name="shop")) as engine:
        async with Listener(url, "shop", "one", call=account, store=tmp_path / "s", reset=reset) as listener:
            working = asyncio.create_task(listener.run())
            await engine.answer(await engine.send("/a"))
            listener.requests.want_rebuild("its disk was exchanged")
            with pytest.raises(OSError, match="goes down"):
                await working
        async with listening(url, account, tmp_path / "s", reset=reset):
            answer = await engine.answer(await engine.send("/b"))

    assert resets == [2]
    assert (account.targets, answer.body) == (["/a", "/b"], b"2")


async def test_a_store_that_has_more_than_the_topic_is_refused_or_rebuilt(tmp_path: Path) -> None:
    url, account, resets = f"memory:rebuild-{next(_numbers)}", Account(), list[str]()

    async def reset(snapshot: str) -> None:
        resets.append(snapshot)
        account.targets.clear()

    async with asking_engine(url, Domain(name="shop")) as engine:
        async with listening(url, account, tmp_path / "s"):
            for _ in range(20):
                await engine.answer(await engine.send("/old"))
        await register.delete(engine.client, "shop", force=True)
    async with asking_engine(url, Domain(name="shop")) as engine:
        await engine.client.create_subscription("domain.shop.requests", "server.one", like=HISTORY)
        with pytest.raises(StoreDamaged, match="--reset"):
            await Listener(url, "shop", "one", call=account, store=tmp_path / "s").open()
        async with listening(url, account, tmp_path / "s", reset=reset):
            answer = await engine.answer(await engine.send("/new"))

    assert (resets, account.targets, answer.body) == ([""], ["/new"], b"1")


# --- servers that lag --------------------------------------------------------------------------------------------------


async def test_a_server_past_the_lag_limit_is_removed_and_comes_back_while_the_domain_goes_on(tmp_path: Path) -> None:
    async with branch(tmp_path, lag_max=LagLimit(events=50)) as domain:
        for name in "ab":
            await domain.add(name)
        await domain.deposit(10)
        domain.banks["b"].stop_answering()
        await domain.deposit(100)

        await until(lambda: domain.banks["b"].resets, "b was removed, and reset")
        await domain.until_current("b")
        await domain.deposit(10)
        await domain.until_equal()
        await until(lambda: domain.member("b", seen_by="a") == "current", "b is a member again")


async def test_the_subscription_of_a_server_whose_listener_is_gone_is_deleted_past_the_limit(tmp_path: Path) -> None:
    async with branch(tmp_path, lag_max=LagLimit(events=50)) as domain:
        await domain.add("a")
        bank = domain.banks["b"] = domain._stack.enter_context(BankProcess(tmp_path, "b"))
        listener = Listener(domain.url, "bank", "b", call=bank.url, store=tmp_path / "store-b", reset=bank.reset)
        async with running(listener):
            await until(lambda: listener.state_now == "current", "b is current")
        await domain.deposit(100)
        client = domain.engine.client
        await until(lambda: _is_gone(client, "server.b"), "the subscription of b is deleted", poll_s=0.1)

        await domain.listen("b")
        await domain.until_equal()
        assert bank.resets == [""]


async def test_an_engine_removes_a_server_past_the_limit_if_no_listener_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "UPKEEP_SECONDS", 3_600.0)
    async with branch(tmp_path, lag_max=LagLimit(events=0, bytes=20_000, seconds=0)) as domain:
        await domain.add("a")
        bank = domain.banks["b"] = domain._stack.enter_context(BankProcess(tmp_path, "b"))
        listener = Listener(domain.url, "bank", "b", call=bank.url, store=tmp_path / "store-b", reset=bank.reset)
        async with running(listener):
            await until(lambda: listener.state_now == "current", "b is current")
            await until(lambda: "b" in domain.engine.servers.members.members, "the engine knows b")
        assert not await _is_gone(domain.engine.client, "server.b")
        async with asyncio.timeout(60):
            while domain.member("b", seen_by="a") != "removed":
                await domain.deposit(10)

        await until(lambda: _is_gone(domain.engine.client, "server.b"), "the subscription of b is deleted", poll_s=0.1)
        await domain.deposit(1)


async def _is_gone(client: holdfast.Client, name: str) -> bool:
    return name not in [each["name"] for each in await client.subscriptions("domain.bank.requests")]


async def test_the_last_servers_are_never_removed(tmp_path: Path) -> None:
    async with branch(tmp_path, servers_min=2, lag_max=LagLimit(events=20)) as domain:
        for name in "ab":
            await domain.add(name)
        await domain.deposit(5)
        domain.banks["b"].kill()
        await domain.deposit(1)
        async with holdfast.connect(domain.url) as client:
            for _ in range(30):  # they stay behind the request that b has not finished
                await client.topic("domain.bank.requests").send({"session": "x"}, type="holdfast.domain.session")
            (lag,) = [
                each["waiting"] for each in await client.subscriptions("domain.bank.requests") if each["name"] == "server.b"
            ]
            assert lag > 20
        await until(lambda: domain.member("b", seen_by="a") == "behind", "b is behind, further than the limit")
        with pytest.raises(NotTaken):
            await domain.deposit(1)
        place = domain.listeners["a"].events.place
        await domain.say("remove", "b")
        await until(lambda: domain.listeners["a"].events.place > place, "a has heard that b is to be removed")
        assert domain.member("b", seen_by="a") == "behind"

        domain.banks["b"].start()
        await domain.until_current("b")
        await domain.until_equal()
        assert domain.banks["b"].resets == []


# --- drained, and shadows ----------------------------------------------------------------------------------------------


async def test_a_drained_server_finishes_what_it_has_and_ends_and_comes_back_by_reading_on(tmp_path: Path) -> None:
    async with branch(tmp_path) as domain:
        await domain.add("a")
        bank = domain.banks["b"] = domain._stack.enter_context(BankProcess(tmp_path, "b"))
        async with Listener(domain.url, "bank", "b", call=bank.url, store=tmp_path / "store-b") as listener:
            working = asyncio.create_task(listener.run())
            await until(lambda: listener.state_now == "current", "b is current")
            await domain.deposit(20)
            await domain.say("drain", "b")
            await working
        await domain.until_equal()
        await domain.deposit(10)

        assert domain.member("b", seen_by="a") == "drained"
        await domain.listen("b")
        await domain.until_equal()


async def test_a_server_that_fails_is_behind_in_the_membership_until_it_has_caught_up(tmp_path: Path) -> None:
    async with branch(tmp_path) as domain:
        for name in "ab":
            await domain.add(name)
        domain.banks["b"].kill()
        await domain.deposit(3)
        await until(lambda: domain.member("b", seen_by="a") == "behind", "b is behind")
        domain.banks["b"].start()
        await until(lambda: domain.member("b", seen_by="a") == "current", "b is current again")
        await domain.until_equal()


async def test_a_lying_shadow_is_named_and_never_answers(tmp_path: Path) -> None:
    async with branch(tmp_path) as domain:
        async with holdfast.connect(domain.url) as client, client.subscribe("domain.bank.disagreements") as told:
            await domain.add("a", "--slow", "0.02")
            await domain.add("b", "--slow", "0.02")
            await domain.add("s", "--lie", role="shadow")
            balances = await domain.deposit(20)
            event = await told.next(timeout=30)

        assert max(balances) < 1_000_000
        assert event.data["kinds"]["s"] == "wrong"
        assert event.data["given"] in ("a", "b")
        assert domain.listeners["a"].membership.current == ["a", "b"]
        await domain.until_equal()
