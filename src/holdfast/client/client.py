"""The client: the object that `holdfast.connect` returns.

    async with holdfast.connect("file:./events") as client:
        receipt = await client.queue("orders").send({"sku": 7}, type="order.placed")

A client has one link at a time. Over it go the client's own session, and further sessions (`client.session()`). A client is used
in the loop that opened it; threads use `holdfast.blocking`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self, Unpack

from holdfast.client import checks
from holdfast.client.administration import Administration
from holdfast.client.checks import ConfirmMode
from holdfast.client.client_session import ClientSession, SessionMethods, checked_name
from holdfast.client.connection.connection import ANSWER_S, TIMEOUT_S, Connection
from holdfast.client.connection.session import Session
from holdfast.client.dead import DeadEvents
from holdfast.client.link.dialer import dialer_for
from holdfast.client.program import source_of
from holdfast.client.reading.outcomes import OutcomeQuestion, Outcomes
from holdfast.client.reading.place_reader import Reading, ReadingOptions
from holdfast.client.receiving.attachment.attachment import ranges_of
from holdfast.client.receiving.receive_options import Match
from holdfast.client.staging import Staging
from holdfast.client.url import credentials_of, or_from_environment, parse_with_password, without_password
from holdfast.errors import Closed
from holdfast.event.position import Ranges


def connect(url: str | None = None, *, name: str = "", timeout: float | None = None, password: str | None = None) -> Client:
    """A client of the events at `url`: `file:DIR`, `memory:`, `memory:NAME`, `holdfast://[USER@]HOST[:PORT][,HOST…]`, or the same
    with `holdfasts://` for TLS. Without a URL, the environment has it as HOLDFAST_URL.

    Use it as `async with`.

    name       the name of this program: the source of its events that name no other. Without it, the source is the host and the
               program, as in `till-7/orders`. Give a name where the program may start again on another host, as in a container:
               destinations that deduplicate know an event by its source and id
    timeout    seconds that a call waits if it is given no timeout of its own; without it, 30, and 3 for the first answer of a
               server
    password   of the user in the URL, if it is neither there nor in the environment as HOLDFAST_PASSWORD
    """
    return Client(url, name=name, timeout=timeout, password=password)


class Client(SessionMethods, Administration, Staging):
    """A client of one place of events. Made by `connect`, used inside `async with`, in the loop that opened it."""

    def __init__(
        self, url: str | None = None, *, name: str = "", timeout: float | None = None, password: str | None = None
    ) -> None:
        url = or_from_environment(url)
        parsed = parse_with_password(url, password)
        self._dialer = dialer_for(parsed)
        self._credentials = credentials_of(parsed)
        self.url = without_password(url)
        self.name = checked_name(name, "client")
        self.timeout = checks.seconds(timeout, TIMEOUT_S)
        self._answer_s = checks.seconds(timeout, ANSWER_S)
        self._connection: Connection | None = None

    async def open(self) -> Self:
        """Make the first link. Unreachable when no server answers in time. A wrong folder, a wrong version, or a server of
        another kind is refused at once."""
        if self._connection is not None:
            raise Closed("a client is opened once; connect again for another")
        self._connection = Connection(self._dialer, self.name, self.name or source_of(), self.timeout, self._credentials)
        await self._connection.open(self._answer_s)
        return self

    async def close(self) -> None:
        """Close the receivers, wait for all receipts, then end the sessions and, if it is embedded, the node."""
        await self._close(is_done=True)

    async def _close(self, is_done: bool) -> None:
        """`is_done`: the program leaves without an error."""
        if self._connection is not None:
            await self._connection.close(is_done)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._close(is_done=error is None)

    def _opened(self) -> Session:
        if self._connection is None:
            raise Closed(
                "the client is not open; use it inside `async with holdfast.connect(…)`, or `with holdfast.blocking.connect(…)`"
            )
        self._connection.check_open()
        return self._connection.session

    def session(self, confirm: ConfirmMode = "event", *, name: str = "", resume: str = "") -> ClientSession:
        """A session beside the client's own, over the same link: `async with client.session(confirm="client") as session: …`.

        It has `queue`, `topic`, `subscribe` … as a client has. `confirm` is the mode of receivers that are given none of their
        own: "event" (each event by its verdict), "auto" (each when the next is asked for), "client" (confirming one event
        confirms all that the session was handed), "duplicates-ok" (as auto, but the server is told seldom).

        `resume` is the `id` of a session that a process before this one left behind when it died. This session goes on in its
        place, at once: a receiver that comes with `held=` keeps what that one held, and nobody else gets it meanwhile. A session
        that the server does not know any more, or of another user, is a new one. A client in whose place another has come
        does not get its session back: its receivers end, or attach anew.
        """
        return ClientSession(self._opened().connection, name or self.name, confirm, resume)

    def reading(self, destination: str, subscription: str = "", **options: Unpack[ReadingOptions]) -> Reading:
        """Read what waits in a subscription, of a topic or of a pattern, by place: see `holdfast.client.reading.place_reader`.

            reading = client.reading("alerts.*", "lake", match="glob")
            async with reading.owner():
                extent = await reading.extent(events_max=100_000)

        Options: `ReadingOptions`. Without a subscription the destination is a queue: it can be read, but not owned.
        """
        return Reading(self._opened, destination, subscription, **options)

    async def outcomes(
        self,
        destination: str,
        ranges: Ranges | Iterable[tuple[int, int]],
        *,
        subscription: str = "",
        match: Match | None = None,
        wait: float = 0.0,
        timeout: float | None = None,
        channel: str = "",
    ) -> Outcomes:
        """What became of events, by their positions: waiting, confirmed, dead with code and reason, or nobody's.

            outcomes = await client.outcomes("orders", [(receipt.position, receipt.position)], wait=10)

        Of a queue; of a topic for all its durable subscriptions that were there when the event was placed, those of patterns too;
        or of one `subscription`, of a topic or of a pattern (`match` as in `reading`). With `wait`, it returns as soon as one
        that waits is finished, after so many seconds at the latest; at once if one of them is finished already. So ask about what
        you still wait for. Positions are those of this destination: others are told as confirmed. The positions of a pattern are
        those of one `channel`, where there are several.

        A dead event that was taken out of `_DMQ` counts as confirmed. NoSuchSubscription when the one that is named is gone.
        """
        question = OutcomeQuestion(self._opened(), destination, subscription, match, timeout, channel)
        return await question.ask(ranges_of(ranges), wait)

    @property
    def dead(self) -> DeadEvents:
        """The events that could not be delivered: `list`, `show`, `replay`, `purge`."""
        return DeadEvents(self._opened)

    @property
    def incarnation(self) -> str:
        """The incarnation of the server's channel, from its newest greeting: positions of another one mean other events.

        It is another one after the server was restored from a backup. "" before the first link.
        """
        return self._connection.incarnation if self._connection is not None else ""

    @property
    def channels(self) -> Sequence[str]:
        """The channels of the server's message managers, from its newest greeting; empty where there is one alone."""
        return self._connection.channels if self._connection is not None else ()

    @property
    def is_linked(self) -> bool:
        """There is a link, and the session uses it."""
        return self._connection is not None and self._connection.session.is_ready

    @property
    def is_blocked(self) -> bool:
        """The server is short of room: it draws on its reserve, and refuses events when that is used up."""
        pressure = self._connection.pressure if self._connection is not None else None
        return pressure is not None and pressure.is_short

    async def unblocked(self, timeout: float | None = None) -> None:
        """Wait until the server is not short of room. TimedOut when that takes longer."""
        connection = self._opened().connection
        checks.same_loop(connection.loop)
        await connection.unblocked(checks.seconds(timeout, connection.timeout))

    @property
    def blocked_reason(self) -> str:
        """Why the server is short of room; "" when it is not."""
        pressure = self._connection.pressure if self._connection is not None else None
        return pressure.reason if pressure is not None and pressure.is_short else ""
