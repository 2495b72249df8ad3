"""What is done within a session, without a loop; and sessions beside the client's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from holdfast.blocking.background import Background
from holdfast.blocking.browser import Browser
from holdfast.blocking.destination import Queue, Topic
from holdfast.blocking.recipient import Incoming
from holdfast.blocking.transaction import Transaction
from holdfast.client import sessions as _sessions
from holdfast.client.browser import PAGE_EVENTS
from holdfast.client.checks import ConfirmMode
from holdfast.client.granting import CREDIT_BYTES, CREDIT_EVENTS


class InSession(ABC):
    _background: Background

    @abstractmethod
    def _twin(self) -> _sessions.InSession:
        """The same in the loop."""

    def queue(self, name: str) -> Queue:
        return Queue(self._background, self._twin().queue(name))

    def topic(self, name: str) -> Topic:
        return Topic(self._background, self._twin().topic(name))

    def subscribe(
        self,
        topic: str | None = None,
        name: str | None = None,
        *,
        regex: str | None = None,
        durable: bool | None = None,
        shared: bool = False,
        no_local: bool = False,
        selector: str | None = None,
        credit: int = CREDIT_EVENTS,
        credit_bytes: int = CREDIT_BYTES,
        timeout: float | None = None,
        confirm: ConfirmMode | None = None,
    ) -> Incoming:
        twin = self._twin()
        return Incoming(
            self._background,
            lambda: twin.subscribe(
                topic, name, regex=regex, durable=durable, shared=shared, no_local=no_local, selector=selector,
                credit=credit, credit_bytes=credit_bytes, timeout=timeout, confirm=confirm,
            ),
        )  # fmt: skip

    def browse(
        self,
        topic: str | None,
        name: str,
        *,
        regex: str | None = None,
        selector: str | None = None,
        page: int = PAGE_EVENTS,
        timeout: float | None = None,
    ) -> Browser:
        twin = self._twin()
        return Browser(self._background, twin.browse(topic, name, regex=regex, selector=selector, page=page, timeout=timeout))

    def transaction(self, *, timeout: float | None = None) -> Transaction:
        twin = self._twin()
        return Transaction(self._background, lambda: twin.transaction(timeout=timeout))

    def recover(self, *, timeout: float | None = None) -> None:
        self._background.run(self._twin().recover(timeout=timeout))


class ClientSession(InSession):
    """A session beside the client's own: `with client.session(confirm="client") as session: …`."""

    def __init__(self, background: Background, session: _sessions.ClientSession) -> None:
        self._background = background
        self._session = session

    @property
    def name(self) -> str:
        return self._session.name

    def _twin(self) -> _sessions.InSession:
        return self._session

    def open(self) -> Self:
        self._background.run(self._session.open())
        return self

    def close(self) -> None:
        self._background.run(self._session.close())

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._background.run(self._session.close(is_done=error is None))
