"""The ownership of a subscription: its only receiver takes no events, and is gone when the link is lost (ADR 10).

    taken ── link lost ──▶ free for everyone ── next call ──▶ taken again, or SubscriptionInUse: somebody else was faster

So a program that is killed, or cut off, never stands in the way of the one that takes its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.client import checks
from holdfast.client.description import SubscriptionDescription, subscriptions_of
from holdfast.client.link.waiters import until_given_up
from holdfast.client.receiving.receive_options import Match
from holdfast.errors import BadSetting, Closed, Detached, LinkLost, NoSuchDestination, SubscriptionInUse
from holdfast.wire.frame import Attach, Manage

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session

# A subscription whose receiver has just lost its link is asked for again after this.
IN_USE_AGAIN_S = 0.05
RECEIVER = 1


class Ownership:
    """Made by `reading.owner()`, used inside `async with`."""

    def __init__(
        self,
        lane: Callable[[], Awaitable[Session]],
        beside: Session,
        destination: str,
        subscription: str,
        match: Match,
        selector: str | None,
        timeout: float | None,
    ) -> None:
        """`lane` finds the session in the channel of the destination."""
        self._lane = lane
        self._connection = beside.connection
        self._name = beside.name
        self._destination = destination
        self._subscription = subscription
        self._match: Match = match
        self._selector = selector
        self._timeout = checks.seconds(timeout, beside.connection.timeout)
        self._session: Session | None = None
        self._owned_in = ""  # the id of the session in which it was taken
        self._taking = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        return self._session is not None and not self._session.is_closed

    async def __aenter__(self) -> Self:
        if self._session is not None:
            raise Closed("an ownership is taken once; ask the reading for another")
        self._check_subscription()
        connection = self._connection
        checks.same_loop(connection.loop)
        lane = await self._lane()
        self._session = connection.new_session(self._name, is_resumable=False, channel=lane.channel)
        try:
            await self._take(connection.deadline(self._timeout))
        except BaseException:
            connection.drop_session(self._session, Closed("the subscription could not be owned"))
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        session, connection = self._session, self._connection
        if session is None or session.is_closed:
            return
        await session.close(connection.closing_timeout(session), is_done=error is None)
        connection.drop_session(session, Closed("the subscription is not owned any more; own it again"))

    def _check_subscription(self) -> None:
        if not self._subscription:
            raise BadSetting(
                f"{self._destination!r} without a subscription is a queue, from which others take: it has no owner; name a "
                "subscription of a topic",
                setting="subscription",
            )

    async def ask(self, action: str, arguments: dict[str, Any], timeout: float) -> Any:
        """Ask as the owner a question that may be repeated. If the ownership was lost with the link, take it again first."""
        session, deadline = self._opened(), self._connection.deadline(timeout)
        while True:
            await self._take(deadline)
            try:
                left = deadline - self._connection.loop.time()
                return await session.ask(lambda token: Manage(token, action, arguments), left)
            except (LinkLost, Detached):
                self._owned_in = ""
                if self._connection.loop.time() >= deadline:
                    raise
                await asyncio.sleep(IN_USE_AGAIN_S)

    def _opened(self) -> Session:
        if self._session is None:
            raise Closed("the subscription is not owned; use `async with reading.owner()`")
        self._session.check_open()
        return self._session

    # --- taking it ---------------------------------------------------------------------------------------------------

    async def _take(self, deadline: float) -> None:
        """Take the ownership in the session of the present link."""
        session = self._opened()
        async with self._taking:
            await session.until_ready(deadline)
            while self._owned_in != session.id:
                try:
                    await session.ask(partial(self._attach, *await self._terms(deadline)), self._left(deadline))
                    self._owned_in = session.id
                except LinkLost:
                    if self._connection.loop.time() >= deadline:
                        raise
                except SubscriptionInUse as problem:
                    await until_given_up(self._in_use(problem), deadline)
                await session.until_ready(deadline)

    def _left(self, deadline: float) -> float:
        return deadline - self._connection.loop.time()

    async def _terms(self, deadline: float) -> tuple[str, bool]:
        """The selector of the subscription, and whether it is `no_local`. An existing one is used as it is, never made anew."""
        arguments = {"topic": self._destination, "match": self._match}
        try:
            there = await subscriptions_of(self._opened(), arguments, self._left(deadline))
        except NoSuchDestination:
            there = []
        found = next((each for each in there if self._is_it(each)), None)
        if found is None:
            return self._selector or "", False
        selector = found["selector"] or ""
        if self._selector is not None and selector != self._selector:
            raise SubscriptionInUse(
                f"subscription '{self._subscription}' of {self._destination!r} is there with the selector {selector!r}, not "
                f"{self._selector!r}; use that selector, delete it first, or use another name",
                subscription=self._subscription,
            )
        return selector, bool(found["no_local"])

    def _is_it(self, described: SubscriptionDescription) -> bool:
        """Whether this is the subscription. A topic lists those of patterns that it matches, too."""
        pattern = None if self._match == "name" else self._destination
        return bool(described["name"] == self._subscription and described["pattern"] == pattern)

    def _attach(self, selector: str, no_local: bool, token: int) -> Attach:
        return Attach(
            token, RECEIVER, self._destination, "topic", self._subscription,
            selector=selector, match=self._match, no_local=no_local, is_owner=True,
        )  # fmt: skip

    def _in_use(self, problem: SubscriptionInUse) -> SubscriptionInUse:
        """Say that another program has it. If the subscription is of another kind, the server's own sentence says more."""
        if "destination" not in problem.fields:
            return problem
        return SubscriptionInUse(
            f"subscription '{self._subscription}' of {self._destination!r} is owned, or received from, by another program that "
            "lives; stop that one first, or use another subscription",
            **problem.fields,
        )
