"""Requests over several message managers: a publication is one decision, whatever channels its stages are in (D3, ADR 25); and
nobody commits in the name of another."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast.client.assembly.stage import Staged
from holdfast.destination import command
from holdfast.errors import AccessDenied, BadSetting, HoldfastError, NotPublished, TransactionAborted
from holdfast.node.node import Node
from holdfast.wire.frame import CommitAll, Participant
from tests.two_managers import hold, is_free, two_managers, waiting
from tests.waiting import until


async def staged(client: holdfast.Client, name: str, *queues: str) -> Staged:
    stage = client.stage(name)
    for queue in queues:
        await stage.send(queue, name)
    return await stage.seal()


def stages(node: Node) -> int:
    return sum(each.directory.assemblies.staged.stages for each in node.managers.values())


async def test_a_stage_for_two_managers_is_at_both_and_is_published_at_both_once() -> None:
    async with two_managers() as (node, client):
        stage = await staged(client, "s1", "at-m1", "at-m2", "at-m2")
        assert (stage.parts, stage.events, stage.places) == (2, 3, (("m1", 1), ("m2", 1)))

        first = await client.publish("job", 7, [stage])
        again = await client.publish("job", 7, [stage])

        assert (first.is_new, first.events, first.last) == (True, 3, 7)
        assert (again.is_new, again.events, again.last) == (False, 0, 7)
        assert (waiting(node, "at-m1"), waiting(node, "at-m2")) == (1, 2)
        await until(lambda: is_free(node) and not stages(node), "nothing is left")


async def test_stages_of_different_managers_are_published_together() -> None:
    async with two_managers() as (node, client):
        one, two = await staged(client, "s1", "at-m1"), await staged(client, "s2", "at-m2")

        assert (await client.publish("job", 0, [two, one])).events == 2

        assert (waiting(node, "at-m1"), waiting(node, "at-m2")) == (1, 1)


@pytest.mark.parametrize(("first", "second"), [("at-m2", "at-m1"), ("at-m1", "at-m2")])
async def test_a_number_that_was_published_is_a_repetition_at_another_manager_too(first: str, second: str) -> None:
    async with two_managers() as (node, client):
        await client.publish("job", 3, [await staged(client, "s1", first)])

        published = await client.publish("job", 3, [await staged(client, "s2", second)])

        assert (published.is_new, published.events, published.last) == (False, 0, 3)
        assert (waiting(node, first), waiting(node, second)) == (1, 0)
        await until(lambda: is_free(node) and not stages(node), "the stages of the repetition are let go")


async def test_a_publication_that_one_manager_refuses_changes_nothing_at_either_and_names_it() -> None:
    async with two_managers() as (node, client):
        one, two = await staged(client, "s1", "at-m1"), await staged(client, "s2", "at-m2")
        missing = two._replace(parts=2)

        with pytest.raises(
            NotPublished, match=r"nothing was published, at 'm1' and 'm2': message manager 'm2' refused it: .*part 2"
        ):
            await client.publish("job", 0, [one, missing])

        await until(lambda: is_free(node), "nothing is locked")
        assert waiting(node, "at-m1") + waiting(node, "at-m2") == 0
        assert (await client.publish("job", 0, [one, two])).events == 2, "the stages are as they were"


async def test_a_publication_waits_for_an_earlier_attempt_that_is_not_decided() -> None:
    async with two_managers() as (node, client):
        stage = await staged(client, "s1", "at-m1", "at-m2")
        held = hold(node, "m1", command.Decision, limit=1)
        lost = asyncio.create_task(client.publish("job", 0, [stage], timeout=60))
        await until(lambda: held.held, "the first attempt is prepared")

        later = asyncio.create_task(client.publish("job", 0, [stage], timeout=60))
        outcomes = node.managers["m2"].directory.transactions.outcomes
        await until(lambda: outcomes, "the second attempt is turned away, and made again")
        held.let_go()

        assert sorted([(await lost).is_new, (await later).is_new]) == [False, True]
        assert (waiting(node, "at-m1"), waiting(node, "at-m2")) == (1, 1)


@pytest.mark.parametrize(
    ("participants", "error"),
    [
        ([Participant("m1", "s/bob", "1", 0), Participant("m2", "s", "1", 0)], AccessDenied),
        ([Participant("m1", "s", "1", 0), Participant("m3", "s", "1", 0)], BadSetting),
        ([Participant("m1", "s", "1", 0)], HoldfastError),
        ([Participant("m2", "s", "1", 0), Participant("m1", "s", "1", 0)], HoldfastError),
        ([Participant("m1", "", "1", 0), Participant("m2", "s", "1", 0)], HoldfastError),
    ],
)
async def test_what_no_client_asks_is_refused_and_appends_nothing(
    participants: list[Participant], error: type[HoldfastError]
) -> None:  # fmt: skip
    async with two_managers() as (node, client):
        held = [hold(node, name, command.Prepare) for name in ("m1", "m2")]

        with pytest.raises(error):
            await client._opened().ask(lambda token: CommitAll(token, participants), 10)

        assert not any(each.held for each in held)


async def test_a_session_that_nobody_knows_has_nothing_to_commit() -> None:
    async with two_managers() as (node, client):
        participants = [Participant("m1", "nobody", "1", 1), Participant("m2", "nobody", "1", 1)]

        with pytest.raises(TransactionAborted, match="its session is gone"):
            await client._opened().ask(lambda token: CommitAll(token, participants), 10)

        await until(lambda: is_free(node), "nothing is in doubt")
