"""Keys of requests to a domain: a retry gets the answer of the first, once for all servers. All of it in one process."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from holdfast.continuity.domain import Domain
from holdfast.continuity.errors import NotAnswered
from holdfast.continuity.listener.durable import store
from tests.asking_engine import asking_engine
from tests.continuing import Teller, continuing, hold
from tests.listening import Account, bodies, listening
from tests.waiting import until

_numbers = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory:continuity-keys-{next(_numbers)}"


async def test_a_key_that_is_known_gets_the_stored_answer_marked_as_replayed(url: str, tmp_path: Path) -> None:
    one, two = Teller(), Teller()
    async with continuing(url, Domain(name="shop"), tmp_path, one, two) as shop:
        first, again = [await shop.http.post("/order", headers={"Idempotency-Key": '"k"'}) for _ in range(2)]
        await shop.until_even()

    assert (first.text, again.text) == ("1", "1")
    assert "holdfast-replayed" not in first.headers
    assert again.headers["holdfast-replayed"] == "true"
    assert one.targets == two.targets == ["/order"]


async def test_a_retry_of_a_request_that_is_running_waits_for_its_answer(url: str, tmp_path: Path) -> None:
    one = Teller()
    async with continuing(url, Domain(name="shop", order="session"), tmp_path, one) as shop:
        release = hold(one)
        asking = [
            asyncio.create_task(shop.engine.request("POST", "/order", key="k", session=session)) for session in ("ada", "bob")
        ]
        await until(lambda: shop.listeners["one"].events.place >= 6, "both have come")
        release()
        answers = await asyncio.gather(*asking)

    assert [each.body for each in answers] == [b"1", b"1"]
    assert sorted(each.outcome for each in answers) == ["answered", "replayed"]
    assert one.targets == ["/order"]


@pytest.mark.parametrize(
    "other", [{"content": b"another"}, {"headers": {"Authorization": "Bearer bob"}}, {"headers": {"Cookie": "user=bob"}}]
)
async def test_a_key_with_another_body_or_other_credentials_gets_422(url: str, tmp_path: Path, other: dict[str, Any]) -> None:
    one, two = Teller(), Teller()
    async with continuing(url, Domain(name="shop"), tmp_path, one, two) as shop:
        await shop.http.post("/order", headers={"Idempotency-Key": "k"})
        headers = {"Idempotency-Key": "k", **other.get("headers", {})}
        clash = await shop.http.post("/order", content=other.get("content", b""), headers=headers)
        await shop.until_even()

    assert clash.status_code == 422
    assert one.targets == two.targets == ["/order"]


async def test_keys_are_forgotten_by_the_times_of_events_alike_at_a_server_that_comes_to_them_later(
    url: str, tmp_path: Path
) -> None:
    one, late = Teller(), Teller()
    async with continuing(url, Domain(name="shop", keys_kept=0.3), tmp_path, one, late) as shop:
        release = hold(late)

        async def is_done_again() -> bool:
            await shop.http.post("/order", headers={"Idempotency-Key": "k"})
            return one.targets.count("/order") >= 3

        await until(is_done_again, "the key was forgotten twice", poll_s=0.02)
        release()  # the late one judges the same events a second later
        await shop.until_even()

    assert one.targets == late.targets


async def test_without_a_key_the_engine_makes_one_that_is_the_same_at_all_servers_and_another_each_time(
    url: str, tmp_path: Path
) -> None:
    one, two = Teller(), Teller()
    async with continuing(url, Domain(name="shop"), tmp_path, one, two) as shop:
        for _ in range(2):
            await shop.http.post("/order")
        await until(lambda: len(one.asked) == len(two.asked) == 2, "both were called")

    keys = [[dict(each.headers)[b"idempotency-key"] for each in teller.asked] for teller in (one, two)]
    assert keys[0] == keys[1]
    assert keys[0][0] != keys[0][1]


async def test_an_engine_in_a_program_tells_number_and_key_when_there_is_no_answer(url: str, tmp_path: Path) -> None:
    one = Teller()
    async with continuing(url, Domain(name="shop", answer_timeout=0.1), tmp_path, one) as shop:
        release = hold(one)
        with pytest.raises(NotAnswered) as problem:
            await shop.engine.request("POST", "/")
        release()
        again = await shop.engine.request("POST", "/", key=problem.value.key)

    assert (problem.value.status, again.outcome, again.body) == (504, "replayed", b"1")


@pytest.mark.slow
async def test_the_store_is_bounded_and_a_listener_that_starts_again_goes_on_from_what_it_keeps(url: str, tmp_path: Path) -> None:
    domain, account = Domain(name="shop", keys_kept=0.02, answers_bytes=65_536), Account()
    account.size = 1_000
    sizes = []
    async with asking_engine(url, domain) as engine:
        for life in range(2):
            async with listening(url, account, tmp_path / "s") as listener:
                for _ in range(400):
                    await engine.answer(await engine.send("/a"))
                members, keys = listener.membership.members, len(listener.events.keys)
            sizes.append(sum(path.stat().st_size for path in (tmp_path / "s").glob("*-*")))
            assert (list(members), len(account.targets)) == (["one"], 400 * (life + 1))

    assert (tmp_path / "s" / "lasting").exists()
    assert max(sizes) < 150_000
    assert keys < 400


async def test_events_that_were_finished_and_not_confirmed_are_passed_over_however_many_they_are(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "RECENT_MAX", 8)
    account = Account()
    async with asking_engine(url, Domain(name="shop")) as engine:
        async with listening(url, account, tmp_path / "s"):
            numbers = [await engine.send(f"/{each}") for each in range(30)]
            await bodies(engine, numbers)
        await engine.client.create_subscription("domain.shop.requests", "server.one", like="history", replace=True)
        async with listening(url, account, tmp_path / "s"):
            await engine.answer(await engine.send("/new"))

    assert account.targets == [*(f"/{each}" for each in range(30)), "/new"]
