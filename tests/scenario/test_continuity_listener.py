"""A listener before a server: order, keys, lazy confirms, reads, and what engines hear. All of it in one process."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from holdfast.continuity import request
from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.domain import Domain, KeyRule
from holdfast.continuity.errors import StoreDamaged, StoreInUse
from holdfast.continuity.link.frame import Read, Resume
from holdfast.continuity.listener.listener import Listener
from holdfast.continuity.machines.comparison import comparison_digest
from holdfast.continuity.request import Content
from holdfast.errors import SubscriptionInUse
from tests.asking_engine import asking_engine
from tests.listening import Account, bodies, listening
from tests.waiting import until

_numbers = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory:continuity-{next(_numbers)}"


# --- order -------------------------------------------------------------------------------------------------------------


async def test_requests_are_called_one_after_the_other_in_the_order_of_the_topic(url: str, tmp_path: Path) -> None:
    account = Account()
    async with asking_engine(url, Domain(name="shop")) as engine, listening(url, account, tmp_path / "s"):
        numbers = [await engine.send(f"/{each}") for each in range(300)]
        answers = await bodies(engine, numbers)

    assert account.targets == [f"/{each}" for each in range(300)]
    assert answers == [f"{each + 1}".encode() for each in range(300)]
    assert account.running_max == 1


async def test_by_key_requests_that_do_not_touch_run_side_by_side_and_those_that_do_keep_their_order(
    url: str, tmp_path: Path
) -> None:
    account = Account()
    account.go_on.clear()
    domain = Domain(name="shop", order="key", keys=(KeyRule(path="/([^/]+)"),))
    async with asking_engine(url, domain) as engine, listening(url, account, tmp_path / "s"):
        await engine.until_current("one")
        numbers = [await engine.send(target) for target in ("/a/1", "/b/1", "/a/2", "/c/1", "/b/2")]
        await until(lambda: account.running == 3, "three run")
        assert sorted(account.targets) == ["/a/1", "/b/1", "/c/1"]
        account.go_on.set()
        await bodies(engine, numbers)

    assert [target for target in account.targets if target.startswith("/a")] == ["/a/1", "/a/2"]
    assert account.running_max == 3


async def test_by_session_requests_of_different_sessions_run_side_by_side_and_those_of_one_keep_their_order(
    url: str, tmp_path: Path
) -> None:
    account = Account()
    account.go_on.clear()
    domain = Domain(name="shop", order="session")
    async with asking_engine(url, domain) as engine, listening(url, account, tmp_path / "s") as listener:
        await until(lambda: [each.state for each in listener.membership.members.values()] == ["current"], "it is a member")
        numbers = [await engine.send(f"/{session}{each}", session=session) for each in range(3) for session in "xyz"]
        await until(lambda: account.running == 3, "one of each session is called")
        account.go_on.set()
        await bodies(engine, numbers)

    assert sorted(account.targets[:3]) == ["/x0", "/y0", "/z0"]
    assert [[each for each in account.targets if session in each] for session in "xyz"] == [
        [f"/{session}{each}" for each in range(3)] for session in "xyz"
    ]


async def test_two_listeners_see_the_same_places(url: str, tmp_path: Path) -> None:
    domain = Domain(name="shop")
    async with asking_engine(url, domain) as engine, listening(url, Account(), tmp_path / "s"):
        first = await engine.send()
        await engine.answer(first)
        async with listening(url, Account(), tmp_path / "t", server="two"):
            number = await engine.send()
            parts = [await engine.answer(number, server) for server in ("one", "two")]
            early = await engine.answer(first, "two")

    assert parts[0].place == parts[1].place > early.place
    assert parts[0].comparison == parts[1].comparison == comparison_digest(Answer(Head(200, [], 1), b"2"), domain.compare)


# --- keys --------------------------------------------------------------------------------------------------------------


async def test_a_known_key_is_answered_from_the_store_and_not_called_also_after_a_restart(url: str, tmp_path: Path) -> None:
    account = Account()
    async with asking_engine(url, Domain(name="shop")) as engine:
        async with listening(url, account, tmp_path / "s"):
            await engine.answer(await engine.send("/a", key="k"))
            again = await engine.answer(await engine.send("/a", key="k"))
        async with listening(url, account, tmp_path / "s"):
            later = await engine.answer(await engine.send("/a", key="k"))

    assert [(part.outcome, part.body) for part in (again, later)] == [("replayed", b"1")] * 2
    assert account.targets == ["/a"]


async def test_a_retry_while_the_first_is_running_waits_for_its_answer(url: str, tmp_path: Path) -> None:
    account = Account()
    account.go_on.clear()
    domain = Domain(name="shop", order="session")
    async with asking_engine(url, domain) as engine, listening(url, account, tmp_path / "s") as listener:
        first = await engine.send("/a", key="k", session="x")
        retry = await engine.send("/a", key="k", session="y")
        await until(lambda: listener.requests.order.admitted >= 4, "both came")
        account.go_on.set()
        parts = [await engine.answer(number) for number in (first, retry)]

    assert [(part.outcome, part.body) for part in parts] == [("answered", b"1"), ("replayed", b"1")]
    assert account.targets == ["/a"]


async def test_a_key_with_another_request_clashes(url: str, tmp_path: Path) -> None:
    account = Account()
    async with asking_engine(url, Domain(name="shop")) as engine, listening(url, account, tmp_path / "s"):
        await engine.answer(await engine.send("/a", key="k"))
        clash = await engine.answer(await engine.send("/b", key="k"))

    assert (clash.outcome, account.targets) == ("clash", ["/a"])


async def test_a_known_key_whose_body_is_gone_is_not_called_again(url: str, tmp_path: Path) -> None:
    account = Account()
    account.size = 3000
    domain = Domain(name="shop", answers_bytes=20_000)
    async with asking_engine(url, domain) as engine, listening(url, account, tmp_path / "s") as listener:
        first = (await engine.answer(await engine.send("/a", key="k0"))).place
        for each in range(1, 12):  # one after the other: what comes while the store is synced is in one file, and goes with it
            await engine.answer(await engine.send("/a", key=f"k{each}"))
            await until(lambda: not listener.confirms.unconfirmed, "it is synced")
        await until(lambda: listener.store.find(first) is None, "the first bodies were given up")
        gone = await engine.answer(await engine.send("/a", key="k0"))
        kept = await engine.answer(await engine.send("/a", key="k11"))

    assert (gone.outcome, kept.outcome, len(account.targets)) == ("gone", "replayed", 12)


async def test_a_retry_gets_only_an_answer_equal_to_the_one_that_was_given(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine:
        topic = engine.client.topic("domain.shop.requests")
        async with listening(url, Account(), tmp_path / "s"):
            own = await engine.answer(await engine.send("/a", key="k"))
            await engine.answer(await engine.send("/a", key="l"))
            given = [["k", "one", own.comparison.hex()], ["l", "two", "00" * 16]]
            await topic.send({"given": given}, type=request.GIVEN)
            before = [(await engine.answer(await engine.send("/a", key=key))).outcome for key in "kl"]
        async with listening(url, Account(), tmp_path / "s"):
            after = [(await engine.answer(await engine.send("/a", key=key))).outcome for key in "kl"]

    assert before == after == ["replayed", "differs"]


# --- confirms and restarts ---------------------------------------------------------------------------------------------


async def test_confirms_are_lazy_and_an_orderly_end_confirms_everything(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine:
        async with listening(url, Account(), tmp_path / "s") as listener:
            numbers = [await engine.send() for _ in range(200)]
            await bodies(engine, numbers)
            await until(lambda: listener.confirms.unconfirmed == 0, "everything is confirmed")
            syncs = listener.store._mark.mark.number
        (left,) = [
            each["waiting"] for each in await engine.client.subscriptions("domain.shop.requests") if each["name"] == "server.one"
        ]

    assert left == 0
    assert syncs < 60  # far fewer than requests


async def test_a_listener_that_stops_finishes_the_call_in_hand_and_begins_no_other(url: str, tmp_path: Path) -> None:
    account = Account()
    account.go_on.clear()
    async with asking_engine(url, Domain(name="shop")) as engine:
        async with listening(url, account, tmp_path / "s") as listener:
            numbers = [await engine.send(f"/{each}") for each in range(3)]
            await until(lambda: account.running == 1, "the first runs")
            listener.stop()
            asyncio.get_running_loop().call_soon(account.go_on.set)
        assert account.targets == ["/0"]

        async with listening(url, account, tmp_path / "s"):
            answers = await bodies(engine, numbers)

    assert account.targets == ["/0", "/1", "/2"]
    assert answers == [b"1", b"2", b"3"]


async def test_a_second_listener_of_a_store_is_refused_and_the_first_goes_on(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine, listening(url, Account(), tmp_path / "s"):
        with pytest.raises(StoreInUse):
            await Listener(url, "shop", "one", call=Account(), store=tmp_path / "s").open()

        assert (await engine.answer(await engine.send())).body == b"1"


async def test_a_listener_that_lost_its_store_is_refused_and_calls_nothing_twice(url: str, tmp_path: Path) -> None:
    """It would not know the keys that its server has served."""
    account = Account()
    async with asking_engine(url, Domain(name="shop")) as engine:
        async with listening(url, account, tmp_path / "1"):
            assert (await engine.answer(await engine.send(key="k"))).body == b"1"
        with pytest.raises(StoreDamaged, match=r"is empty, and events of its subscription were finished before.*--reset"):
            await Listener(url, "shop", "one", call=account, store=tmp_path / "2").open()

        async with listening(url, account, tmp_path / "1"):
            assert (await engine.answer(await engine.send(key="k"))).body == b"1"
    assert len(account.targets) == 1


# --- what engines hear and ask -----------------------------------------------------------------------------------------


async def test_a_listener_whose_place_another_of_its_name_takes_ends_and_says_so(url: str, tmp_path: Path) -> None:
    """Two of them would take the subscription from each other for ever, and call one server in turns."""
    former, later = Account(), Account()
    async with (
        asking_engine(url, Domain(name="shop")) as engine,
        Listener(url, "shop", "one", call=former, store=tmp_path / "1") as one,
    ):
        task = asyncio.create_task(one.run())
        await engine.until_current("one")
        async with listening(url, later, tmp_path / "2"):
            with pytest.raises(SubscriptionInUse, match="another listener of server 'one' was started"):
                await asyncio.wait_for(task, 30)
            await bodies(engine, [await engine.send("/1")])

    assert (former.targets, later.targets) == ([], ["/1"])


async def test_a_large_answer_comes_in_parts_and_can_be_resumed(url: str, tmp_path: Path) -> None:
    account = Account()
    account.size = 1_000_000
    async with asking_engine(url, Domain(name="shop")) as engine, listening(url, account, tmp_path / "s"):
        await engine.until_current("one")
        number = await engine.send()
        await until(lambda: engine.parts.get(number, {}).get("one", [None])[-1], "parts came")
        await until(lambda: engine.parts[number]["one"][-1].is_last, "all parts came")
        parts = engine.parts.pop(number)["one"]
        engine.links["one"].send(Resume(number, 900_000))
        rest = (await engine.answer(number)).body

    assert len(parts) == 4
    assert b"".join(part.body for part in parts) == b"1" + b"x" * 1_000_000
    assert [part.head is not None for part in parts] == [True, False, False, False]
    assert rest == b"x" * 100_001


async def test_an_engine_that_cannot_be_dialled_is_answered_by_event(url: str, tmp_path: Path) -> None:
    async with (
        asking_engine(url, Domain(name="shop"), address="127.0.0.1:1") as engine,
        listening(url, Account(), tmp_path / "s"),
    ):
        answer = await engine.answer(await engine.send())

    assert (answer.body, engine.by_event > 0, engine.links) == (b"1", True, {})


async def test_a_read_is_answered_if_everything_it_must_see_is_finished_and_declined_otherwise(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine, listening(url, Account(), tmp_path / "s"):
        await engine.until_current("one")
        place = (await engine.answer(await engine.send())).place
        for number, at, members in (("r1", place, 1), ("r2", place + 100, 1), ("r3", place, 100)):
            engine.links["one"].send(Read(number, Content("GET", "/r", []), at, members))
        outcomes = [(await engine.answer(number)).outcome for number in ("r1", "r2", "r3")]

    assert outcomes == ["answered", "declined", "declined"]


async def test_a_session_that_is_queued_here_is_told_to_its_engine(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine, listening(url, Account(), tmp_path / "s"):
        await engine.until_current("one")
        told = {"session": "ann", "engine": "e", "start": "s1"}
        await engine.client.topic("domain.shop.requests").send(told, type=request.SESSION)
        await until(lambda: engine.seen == ["ann"], "the session was seen")


async def test_an_event_that_says_nonsense_is_passed_over(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine, listening(url, Account(), tmp_path / "s"):
        topic = engine.client.topic("domain.shop.requests")
        for kind in (request.ENGINE, request.GIVEN, request.SKIP, request.SESSION, request.MEMBER, request.REQUEST, "other"):
            await topic.send(["nonsense"], type=kind)

        assert (await engine.answer(await engine.send())).body == b"1"


async def test_a_streamed_request_reaches_the_server_whole(url: str, tmp_path: Path) -> None:
    bodies_seen = []

    async def call(content: Content) -> Answer:
        bodies_seen.append(content.body)
        return Answer(Head(200, [], 0))

    async with asking_engine(url, Domain(name="shop")) as engine, listening(url, call, tmp_path / "s"):
        asked = request.Request(
            transaction="big", domain="shop", session="", sequence=1, key="k", digest=b"d" * 16, engine="e", start="s1",
            content=Content("POST", "/", [], b"x" * 3_000_000),
        )  # fmt: skip
        await engine.client.topic("domain.shop.requests").send_stream(asked.content.body, **request.fields_of_large(asked))
        await engine.answer("big")

    assert bodies_seen == [b"x" * 3_000_000]
