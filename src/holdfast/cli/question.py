"""One question to a server: open a client, ask, close it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.client.client import Client


Question = Callable[["Client"], Awaitable[Any]]


def ask(url: str, timeout: float | None, question: Question) -> Any:
    """Ask, and return the answer."""
    import holdfast

    async def work() -> Any:
        async with holdfast.connect(url, name="holdfast", timeout=timeout) as client:
            return await question(client)

    return holdfast.run(work())


def delete(url: str, timeout: float | None, question: Question, what: str, named: dict[str, str], *, as_json: bool) -> None:
    """Ask for something to be deleted, and print whether it was there."""
    from holdfast.cli.output import show

    was_there = ask(url, timeout, question)
    sentence = f"deleted {what}" if was_there else f"there was no {what}"
    show({**named, "deleted": was_there}, as_json=as_json, sentence=sentence)
