"""Attaching a receiver: said when it is opened, and again on every new link, with what it holds.

Attaching twice changes nothing but what the server believes the receiver to hold: what it does not name goes back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.client.gathering import Kind
from holdfast.client.noting import Noting
from holdfast.client.subscribing import Asked
from holdfast.errors import SubscriptionInUse
from holdfast.wire.frame import Attach

if TYPE_CHECKING:
    from holdfast.client.session import Session

# A subscription for one receiver, whose receiver has lost its link, is asked for again after this.
IN_USE_AGAIN_S = 0.1


class Attaching(Noting):
    def __init__(self, session: Session, destination: str, kind: Kind, subscription: str, asked: Asked) -> None:
        self.destination = destination
        self.subscription = subscription
        self.receiver = session.next_receiver()
        self._kind: Kind = kind
        self._asked = asked
        super().__init__(session, self.receiver)

    async def _until_given_up(self, problem: SubscriptionInUse, deadline: float) -> None:
        """Who receives has lost the link, and is given up soon unless it comes back: then it may be asked again."""
        if not problem.fields.get("is_holder_away") or self._loop.time() + IN_USE_AGAIN_S >= deadline:
            raise problem
        await asyncio.sleep(IN_USE_AGAIN_S)

    def _attach(self, token: int) -> Attach:
        held = self._held.copy()
        for first, last in self._settling.given_back():
            held.remove(first, last)
        holding = held.ranges().to_bytes()
        return Attach(token, self.receiver, self.destination, self._kind, self.subscription, holding, *self._asked)

    async def _attach_again(self, deadline: float) -> None:
        while True:
            try:
                await self._session.ask_now(self._attach, deadline, self._session.number)
                return
            except SubscriptionInUse as problem:  # our own former session may still be on its way out
                await self._until_given_up(problem, deadline)
