"""The conversation: who may say what, when. The table exhaustively, then two conversations back to back, then time."""

from __future__ import annotations

import itertools

import pytest

from holdfast.errors import ProtocolError, UnknownVersion
from holdfast.wire.conversation import OF_EITHER, OF_THE_LINK, TABLE, Conversation, Role, State, choose_version, farewell
from holdfast.wire.frame import (
    FRAME_BYTES_MAX,
    KINDS,
    MAGIC,
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

HELLO = Hello(MAGIC, [1])
WELCOME = Welcome(1, "node", FRAME_BYTES_MAX, 1000, 4)
EXAMPLES: list[Message] = [
    HELLO, WELCOME, OpenSession(1), SessionOpened(1, "s", b"", False), CloseSession(1), OpenProducer(1), Send(1),
    Receipted(1, 1, 1, True), Attach(1, 1, "q", "queue"), Credit(1, 1, 1), Deliver(1, []), Settle(1, 1, "confirm", b""),
    DetachReceiver(1, 1), Manage(1, "list", {}), Answered(1), Failed(1, "c", "refused", "s"), ReceiverClosed(1, "c", "s"),
    PressureChanged(True, 0, ""), Ping(), Pong(), Goodbye(), ForgetProducer(1, "p"),
    Browse(1, "q"), Browsed(1, [], 0, True), Part(1), Commit(1, "a", 0), Abandon(1, "a"), ReadFragment(1, 1, 1, 0), Fragment(1),
    Publish(1, "q", 0, [("s", 1)]),
    DestinationPressure("q", True),
    SessionSuspended(),
    Leave(),
    CommitAll(1, []),
]  # fmt: skip
BOTH: set[type[Message]] = {Ping, Pong, Goodbye}
OF_CLIENT: set[type[Message]] = BOTH | {
    OpenSession, CloseSession, OpenProducer, ForgetProducer, Send, Attach, Credit, Settle, DetachReceiver, Manage,
    Browse, Part, Commit, Abandon, ReadFragment, Publish, CommitAll,
}  # fmt: skip
OF_SERVER: set[type[Message]] = BOTH | {
    SessionOpened, Receipted, Deliver, Answered, Failed, ReceiverClosed, PressureChanged, Browsed, Fragment, DestinationPressure,
    SessionSuspended, Leave,
}  # fmt: skip
ALLOWED: dict[tuple[State, Role], set[type[Message]]] = {
    (State.SILENT, Role.CLIENT): {Hello, Goodbye},
    (State.SILENT, Role.SERVER): {Goodbye},
    (State.GREETING, Role.CLIENT): {Goodbye},
    (State.GREETING, Role.SERVER): {Welcome, Goodbye},
    (State.OPEN, Role.CLIENT): OF_CLIENT,
    (State.OPEN, Role.SERVER): OF_SERVER,
    (State.ENDED, Role.CLIENT): set(),
    (State.ENDED, Role.SERVER): set(),
}


def session_of(message: Message) -> int:
    return 0 if type(message) in OF_THE_LINK else 1


def speak(role: Role, conversation: Conversation, message: Message, session: int | None = None) -> None:
    """`role` says it, as seen by the conversation of either side."""
    number = session_of(message) if session is None else session
    if conversation.role is role:
        conversation.say(number, message)
    else:
        conversation.hear(Frame(number, message))


def brought_to(state: State, role: Role) -> Conversation:
    conversation = Conversation(role)
    if state in (State.GREETING, State.OPEN):
        speak(Role.CLIENT, conversation, HELLO)
    if state is State.OPEN:
        speak(Role.SERVER, conversation, WELCOME)
    if state is State.ENDED:
        speak(Role.CLIENT, conversation, Goodbye())
    assert conversation.state is state
    return conversation


def test_there_is_an_example_of_every_frame() -> None:
    assert {type(message) for message in EXAMPLES} == set(KINDS.values())


@pytest.mark.parametrize(("state", "speaker", "side"), list(itertools.product(State, Role, Role)))
def test_exactly_the_listed_frames_may_be_said_and_an_illegal_one_changes_nothing(
    state: State, speaker: Role, side: Role
) -> None:
    for message in EXAMPLES:
        conversation = brought_to(state, side)

        if type(message) in ALLOWED[state, speaker]:
            speak(speaker, conversation, message)
            assert conversation.state is TABLE[state, speaker][type(message)]
        else:
            before = dict(vars(conversation))
            with pytest.raises(ProtocolError, match=type(message).__name__):
                speak(speaker, conversation, message)
            assert vars(conversation) == before


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_frame_on_the_wrong_kind_of_session_is_refused_and_changes_nothing(message: Message) -> None:
    if type(message) in OF_EITHER:
        return
    speaker = Role.CLIENT if type(message) in OF_CLIENT | {Hello} else Role.SERVER
    state = {Hello: State.SILENT, Welcome: State.GREETING}.get(type(message), State.OPEN)
    conversation = brought_to(state, Role.SERVER)

    with pytest.raises(ProtocolError, match="session"):
        speak(speaker, conversation, message, session=1 - session_of(message))

    assert conversation.state is state


def test_two_conversations_back_to_back_stay_in_the_same_state() -> None:
    client, server = Conversation(Role.CLIENT), Conversation(Role.SERVER)
    transcript: list[tuple[Role, Message]] = [
        (Role.CLIENT, HELLO), (Role.SERVER, WELCOME), (Role.CLIENT, OpenSession(1)),
        (Role.SERVER, SessionOpened(1, "s", b"", False)), (Role.CLIENT, Send(1)), (Role.CLIENT, Ping()),
        (Role.SERVER, Pong()), (Role.SERVER, Receipted(1, 1, 1, True)),
        (Role.CLIENT, CloseSession(2)), (Role.SERVER, Answered(2)), (Role.CLIENT, Goodbye()),
    ]  # fmt: skip

    for speaker, message in transcript:
        speak(speaker, client, message)
        speak(speaker, server, message)
        assert client.state is server.state

    assert client.state is State.ENDED
    assert client.heartbeat_ms == server.heartbeat_ms == WELCOME.heartbeat_ms


def test_a_ping_is_replied_to_with_a_pong() -> None:
    conversation = brought_to(State.OPEN, Role.SERVER)

    assert conversation.hear(Frame(0, Ping())) == Pong()
    assert conversation.hear(Frame(0, Pong())) is None


def test_the_newest_common_version_is_chosen() -> None:
    assert choose_version(Hello(MAGIC, [99, 1])) == 1


def test_a_client_without_a_common_version_is_told_which_there_are() -> None:
    with pytest.raises(UnknownVersion) as refusal:
        choose_version(Hello(MAGIC, [98, 99]))

    assert farewell(refusal.value).code == "unknown-version"
    assert "[98, 99]" in farewell(refusal.value).sentence
    assert "[1]" in farewell(refusal.value).sentence


def test_a_stranger_is_told_that_this_is_another_protocols_port() -> None:
    with pytest.raises(ProtocolError, match="another protocol"):
        choose_version(Hello("redis", [1]))


@pytest.mark.parametrize(
    ("welcome", "kind"),
    [
        (Welcome(2, "node", FRAME_BYTES_MAX, 1000, 4), UnknownVersion),
        (Welcome(1, "node", FRAME_BYTES_MAX, 0, 4), ProtocolError),
        (Welcome(1, "node", FRAME_BYTES_MAX, 1000, 0), ProtocolError),
        (Welcome(1, "node", 0, 1000, 4), ProtocolError),
    ],
)
def test_a_welcome_that_cannot_be_kept_is_refused_and_changes_nothing(welcome: Welcome, kind: type[Exception]) -> None:
    conversation = brought_to(State.GREETING, Role.CLIENT)

    with pytest.raises(kind):
        conversation.hear(Frame(0, welcome))

    assert conversation.state is State.GREETING


def test_a_side_that_said_nothing_since_the_last_tick_pings_and_one_that_did_does_not() -> None:
    conversation = brought_to(State.OPEN, Role.CLIENT)
    conversation.tick(0.0)

    assert conversation.tick(0.5).to_say == (Ping(),)
    conversation.say(1, Send(1))
    assert conversation.tick(1.0).to_say == ()
    assert conversation.tick(1.5).to_say == (Ping(),)


def test_the_other_side_is_given_up_on_after_three_heartbeats_of_silence() -> None:
    conversation = brought_to(State.OPEN, Role.CLIENT)
    conversation.tick(0.0)

    ticks = [conversation.tick(each / 2) for each in range(1, 8)]

    assert [tick.is_dead for tick in ticks] == [False] * 5 + [True] * 2
    assert ticks[-1].to_say == ()


def test_anything_heard_ends_the_silence() -> None:
    conversation = brought_to(State.OPEN, Role.CLIENT)
    conversation.tick(0.0)
    for each in range(1, 6):
        conversation.tick(each / 2)

    conversation.hear(Frame(0, Pong()))

    assert not conversation.tick(3.0).is_dead
    assert not conversation.tick(5.0).is_dead


def test_a_tick_that_comes_late_does_not_take_our_own_silence_for_the_others() -> None:
    conversation = brought_to(State.OPEN, Role.CLIENT)
    conversation.tick(0.0)
    conversation.tick(0.5)

    assert not conversation.tick(100.0).is_dead
