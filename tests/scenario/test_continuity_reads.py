"""Reads of a domain, beside its journal, and the comparison of answers. All of it in one process."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from holdfast.continuity import request
from holdfast.continuity.domain import Domain, Route
from holdfast.continuity.engine.transactions import reads
from holdfast.continuity.errors import NotTaken
from holdfast.continuity.machines.membership import DISAGREEMENTS_MAX
from tests.continuing import Teller, continuing, hold
from tests.waiting import until

_numbers = itertools.count()
ALL = Domain(name="shop", routes=(Route("/count"),))
HEDGED = Domain(name="shop", routes=(Route("/count", send="hedged"),))


@pytest.fixture
def url() -> str:
    return f"memory:continuity-reads-{next(_numbers)}"


@pytest.fixture
def quiet_hedge(monkeypatch: pytest.MonkeyPatch) -> None:
    """No second server is asked for slowness alone."""
    monkeypatch.setattr(reads, "HEDGE_SECONDS", 60)


# --- reads -------------------------------------------------------------------------------------------------------------


async def test_a_declared_read_goes_to_all_current_servers_and_not_through_the_journal(url: str, tmp_path: Path) -> None:
    one, two = Teller(), Teller()
    seen: list[tuple[str, Any]] = []
    async with continuing(url, ALL, tmp_path, one, two) as shop:
        noting = await shop.events(seen, shop.domain.requests)
        answer = await shop.http.get("/count")
        await until(lambda: one.reads == two.reads == 1, "both were asked")
        await shop.http.get("/elsewhere")  # not declared: in the journal, as a write
        await until(lambda: any(kind == request.REQUEST for kind, _ in seen), "the other one is in the topic")
        noting.cancel()

    assert (answer.status_code, answer.text) == (200, "0")
    assert "holdfast-transaction" in answer.headers
    assert [kind for kind, _ in seen].count(request.REQUEST) == 1


async def test_a_read_to_all_is_answered_while_one_server_hangs(url: str, tmp_path: Path) -> None:
    hanging, good = Teller(), Teller()
    async with continuing(url, ALL, tmp_path, hanging, good) as shop:
        hanging.reads_go_on.clear()
        answer = await shop.http.get("/count")

    assert answer.text == "0"


async def test_a_hedged_read_goes_to_one_server_and_they_take_turns(url: str, tmp_path: Path, quiet_hedge: None) -> None:
    one, two = Teller(), Teller()
    async with continuing(url, HEDGED, tmp_path, one, two) as shop:
        for _ in range(10):
            await shop.http.get("/count")

    assert (one.reads, two.reads) == (5, 5)


async def test_a_hedged_read_goes_to_the_next_server_when_the_first_hangs(url: str, tmp_path: Path) -> None:
    hanging, good = Teller(), Teller()
    async with continuing(url, HEDGED, tmp_path, hanging, good) as shop:
        hanging.reads_go_on.clear()
        answers = [await shop.http.get("/count") for _ in range(4)]

    assert [each.text for each in answers] == ["0"] * 4
    assert hanging.reads == 2


async def test_a_hedged_read_goes_to_the_next_server_at_once_when_the_first_declines(
    url: str, tmp_path: Path, quiet_hedge: None
) -> None:
    one, behind = Teller(), Teller()
    async with continuing(url, HEDGED, tmp_path, one, behind) as shop:
        hold(behind)
        await shop.engine.request("POST", "/", session="ada")
        answers = [await shop.engine.request("GET", "/count", session="ada") for _ in range(4)]

    assert [each.body for each in answers] == [b"1"] * 4
    assert behind.reads == 0


async def test_a_hedged_read_that_fails_at_one_server_is_answered_by_the_next(
    url: str, tmp_path: Path, quiet_hedge: None
) -> None:
    bad, good = Teller(), Teller()
    bad.status = 500
    async with continuing(url, HEDGED, tmp_path, bad, good) as shop:
        answers = [await shop.http.get("/count") for _ in range(4)]

    assert [each.status_code for each in answers] == [200] * 4
    assert bad.reads


async def test_a_session_reads_its_own_write_also_where_a_server_is_behind(url: str, tmp_path: Path) -> None:
    one, behind = Teller(), Teller()
    async with continuing(url, ALL, tmp_path, one, behind) as shop:
        hold(behind)
        for count in range(1, 6):
            await shop.engine.request("POST", "/", session="ada")
            assert (await shop.engine.request("GET", "/count", session="ada")).body == b"%d" % count

    assert behind.reads == 0


async def test_a_read_that_every_server_declines_is_refused_and_may_be_repeated(url: str, tmp_path: Path) -> None:
    one, behind = Teller(), Teller()
    async with continuing(url, ALL, tmp_path, one, behind) as shop:
        release = hold(behind)
        await shop.engine.request("POST", "/", session="ada")
        shop.listeners["one"].stop()
        await shop.listeners["one"].links.close()
        await shop.until_current("two")
        with pytest.raises(NotTaken):
            await shop.engine.request("GET", "/count", session="ada")
        release()
        await until(lambda: shop.listeners["two"].requests.order.finished >= shop.listeners["two"].events.place, "it caught up")
        answer = await shop.engine.request("GET", "/count", session="ada")

    assert answer.body == b"1"


# --- comparison --------------------------------------------------------------------------------------------------------


async def test_reads_are_compared_at_equal_places_only(url: str, tmp_path: Path) -> None:
    one, two = Teller(), Teller()
    async with continuing(url, ALL, tmp_path, one, two) as shop:
        await shop.engine.request("POST", "/", session="ada")
        await until(lambda: len(one.asked) == len(two.asked) == 1, "both are at the same place")
        await until(lambda: two._done == 1, "and have finished")
        release = hold(two)
        await shop.engine.request("POST", "/", session="bob")  # done at one alone
        await shop.engine.request("GET", "/count", session="ada")
        await until(lambda: one.reads == two.reads == 1, "both have read, at different places")
        await until(lambda: not shop.engine._under_way._transactions.keys() - _writes(shop.engine), "both have answered")
        before = shop.engine.figures["disagreements"]
        release()
        await until(lambda: two._done == 2, "both are at the same place again")
        two.lie = b"!"
        await until(lambda: _has_read_a_difference(shop), "the difference is told", poll_s=0.02)

    assert before == 0


def _writes(engine: Any) -> set[str]:
    return {number for number, each in engine._under_way._transactions.items() if not each.is_read}


async def _has_read_a_difference(shop: Any) -> bool:
    await shop.engine.request("GET", "/count", session="ada")
    return bool(shop.engine.figures["disagreements"])


async def test_of_two_servers_that_differ_both_are_named_in_the_topic_and_stay(url: str, tmp_path: Path) -> None:
    one, liar = Teller(), Teller()
    liar.lie = b" and a million"
    told: list[tuple[str, Any]] = []
    async with continuing(url, Domain(name="shop"), tmp_path, one, liar) as shop:
        noting = await shop.events(told, shop.domain.disagreements)
        answer = await shop.http.post("/")
        await until(lambda: told, "the disagreement is told")
        await shop.until_current("one", "two")
        noting.cancel()

    ((_, event),) = told
    assert event["transaction"] == answer.headers["holdfast-transaction"]
    assert (event["named"], event["kinds"]) == (["one", "two"], {})
    assert event["digests"]["one"] != event["digests"]["two"]


async def test_of_three_servers_the_one_against_the_majority_is_called_wrong_and_removed_at_last(
    url: str, tmp_path: Path
) -> None:
    one, two, liar = Teller(), Teller(), Teller()
    liar.lie = b" and a million"
    told: list[tuple[str, Any]] = []
    async with continuing(url, Domain(name="shop"), tmp_path, one, two, liar) as shop:
        noting = await shop.events(told, shop.domain.disagreements)
        for _ in range(DISAGREEMENTS_MAX):
            await shop.http.post("/")
        await shop.until_current("one", "two")
        await until(lambda: len(told) == DISAGREEMENTS_MAX, "all are told")
        noting.cancel()
        after = await asyncio.gather(*(shop.http.post("/") for _ in range(5)))

    assert [event["kinds"] for _, event in told] == [{"three": "wrong"}] * DISAGREEMENTS_MAX
    assert not any("million" in each.text for each in after)
