"""A webhook ends in time and tells no secrets, whatever the server does; and a setting that cannot work is refused at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.actions import Alert, Surroundings
from holdfast.actions.errors import ActionFailed
from holdfast.actions.kinds.webhook import SAID_LENGTH_MAX, Webhook
from tests.raw_http_server import raw_http_server

ALERT = Alert(id="1", rule="r", at="2026-01-01T00:00:00+00:00", program="p", action="a", summary="s")
TOKEN = "abcdefghij-klmnopqrst-uvwxyz"

Say = Callable[[asyncio.StreamWriter, bytes], Awaitable[bool]]


def _webhook(url: str, surroundings: Surroundings, **settings: object) -> Webhook:
    return Webhook(Webhook.Settings(url=url, **settings), surroundings)  # type: ignore[arg-type]


async def _dribble_head(writer: asyncio.StreamWriter, request: bytes) -> bool:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while not writer.transport.is_closing():
        writer.write(b"X")
        await asyncio.sleep(0.01)
    return False


async def _go_on_for_ever(writer: asyncio.StreamWriter, request: bytes) -> bool:
    while not writer.transport.is_closing():
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await asyncio.sleep(0.01)
    return False


async def _say_nothing(writer: asyncio.StreamWriter, request: bytes) -> bool:
    await asyncio.Event().wait()
    return False


@pytest.mark.parametrize("say", [_dribble_head, _go_on_for_ever, _say_nothing])
async def test_a_server_that_dribbles_or_is_silent_is_given_up_in_time(say: Say) -> None:
    async with raw_http_server(say) as server:
        webhook = _webhook(server.url, Surroundings("p"), timeout=0.3)

        async with asyncio.timeout(20):
            with pytest.raises(ActionFailed, match=r"did not answer: .*(within 0\.3 s|timed out)"):
                await asyncio.to_thread(webhook.do, [ALERT])


async def test_an_answer_is_enough_although_its_body_never_ends() -> None:
    async def say(writer: asyncio.StreamWriter, request: bytes) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\nmore")
        await asyncio.Event().wait()
        return False

    async with raw_http_server(say) as server, asyncio.timeout(20):
        await asyncio.to_thread(_webhook(server.url, Surroundings("p")).do, [ALERT])


@pytest.mark.parametrize("before", [0, SAID_LENGTH_MAX - 15])
async def test_an_answer_that_shows_the_secrets_of_its_request_is_told_without_them(before: int) -> None:
    async def say(writer: asyncio.StreamWriter, request: bytes) -> bool:
        shown = next(line.split()[-1] for line in request.split(b"\r\n") if line.startswith(b"Authorization:"))
        body = b"y" * before + b" " + shown
        writer.write(b"HTTP/1.1 500 no\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        return False

    surroundings = Surroundings("p")
    surroundings.secrets.hide(TOKEN)
    async with raw_http_server(say) as server:
        bearer = _webhook(server.url, surroundings, headers={"Authorization": f"Bearer {TOKEN}"})
        basic = _webhook(server.url.replace("http://", f"http://bob:{TOKEN}@"), surroundings)
        for webhook in (bearer, basic):
            with pytest.raises(ActionFailed, match="answered 500") as failed:
                await asyncio.to_thread(webhook.do, [ALERT])
            assert TOKEN[:8] not in str(failed.value)
            assert "Ym9iOm" not in str(failed.value), "nor as base64"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("url", "http://["),
        ("url", "http://x:abc/"),
        ("url", "http://x:99999/"),
        ("url", "http://x/a b"),
        ("url", "http://x/é"),
        ("url", "http://x/{host}"),
        ("timeout", 0),
        ("secret", "whsec_@@@"),
        ("headers", {"X": "€"}),
        ("headers", {"X": "a\nb"}),
    ],
)
def test_a_setting_that_cannot_work_is_named(setting: str, value: object) -> None:
    settings = Webhook.Settings(**{"url": "http://x/", setting: value})  # type: ignore[arg-type]

    assert [named for named, _ in Webhook.complaints(settings)] == [setting]
