"""Every action × every shape of its arguments × every kind of rule: what is touched is what the user was asked about (E7).

What was touched is read off the server's state and off the answer, not off what the server says it checked. Names with `secret`
in them are what a user wants to get at, those with `open` what rules let it have.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple

import pytest

from holdfast.access import users as users_files
from holdfast.access.access_list import ACTIONS as RIGHTS
from holdfast.access.access_list import Rights
from holdfast.destination import command
from holdfast.destination.name import is_temporary
from holdfast.destination.settings import Settings
from holdfast.destination.state.subscription import Match
from holdfast.event import position
from holdfast.event.pattern import Pattern
from holdfast.node.administration import arguments
from holdfast.node.login.login import Login
from holdfast.node.login.passwords import hashed
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings
from holdfast.wire.frame import Answered, Attach, Browse, Browsed, Failed, Manage, ReadFragment
from tests.raw_client import RawClient, batch_command
from tests.waiting import until

pytestmark = pytest.mark.slow

PASSWORD = "the same for all"
EVERYTHING = ("send", "receive", "browse", "manage")

QUEUES = ("open.q", "secret.q", "_temporary.victim")
TOPICS = ("open.t", "secret.t")
PATTERNS: tuple[tuple[str, Match], ...] = (("open.>", "glob"), ("secret.>", "glob"), (r"secret\..*", "regex"), ("**", "glob"))
NAMED: tuple[tuple[str, Match], ...] = (*((topic, "name") for topic in TOPICS), *PATTERNS)
# One that is received from, and one that is not.
SUBSCRIPTIONS = ("attached", "free")
# Names that are there, and names that could be.
NAMES = (*QUEUES, *TOPICS, "open.other", "secret.other", "_DMQ", "_ADMIN", "_LOG")

RULES: dict[str, list[tuple[str, tuple[str, ...], bool]]] = {
    "none": [],
    "one-name": [("open.q", EVERYTHING, False)],
    "one-topic": [("open.t", EVERYTHING, False)],
    "subtree": [("open.**", EVERYTHING, False)],
    "all-but-a-subtree": [("secret.**", EVERYTHING, True), ("**", EVERYTHING, False)],
    "all-but-manage-of-a-subtree": [("secret.**", ("manage",), True), ("**", EVERYTHING, False)],
    "all": [("**", EVERYTHING, False)],
    "reserved": [("_*", EVERYTHING, False)],
    **{f"only-{right}": [("open.**", (right,), False)] for right in RIGHTS},
}


def users() -> users_files.Users:
    secret = hashed(PASSWORD)
    lines = [f'[users.{who}]\npassword = "{secret}"' for who in (*RULES, "victim")]
    lines += [
        f'[[access]]\nwho = "{who}"\ndestination = "{destination}"\nactions = {list(actions)}\ndeny = {str(is_denied).lower()}'
        for who, rules in RULES.items()
        for destination, actions, is_denied in rules
    ]
    return users_files.read("\n".join(lines))


class World:
    """A server with something in every destination, subscription and pattern that somebody could want to get at."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.victim = RawClient(node)
        self.dead = 0  # the position of a dead event

    async def build(self) -> None:
        """Put everything back as it was, less what a client is attached to."""
        self.dead = self.dead or position.of((await self.node.channel.append(batch_command("", 0, "nowhere"))).entry)
        catalog = self.node.messages.directory.catalog
        made: list[bytes] = []
        for key, name in [key for key in catalog.queues if key[1] in ("free", "made")]:
            made.append(command.encode(command.Unsubscribe(key, name)))
        for name in [name for name in catalog.destinations if not name.startswith("_") and name not in TOPICS]:
            made.append(command.encode(command.Delete(name)))
        for name in (*QUEUES, *TOPICS):
            owner = self.victim.session if is_temporary(name) else ""
            kind: Literal["queue", "topic"] = "topic" if name in TOPICS else "queue"
            made.append(command.encode(command.Create(name, kind, is_implicit=True, session=owner)))
            made.append(command.encode(command.Configure(name, Settings(), changed=["events_max"])))
        for topic, match in NAMED:
            for subscription in SUBSCRIPTIONS:
                made.append(command.encode(command.Subscribe(topic, subscription, True, match=match)))
        for name in (*TOPICS, "open.q", "secret.q"):
            made.append(batch_command("", 0, name))
        await asyncio.gather(*(self.node.channel.append(each) for each in made))
        await until(lambda: self.node.messages.applied == self.node.channel.durable, "everything is there")

    def picture(self) -> dict[tuple[str, str], Any]:
        """What can be changed, by the key of its destination and subscription."""
        catalog = self.node.messages.directory.catalog
        found: dict[tuple[str, str], Any] = {(name, ""): repr(each.settings) for name, each in catalog.destinations.items()}
        for key, queue in catalog.queues.items():
            made_at, terms = getattr(queue, "made_at", 0), getattr(queue, "terms", None)
            found[key] = (repr(queue.settings), queue.backlog.waiting if key[0] not in ("_DMQ", "_LOG") else 0, made_at, terms)
        return found


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    node = await Node.in_memory(NodeSettings(session_grace_ms=60_000))
    await node.messages.wait_until_primary()
    node.clients.login = Login(users())
    made = World(node)
    await made.victim.greet(user="victim", password=PASSWORD)
    try:
        await made.build()
        yield made
    finally:
        await node.close()


class Asked(NamedTuple):
    action: str
    given: dict[str, Any]


# Names, keys of patterns where names are expected, patterns, and what is none of them.
PLACES: tuple[Any, ...] = (
    "open.q", "open.t", "secret.q", "secret.t", "open.other", "secret.other",
    "glob:secret.>", "glob:open.>", r"regex:secret\..*", "name:secret.t", "glob:**",
    "open.>", "secret.>", r"secret\..*", "**", "_temporary.victim", "_DMQ", "_LOG", "_ADMIN", "", 7, None,
)  # fmt: skip
MATCHES: tuple[Any, ...] = ("name", "glob", "regex", "re", None)
# What each action takes besides the place that it is about.
BESIDES: dict[str, dict[str, Any]] = {
    "create": {"kind": "queue"},
    "configure": {"events_max": 7},
    "ensure": {"kind": "queue", "events_max": 7, "update": True},
    "delete": {"force": True},
    "purge": {},
    "empty": {},
    "describe": {},
    "locate": {"is_used": False},
    "subscribe": {"name": "made"},
    "subscribe_like": {"name": "made", "like": "free"},
    "ensure_subscription": {"name": "made"},
    "unsubscribe": {"name": "free", "force": True},
    "subscriptions": {},
    "extent": {"subscription": "free"},
    "more": {"subscription": "free", "after": 0},
    "outcomes": {"subscription": "free", "ranges": b""},
    "confirm_up_to": {"subscription": "attached", "place": 0},
    "list": {},
    "all_subscriptions": {},
    "transactions": {},
    "status": {},
    "cluster": {},  # which names nodes and message managers alone
    "cluster_order": {"order": "takeover"},  # which is for users who may manage everything
    "cluster_configure": {"key": "parts_max", "value": "7"},  # the same
    "dead_cursor": {"position": None},  # that of the dead event
    "temporary": {"kind": "queue"},
    "drop_stages": {"names": []},
    "log": {"program": "relay berlin", "lines": [["INFO", "holdfast.relay", "a line", 1]]},
}
ABOUT = {
    **dict.fromkeys(("create", "configure", "ensure", "delete", "purge", "empty", "describe", "locate"), "name"),
    **dict.fromkeys(
        (
            "subscribe",
            "subscribe_like",
            "ensure_subscription",
            "unsubscribe",
            "subscriptions",
            "extent",
            "more",
            "outcomes",
            "confirm_up_to",
        ),
        "topic",
    ),
}
# Arguments of other actions, and of none.
FOREIGN = ("name", "topic", "match", "subscription", "destination", "session", "where", "after")


def shapes(action: str) -> Iterator[Asked]:
    besides, about = BESIDES[action], ABOUT.get(action)
    plain: list[dict[str, Any]] = [besides] if about is None else [{**besides, about: place} for place in PLACES]
    for given in plain:
        yield Asked(action, given)
        if action == "subscriptions":
            yield Asked(action, {**given, "after": ""})
        if about == "topic":
            yield from (Asked(action, {**given, "match": match}) for match in MATCHES)
    for given in [besides] if about is None else [{**besides, about: place} for place in ("open.q", "secret.q", "secret.t")]:
        for argument in FOREIGN:
            if argument not in arguments.ACTIONS[action].__struct_fields__:
                yield from (Asked(action, {**given, argument: place}) for place in ("open.q", "open.t", "_temporary.x", "**"))


# --- who may -------------------------------------------------------------------------------------------------------------

# What an action that was carried out needs on everything that it touched; "any": any right at all.
NEEDED = {
    **dict.fromkeys(
        (
            "create",
            "configure",
            "ensure",
            "delete",
            "purge",
            "empty",
            "subscribe",
            "subscribe_like",
            "ensure_subscription",
            "unsubscribe",
        ),
        "manage",
    ),
    **dict.fromkeys(("describe", "locate", "subscriptions", "list", "all_subscriptions", "status"), "any"),
    **dict.fromkeys(("extent", "more", "outcomes", "dead_cursor"), "browse"),
    "confirm_up_to": "receive",
    "log": "send",
}


def may(rights: Rights, needed: str, key: str) -> bool:
    """On a destination, or on every name that the pattern with this key matches."""
    kind, colon, text = key.partition(":")
    if not colon:
        return rights.may_see(key) if needed == "any" else rights.may(needed, key)
    pattern = Pattern.glob(text) if kind == "glob" else Pattern.regex(text)
    return all(may(rights, needed, name) for name in NAMES if pattern.matches(name))


def looked_at(asked: Asked, value: Any) -> set[str]:
    """The keys of the destinations and patterns of which an answer tells something: what it names, and what was looked up."""
    action, given = asked
    named = told(value)
    if action in ("subscriptions", "extent", "more", "outcomes", "confirm_up_to"):
        match = given.get("match", "name")
        named.add(given["topic"] if match == "name" else f"{match}:{given['topic']}")
    if action == "locate" and not is_temporary(given["name"]):  # whose name says where it is
        named.add(given["name"])
    own = {"dead_cursor": "_DMQ", "log": "_LOG"}
    return named | ({own[action]} if action in own else set())


def told(value: Any) -> set[str]:
    """The keys of all destinations and patterns that are named anywhere in an answer."""
    if isinstance(value, dict):
        return set().union(*map(told, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(told, value))
    known = {**{name: name for name in NAMES}, **{text: f"{match}:{text}" for text, match in PATTERNS}}
    return {known[value]} if isinstance(value, str) and value in known else set()


@pytest.mark.parametrize("who", RULES)
async def test_what_an_action_touches_is_what_its_user_was_asked_about_whatever_it_is_given(who: str) -> None:
    assert set(BESIDES) == set(arguments.ACTIONS)
    done: set[str] = set()
    async with world() as here:
        client = RawClient(here.node)
        await client.greet(user=who, password=PASSWORD)
        rights = here.node.clients.login.users.access.of(who)  # type: ignore[union-attr]
        for receiver, (topic, match) in enumerate(NAMED, 1):
            await client.ask(Attach, receiver, topic, "topic", "attached", b"", "", match)
        before = here.picture()
        for asked in [shape for action in BESIDES for shape in shapes(action)]:
            client.heard.clear()
            if "position" in asked.given:
                asked.given["position"] = here.dead
            answer = await client.ask(Manage, *asked)
            after = here.picture()
            changed = {key[0] for key in before.keys() | after.keys() if before.get(key) != after.get(key)}

            assert isinstance(answer, Answered | Failed)
            if isinstance(answer, Failed):
                assert not changed, f"{asked} was refused, and changed {changed}"
                continue
            assert set(asked.given) <= set(arguments.ACTIONS[asked.action].__struct_fields__), f"{asked} has foreign arguments"
            assert "_temporary.victim" not in changed
            if asked.action == "temporary":
                changed.discard(answer.value["name"])
            needed = NEEDED.get(asked.action, "none")
            for key in changed | looked_at(asked, answer.value):
                assert may(rights, needed, key), f"{who} may not {needed} {key!r}, and did it with {asked}"
            done.add(asked.action)
            if changed:
                await here.build()
            before = here.picture()

    assert done >= {"list", "status", "temporary", "drop_stages"}
    assert (
        done == set(BESIDES) - {"dead_cursor", "empty", "log", "cluster", "cluster_configure", "cluster_order"} or who != "all"
    )  # a server alone has no cluster
    assert done >= {"dead_cursor", "empty", "log"} or who != "reserved"


@pytest.mark.parametrize("who", RULES)
async def test_what_is_attached_to_or_browsed_is_what_its_user_was_asked_about(who: str) -> None:
    done = 0
    async with world() as here:
        client = RawClient(here.node)
        await client.greet(user=who, password=PASSWORD)
        rights = here.node.clients.login.users.access.of(who)  # type: ignore[union-attr]
        session = here.node.clients.sessions[client.session]
        receiver = 0
        for place in [each for each in PLACES if isinstance(each, str)]:
            for match in ("name", "glob", "regex"):
                for kind, subscription in (("queue", ""), ("topic", ""), ("topic", "free")):
                    receiver += 1
                    answer = await client.ask(Attach, receiver, place, kind, subscription, b"", "", match)
                    attached = session.receivers.get(receiver)

                    assert isinstance(answer, Answered) == (attached is not None)
                    if attached is not None:
                        done += 1
                        assert may(rights, "receive", attached.destination), f"{who} receives from {attached} with {place!r}"
        for place in [each for each in PLACES if isinstance(each, str)]:
            for subscription in ("", "free"):
                answer = await client.ask(Browse, place, subscription)
                if isinstance(answer, Browsed):
                    done += 1
                    assert may(rights, "browse", place), f"{who} browses {place!r}"
                answer = await client.ask(ReadFragment, 0, here.dead, 0, place, subscription)
                assert isinstance(answer, Failed), "there is no large event"
                if answer.code == "no-such-position":
                    assert may(rights, "browse", place), f"{who} reads fragments of {place!r}"

    assert done or who in ("none", "only-send", "only-manage")


async def test_a_list_of_many_pages_names_nothing_that_its_user_may_not_see_not_even_as_the_place_to_go_on() -> None:
    async with world() as here:
        names = [f"{stem}.{number:04}" for number in range(600) for stem in ("hidden", "secret")]
        names += ["open.first", "secret.between", "zzz"]
        made = (command.encode(command.Create(name, "queue")) for name in names)
        await asyncio.gather(*(here.node.channel.append(each) for each in made))
        client = RawClient(here.node)
        await client.greet(user="subtree", password=PASSWORD)

        seen: list[str] = []
        after: str | None = ""
        while after is not None:
            page = (await client.ask(Manage, "list", {"after": after})).value
            seen += [row["name"] for row in page["destinations"]]
            after = page["next"]
            assert after is None or after.startswith("open.")

    assert seen == ["open.first", "open.q", "open.t"]


async def test_pages_of_subscriptions_name_none_that_their_user_may_not_see_not_even_as_the_place_to_go_on() -> None:
    async with world() as here:
        made = (command.encode(command.Subscribe("**", f"hidden-{number:04}", True, match="glob")) for number in range(3_000))
        await asyncio.gather(*(here.node.channel.append(each) for each in made))
        client = RawClient(here.node)
        await client.greet(user="one-topic", password=PASSWORD)

        pages = []
        after: str | None = ""
        while after is not None:
            pages.append((await client.ask(Manage, "subscriptions", {"topic": "open.t", "after": after})).value)
            after = pages[-1]["next"]
            assert "hidden" not in str(after)

    assert [row["name"] for page in pages for row in page["subscriptions"]] == ["attached", "free"]


async def test_the_status_names_only_such_blocked_destinations_as_its_user_may_see() -> None:
    async with world() as here:
        for name in ("open.q", "secret.q"):
            await here.node.channel.append(
                command.encode(command.Configure(name, Settings(events_max=1), changed=["events_max"]))
            )
        blocked: dict[str, list[str]] = {}
        for who in ("none", "subtree", "all"):
            client = RawClient(here.node)
            await client.greet(user=who, password=PASSWORD)
            blocked[who] = (await client.ask(Manage, "status", {})).value["blocked"]

    assert blocked == {"none": [], "subtree": ["open.q"], "all": ["open.q", "secret.q"]}
