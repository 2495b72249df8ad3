"""Requests to a domain: taken or refused, and answered once. All of it in one process."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.continuity import domain_status, register, request
from holdfast.continuity.domain import Domain
from holdfast.continuity.engine import application, registration
from holdfast.continuity.engine.engine import Engine
from holdfast.continuity.engine.transactions import writes
from holdfast.continuity.errors import NoSuchDomain, NotTaken
from holdfast.continuity.listener import listener as listener_module
from holdfast.continuity.machines.membership import ENGINES_MAX
from tests.continuing import HttpClient, Teller, continuing, current_at, hold
from tests.listening import listening, raw_account
from tests.server_process import ServerProcess
from tests.waiting import until

_numbers = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory:continuity-requests-{next(_numbers)}"


# --- taken or refused --------------------------------------------------------------------------------------------------


async def test_below_servers_min_a_request_gets_503_and_is_never_done(url: str, tmp_path: Path) -> None:
    one, two = Teller(), Teller()
    async with continuing(url, Domain(name="shop", servers_min=2), tmp_path, one) as shop:
        refused = await shop.http.post("/refused")
        async with listening(url, two, tmp_path / "two", server="two"):
            await shop.until_current("one", "two")
            taken = await shop.http.post("/taken")
            await until(lambda: one.targets and two.targets, "both were called")

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert taken.status_code == 200
    assert one.targets == two.targets == ["/taken"]


async def test_a_domain_serves_down_to_one_server(url: str, tmp_path: Path) -> None:
    async with continuing(url, Domain(name="shop"), tmp_path, Teller(), Teller()) as shop:
        both = await shop.http.post("/")
        shop.listeners["two"].stop()
        await shop.listeners["two"].links.close()
        await shop.until_current("one")
        alone = await shop.http.post("/")

    assert (both.text, alone.text) == ("1", "2")


async def test_an_accepted_request_is_done_at_all_servers_although_its_client_has_left(url: str, tmp_path: Path) -> None:
    one, two = Teller(), Teller()
    async with continuing(url, Domain(name="shop"), tmp_path, one, two) as shop:
        release = hold(one, two)
        asking = asyncio.create_task(shop.http.post("/order", headers={"Idempotency-Key": "k"}))
        await until(lambda: one.running and two.running, "both are called")
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        release()
        again = await shop.http.post("/order", headers={"Idempotency-Key": "k"})
        await shop.until_even()

    assert (again.text, again.headers["holdfast-replayed"]) == ("1", "true")
    assert one.targets == two.targets == ["/order"]


async def test_without_an_answer_in_time_504_tells_number_and_key_with_which_a_retry_gets_the_answer(
    url: str, tmp_path: Path
) -> None:
    one, two = Teller(), Teller()
    async with continuing(url, Domain(name="shop", answer_timeout=0.2), tmp_path, one, two) as shop:
        release = hold(one, two)
        late = await shop.http.post("/order")
        release()
        again = await shop.http.post("/order", headers={"Idempotency-Key": late.headers["holdfast-key"]})

    assert late.status_code == 504
    assert late.headers["holdfast-transaction"] in late.text
    assert (again.status_code, again.text, again.headers["holdfast-replayed"]) == (200, "1", "true")
    assert one.targets == ["/order"]


async def test_neither_server_nor_client_sees_an_internal_header_and_the_client_gets_a_confirmation_number(
    url: str, tmp_path: Path
) -> None:
    one = Teller()
    one.headers = [(b"holdfast-seed", b"7"), (b"x-own", b"yes"), (b"connection", b"close")]
    sent = {"Holdfast-Transaction": "forged", "Holdfast-Time": "1", "Accept-Encoding": "br", "X-Mine": "yes"}
    async with continuing(url, Domain(name="shop"), tmp_path, one) as shop:
        answer = await shop.http.post("/", headers=sent)
        other = await shop.http.post("/")

    seen = {name for name, _ in one.asked[0].headers}
    assert b"x-mine" in seen
    assert not any(name.startswith(b"holdfast") or name in (b"accept-encoding", b"connection") for name in seen)
    assert answer.headers["x-own"] == "yes"
    assert [name for name in answer.headers if name.startswith("holdfast")] == ["holdfast-transaction"]
    assert "connection" not in answer.headers
    assert answer.headers["holdfast-transaction"] not in ("forged", other.headers["holdfast-transaction"])


async def test_servers_that_are_to_be_told_see_the_same_number_key_time_and_seed(url: str, tmp_path: Path) -> None:
    one, two = Teller(), Teller()
    async with continuing(url, Domain(name="shop", tell_server=True), tmp_path, one, two) as shop:
        answer = await shop.http.post("/")
        await until(lambda: one.asked and two.asked, "both were called")

    told = [{name: value for name, value in each.asked[0].headers if name.startswith(b"holdfast-")} for each in (one, two)]
    assert told[0] == told[1]
    assert set(told[0]) == {b"holdfast-transaction", b"holdfast-key", b"holdfast-time", b"holdfast-seed"}
    assert told[0][b"holdfast-transaction"].decode() == answer.headers["holdfast-transaction"]


async def test_a_full_engine_answers_503_with_retry_after_and_keeps_no_more_than_its_limit(url: str, tmp_path: Path) -> None:
    one = Teller()
    async with continuing(url, Domain(name="shop", requests_max=3), tmp_path, one) as shop:
        release = hold(one)
        asking = [asyncio.create_task(shop.http.post(f"/{each}")) for each in range(3)]
        await until(lambda: len(shop.engine._under_way) == 3, "three are under way")
        refused = [await shop.http.post("/refused") for _ in range(20)]
        kept = len(shop.engine._under_way)
        release()
        answers = await asyncio.gather(*asking)
        after = await shop.http.post("/after")

    assert {(each.status_code, each.headers["retry-after"]) for each in refused} == {(503, "1")}
    assert kept == 3
    assert [each.status_code for each in answers] == [200] * 3
    assert after.text == "4"


@pytest.mark.slow
async def test_a_full_journal_answers_503_with_retry_after_and_what_was_refused_is_neither_done_nor_kept(tmp_path: Path) -> None:
    one = Teller()
    sizes = ("--journal-size", "16M", "--segment-size", "1M", "--reserve", "2M")
    with ServerProcess(tmp_path / "data", *sizes) as server:
        async with continuing(server.url, Domain(name="shop"), tmp_path, one) as shop:
            statuses = [(await shop.http.post(f"/{each}", content=bytes(200_000))).status_code for each in range(80)]
            last = await shop.http.post("/last", content=bytes(200_000))
            await shop.until_even()
            kept = [*shop.engine._under_way._transactions]

    taken = statuses.count(200)
    assert statuses == [200] * taken + [503] * (80 - taken)
    assert taken < 80
    assert (last.status_code, last.headers["retry-after"]) == (503, "1")
    assert one.targets == [f"/{each}" for each in range(taken)]
    assert kept == []


async def test_bodies_are_bounded_each_and_all_together(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "BODY_BYTES_MAX", 1_000)
    one = Teller()
    async with continuing(url, Domain(name="shop"), tmp_path, one) as shop:
        large = await shop.http.post("/large", b"x" * 1_001)
        monkeypatch.setattr(application, "BODIES_BYTES_MAX", 900)
        together = await shop.http.post("/together", b"x" * 901)
        taken = await shop.http.post("/taken", b"x" * 900)

    assert (large.status_code, together.status_code, taken.status_code) == (413, 503, 200)
    assert "retry-after" in together.headers
    assert one.targets == ["/taken"]


async def test_a_body_of_three_megabytes_reaches_all_servers_whole(url: str, tmp_path: Path) -> None:
    one, two = Teller(), Teller()
    body = bytes(range(256)) * 12_000
    async with continuing(url, Domain(name="shop"), tmp_path, one, two) as shop:
        answer = await shop.http.post("/", content=body)
        await shop.until_even()

    assert answer.text == "1"
    assert [each.asked[0].body == body for each in (one, two)] == [True, True]


# --- which answer is given ---------------------------------------------------------------------------------------------


async def test_a_5xx_does_not_win_while_another_server_may_still_answer(url: str, tmp_path: Path) -> None:
    bad, good = Teller(), Teller()
    bad.status = 500
    async with continuing(url, Domain(name="shop", error_wait=60), tmp_path, bad, good) as shop:
        release = hold(good)
        asking = asyncio.create_task(shop.http.post("/"))
        await until(lambda: len(bad.asked) == 1 and not bad.running, "the bad one has answered")
        release()
        answer = await asking

    assert (answer.status_code, answer.text) == (200, "1")


async def test_a_server_whose_5xx_was_not_given_is_not_current_until_it_is_rebuilt(url: str, tmp_path: Path) -> None:
    bad, good = Teller(), Teller()
    bad.status = 500
    async with continuing(url, Domain(name="shop"), tmp_path, bad, good) as shop:
        given = await shop.http.post("/")
        await shop.until_current("two")
        bad.status = 200
        after = await shop.http.post("/")

    assert (given.status_code, after.text) == (200, "2")


async def test_a_5xx_wins_when_all_answered_so_and_after_error_wait(url: str, tmp_path: Path) -> None:
    one, two = Teller(), Teller()
    one.status = two.status = 503
    async with continuing(url, Domain(name="shop", error_wait=0.2), tmp_path, one, two) as shop:
        from_all = await shop.http.post("/")
        hold(two)
        after_a_while = await shop.http.post("/")

    assert (from_all.status_code, from_all.text) == (503, "1")
    assert (after_a_while.status_code, after_a_while.text) == (503, "2")


async def test_a_time_out_of_one_server_does_not_win(url: str, tmp_path: Path) -> None:
    impatient, good = Teller(), Teller()
    domain = Domain(name="shop", call_timeout=0.1, error_wait=0.1)
    async with continuing(url, domain, tmp_path, impatient) as shop:
        await register.change(shop.client, msgspec.structs.replace(domain, call_timeout=60))
        async with listening(url, good, tmp_path / "two", server="two"):
            await shop.until_current("one", "two")
            release = hold(impatient, good)
            asking = asyncio.create_task(shop.http.post("/"))
            await until(lambda: len(impatient.asked) > 1, "the call has timed out, and is made again")
            good.go_on.set()
            answer = await asking
            release()

    assert (answer.status_code, answer.text) == (200, "1")


async def test_a_reset_of_one_server_does_not_win(url: str, tmp_path: Path) -> None:
    good = Teller()
    async with raw_account(b"unknown") as (server, said):
        said += [b""]  # the connection ends without an answer
        async with continuing(url, Domain(name="shop", error_wait=0.1), tmp_path, server.url, good) as shop:
            release = hold(good)
            asking = asyncio.create_task(shop.http.post("/"))
            await until(lambda: not said, "the connection was cut")
            release()
            answer = await asking

    assert answer.status_code == 200


async def test_what_is_held_against_servers_is_counted_by_kind_and_told_by_the_status(url: str, tmp_path: Path) -> None:
    one, two, three = Teller(), Teller(), Teller()
    domain = Domain(name="shop", error_wait=0.05, call_timeout=0.3, answer_timeout=2.0)
    async with continuing(url, domain, tmp_path, one, two, three, in_doubt="ask") as shop:
        release = hold(three)
        await shop.http.post("/")
        await until(lambda: shop.engine.servers.kinds.get("three"), "all is decided")
        release()
        told = await domain_status.ask(shop.client, "shop")

    held = {each["server"]: each["held_against"] for each in told["servers"]}
    assert held.pop("three") == {"in doubt": 1}
    assert {kind for kinds in held.values() for kind in kinds} <= {"late"}  # as they may be on a busy machine


async def test_agreed_gives_what_two_servers_say_although_a_liar_was_first(url: str, tmp_path: Path) -> None:
    liar, two, three = Teller(), Teller(), Teller()
    liar.lie = b" and a million"
    async with continuing(url, Domain(name="shop", answer="agreed"), tmp_path, liar, two, three) as shop:
        release = hold(two, three)
        asking = asyncio.create_task(shop.http.post("/"))
        await until(lambda: len(liar.asked) == 1 and not liar.running, "the liar has answered")
        release()
        answer = await asking

    assert (answer.status_code, answer.text) == (200, "1")


async def test_agreed_without_two_equals_is_502_and_with_one_current_server_its_answer(url: str, tmp_path: Path) -> None:
    liar, two = Teller(), Teller()
    liar.lie = b" and a million"
    async with continuing(url, Domain(name="shop", answer="agreed"), tmp_path, liar, two) as shop:
        differ = await shop.http.post("/")
        shop.listeners["one"].stop()
        await shop.listeners["one"].links.close()
        await shop.until_current("two")
        alone = await shop.http.post("/")

    assert (differ.status_code, alone.status_code, alone.text) == (502, 200, "2")


# --- sessions ----------------------------------------------------------------------------------------------------------


async def test_a_session_is_in_the_topic_and_confirmed_by_two_listeners_before_its_first_request(
    url: str, tmp_path: Path
) -> None:
    seen: list[tuple[str, Any]] = []
    async with continuing(url, Domain(name="shop"), tmp_path, Teller(), Teller(), Teller()) as shop:
        noting = await shop.events(seen, shop.domain.requests)
        for _ in range(2):
            await shop.engine.request("POST", "/", session="ada")
        await until(lambda: [kind for kind, _ in seen].count(request.REQUEST) == 2, "both are in the topic")
        confirmed = shop.engine._sessions.get("ada").confirmed
        noting.cancel()

    kinds = [kind for kind, _ in seen if kind in (request.SESSION, request.REQUEST)]
    assert kinds == [request.SESSION, request.REQUEST, request.REQUEST]
    assert len(confirmed) >= 2


async def test_a_session_that_one_listener_alone_has_queued_is_refused_and_its_request_is_not_sent(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "WINDOW", 2)
    monkeypatch.setattr(writes, "SESSION_SECONDS", 0.3)
    one, stuck = Teller(), Teller()
    async with continuing(url, Domain(name="shop"), tmp_path, one, stuck) as shop:
        release = hold(stuck)
        for each in range(4):  # more than its window: it receives no more
            await shop.engine.request("POST", f"/{each}")
        with pytest.raises(NotTaken, match="1 of 2 listeners have queued the session"):
            await shop.engine.request("POST", "/refused", session="ada")
        release()
        await shop.engine.request("POST", "/taken", session="ada")
        await until(lambda: stuck.targets[-1] == "/taken", "the one that was stuck has caught up")

    assert one.targets == stuck.targets == ["/0", "/1", "/2", "/3", "/taken"]


async def test_an_engine_of_an_unknown_domain_is_refused(url: str, tmp_path: Path) -> None:
    async with continuing(url, Domain(name="shop"), tmp_path, Teller()):
        with pytest.raises(NoSuchDomain, match="holdfast domain create nowhere"):
            await Engine(url, "nowhere").open()


# --- several engines ---------------------------------------------------------------------------------------------------


async def test_two_engines_take_the_same_domain_and_a_retry_at_the_other_gets_the_answer(url: str, tmp_path: Path) -> None:
    one, two = Teller(), Teller()
    async with continuing(url, Domain(name="shop"), tmp_path, one, two) as shop, Engine(url, "shop", name="second") as second:
        http = HttpClient(second)
        await until(lambda: current_at(second) == ["one", "two"], "the second has heard of both")
        first = await shop.http.post("/order", headers={"Idempotency-Key": "k"})
        again = await http.post("/order", headers={"Idempotency-Key": "k"})
        asking = [(shop.http if each % 2 else http).post(f"/{each}") for each in range(20)]
        answers = await asyncio.gather(*asking)
        await until(lambda: len(one.asked) == len(two.asked) == 21, "all were called")

    assert (first.text, again.text, again.headers["holdfast-replayed"]) == ("1", "1", "true")
    assert sorted(int(each.text) for each in answers) == list(range(2, 22))
    assert one.targets == two.targets


async def test_an_engine_is_ready_only_when_its_listeners_are(url: str, tmp_path: Path) -> None:
    async with continuing(url, Domain(name="shop"), tmp_path) as shop:
        before = shop.engine.is_ready
        with pytest.raises(TimeoutError):
            await shop.engine.until_ready(0.05)
        async with listening(url, Teller(), tmp_path / "one"):
            await shop.engine.until_ready(60)
            after = shop.engine.is_ready

    assert (before, after) == (False, True)


async def test_an_engine_that_ends_is_dialled_no_more(url: str, tmp_path: Path) -> None:
    async with continuing(url, Domain(name="shop"), tmp_path, Teller()) as shop:
        async with Engine(url, "shop", name="second") as second:
            await second.until_ready(60)
            during = set(shop.listeners["one"].membership.engines)
        await until(lambda: "second" not in shop.listeners["one"].membership.engines, "the second is gone")

    assert during == {shop.engine.name, "second"}


async def test_an_engine_whose_place_others_have_taken_registers_again(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "AGAIN_SECONDS", 0.05)
    async with continuing(url, Domain(name="shop"), tmp_path) as shop:
        async with listening(url, Teller(), tmp_path / "one") as listener:
            for each in range(ENGINES_MAX):  # engines that were killed, and never said that they go
                told = {"engine": f"killed-{each}", "start": "s", "address": "127.0.0.1:1", "reply_to": ""}
                await shop.client.topic(shop.domain.requests).send(told, type=request.ENGINE)
            await until(lambda: shop.engine.name not in listener.membership.engines, "the engine is not kept any more")
        async with listening(url, Teller(), tmp_path / "one"):
            await shop.engine.until_ready(60)
            answer = await shop.http.post("/")

    assert answer.text == "1"
