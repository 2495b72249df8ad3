"""The conversation on a link: a table says which frame may come when, and from whom. No I/O, no clock.

    SILENT ──Hello──▶ GREETING ──Welcome──▶ OPEN ──Goodbye──▶ ENDED
       └───────────────── Goodbye ─────────────────────────────▲

Each end of a link has one `Conversation` in its role, which sees every frame that is said or heard. A frame that the table does
not list is a ProtocolError and changes nothing. The table decides only whether a frame may come now, from this side, and whether
it concerns the link (session 0) or a session; its effect is decided elsewhere.

Heartbeats need no clock: `tick(now)` says whether to ping and whether to give up the other side. Frames are not timed one by one:
a tick notices whether anything was said or heard since the tick before. A late tick, because this process was stopped or busy,
counts for no more than two punctual ones: we must not take our own silence for the other's.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from holdfast.errors import HoldfastError, ProtocolError, UnknownVersion
from holdfast.wire.frame import (
    MAGIC,
    VERSIONS,
    Abandon,
    Answered,
    Attach,
    Browse,
    Browsed,
    CloseSession,
    Commit,
    CommitAll,
    Credit,
    Deliver,
    DestinationPressure,
    DetachReceiver,
    Failed,
    ForgetProducer,
    Fragment,
    Frame,
    Goodbye,
    Hello,
    Leave,
    Manage,
    Message,
    OpenProducer,
    OpenSession,
    Part,
    Ping,
    Pong,
    PressureChanged,
    Publish,
    ReadFragment,
    Receipted,
    ReceiverClosed,
    Send,
    SessionOpened,
    SessionSuspended,
    Settle,
    Welcome,
)
from holdfast.wire.message import SENTENCE_LENGTH_MAX

# The heartbeat before the greeting has named one.
HEARTBEAT_MS_DEFAULT = 5_000
SILENT_HEARTBEATS_MAX = 3
TICKS_PER_HEARTBEAT = 2


class Role(enum.Enum):
    CLIENT = "client"
    SERVER = "server"

    @property
    def other(self) -> Role:
        return Role.SERVER if self is Role.CLIENT else Role.CLIENT


class State(enum.Enum):
    SILENT = "silent"
    GREETING = "greeting"
    OPEN = "open"
    ENDED = "ended"


_OF_CLIENTS = (
    OpenSession, CloseSession, OpenProducer, ForgetProducer, Send, Attach, Credit, Settle, DetachReceiver, Manage, Ping, Pong,
    Browse, Part, Commit, Abandon, ReadFragment, Publish, CommitAll,
)  # fmt: skip
_OF_SERVERS = (
    SessionOpened, Receipted, Deliver, Answered, Failed, ReceiverClosed, PressureChanged, Ping, Pong,
    Browsed, Fragment, DestinationPressure, SessionSuspended, Leave,
)  # fmt: skip

TABLE: dict[tuple[State, Role], dict[type[Message], State]] = {
    (State.SILENT, Role.CLIENT): {Hello: State.GREETING, Goodbye: State.ENDED},
    (State.SILENT, Role.SERVER): {Goodbye: State.ENDED},
    (State.GREETING, Role.CLIENT): {Goodbye: State.ENDED},
    (State.GREETING, Role.SERVER): {Welcome: State.OPEN, Goodbye: State.ENDED},
    (State.OPEN, Role.CLIENT): {**dict.fromkeys(_OF_CLIENTS, State.OPEN), Goodbye: State.ENDED},
    (State.OPEN, Role.SERVER): {**dict.fromkeys(_OF_SERVERS, State.OPEN), Goodbye: State.ENDED},
    (State.ENDED, Role.CLIENT): {},
    (State.ENDED, Role.SERVER): {},
}

OF_THE_LINK = frozenset((Hello, Welcome, Ping, Pong, Goodbye, Leave))
OF_EITHER = frozenset((PressureChanged,))


class Tick(NamedTuple):
    """What is due: frames to say on session 0, whether to give up the other side, and when to tick again."""

    to_say: tuple[Message, ...]
    is_dead: bool
    again_in_s: float


def choose_version(hello: Hello) -> int:
    """Return the newest version both sides speak. ProtocolError for another protocol, UnknownVersion when there is none."""
    if hello.magic != MAGIC:
        raise ProtocolError(f"greeted with {hello.magic[:40]!r} where {MAGIC!r} was expected; this is another protocol's port")
    common = [version for version in hello.versions if version in VERSIONS]
    if not common:
        raise UnknownVersion(
            f"the client speaks versions {hello.versions[:8]}, this server {list(VERSIONS)}; upgrade the older of the two",
            versions=str(hello.versions[:8]),
        )
    return max(common)


def farewell(error: HoldfastError | None = None) -> Goodbye:
    """Return the last frame of a link, with the reason it ends."""
    return Goodbye() if error is None else Goodbye(error.code, error.sentence[:SENTENCE_LENGTH_MAX])


class Conversation:
    """The state of the conversation, as one end of a link knows it."""

    def __init__(self, role: Role, heartbeat_ms: int = HEARTBEAT_MS_DEFAULT) -> None:
        self.role = role
        self.state = State.SILENT
        self.heartbeat_ms = heartbeat_ms
        self._sayable = TABLE[self.state, role]
        self._hearable = TABLE[self.state, role.other]
        self._has_said = False
        self._has_heard = False
        self._silence_s = 0.0
        self._ticked_at: float | None = None

    def say(self, session: int, message: Message) -> None:
        """Check what we are about to say. ProtocolError, and nothing changed, if we may not say it now."""
        self._move(self.role, self._sayable, session, message)
        self._has_said = True

    def hear(self, frame: Frame) -> Message | None:
        """Check what the other side said; return the reply of the link itself, if any.

        ProtocolError, and nothing changed, if it may not say that now.
        """
        message = frame.message
        self._move(self.role.other, self._hearable, frame.session, message)
        self._has_heard = True
        return Pong() if type(message) is Ping else None

    def _move(self, speaker: Role, allowed: dict[type[Message], State], session: int, message: Message) -> None:
        kind = type(message)
        state = allowed.get(kind)
        if state is None:
            raise ProtocolError(
                f"a {speaker.value} may not say {kind.__name__} while the link is {self.state.value}; "
                "it does not speak this protocol",
                kind=kind.KIND,
            )
        if (session == 0) is not (kind in OF_THE_LINK) and kind not in OF_EITHER:
            belongs = "the link (session 0)" if session else "a session (1 or more)"
            raise ProtocolError(f"{kind.__name__} was said on session {session}; it belongs to {belongs}", kind=kind.KIND)
        if kind is Welcome:
            assert isinstance(message, Welcome)
            self._open(message)
        if state is not self.state:
            self.state = state
            self._sayable = TABLE[state, self.role]
            self._hearable = TABLE[state, self.role.other]

    def _open(self, welcome: Welcome) -> None:
        if welcome.version not in VERSIONS:
            raise UnknownVersion(
                f"the server chose version {welcome.version}, this client speaks {list(VERSIONS)}; upgrade it",
                version=welcome.version,
            )
        if welcome.heartbeat_ms <= 0 or welcome.window <= 0 or welcome.frame_bytes_max <= 0:
            raise ProtocolError("the server's welcome has a limit that is not positive; it does not speak this protocol")
        self.heartbeat_ms = welcome.heartbeat_ms

    def tick(self, now: float) -> Tick:
        """Return what is due at `now` (seconds, any steady clock). Call it at the start, and again after each `again_in_s`."""
        heartbeat_s = self.heartbeat_ms / 1000
        period_s = heartbeat_s / TICKS_PER_HEARTBEAT
        passed_s = 0.0 if self._ticked_at is None else min(now - self._ticked_at, 2 * period_s)
        self._silence_s = 0.0 if self._has_heard else self._silence_s + passed_s
        is_ping_due = self.state is State.OPEN and not self._has_said and self._ticked_at is not None
        self._ticked_at = now
        self._has_heard = self._has_said = False
        is_dead = self._silence_s >= SILENT_HEARTBEATS_MAX * heartbeat_s
        return Tick((Ping(),) if is_ping_due and not is_dead else (), is_dead, period_s)
