"""Running the parts of a file store: a place with its port, a front with its port, or all of them in one process.

    async with serve_place("holdfast://host", "files", "a", "./a") as place: …
    async with serve_front("holdfast://host", "files") as front: …            front.address is HOST:PORT
    with embedded("file:./events", "files", {"a": "./a", "b": "./b"}) as address: …      in a thread, for plain programs

Embedded, the store is created if it is not there. Front and places are then in one process: a lost disk is survived, a lost
machine is not.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.client.client import connect
from holdfast.continuity.errors import NoSuchFileStore
from holdfast.continuity.server_certificate import ServerCertificate
from holdfast.continuity.storage import definition as register
from holdfast.continuity.storage.application import FrontApplication
from holdfast.continuity.storage.asgi import AsgiServer
from holdfast.continuity.storage.definition import Definition
from holdfast.continuity.storage.file_store import FileStore
from holdfast.continuity.storage.machines.login import Login
from holdfast.continuity.storage.place.place_application import PlaceApplication
from holdfast.continuity.storage.place.storage_place import StoragePlace
from holdfast.node.login.security import is_loopback
from holdfast.node.settings import checked_advertised
from holdfast.wire.tls import client_context

log = logging.getLogger("holdfast.continuity")

ADDRESS = ("127.0.0.1", 0)


class Tls(NamedTuple):
    """The files of a certificate: its own, its key, and the authorities of those at the other end."""

    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None

    @property
    def of_server(self) -> ServerCertificate | None:
        """For who listens; with an authority it takes only those who show a certificate of it."""
        if self.certificate is None:
            return None
        return ServerCertificate(self.certificate, self.key or self.certificate, self.authority).checked()

    def to_places(self) -> ssl.SSLContext | None:
        """For links to places: they have certificates of the authority, and are shown the own one."""
        return client_context(self.authority, self.certificate, self.key) if self.authority is not None else None


class Front(NamedTuple):
    store: FileStore
    address: str
    places: tuple[StoragePlace, ...] = ()  # in the same process

    async def failed(self) -> None:
        """Return, with the problem raised, when a part has ended: it cannot go on."""
        parts = [self.store.failed(), *(each.failed() for each in self.places)]
        tasks = [asyncio.ensure_future(each) for each in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def serve_place(
    url: str,
    store: str,
    place: str,
    at: str,
    *,
    listen: tuple[str, int] = ADDRESS,
    advertise: str = "",
    folder: Path | None = None,
    site: str = "",
    tls: Tls | None = None,
) -> AsyncIterator[StoragePlace]:
    """A place that answers at its port. `advertise`: its address as others see it. With `tls` it takes only clients with a
    certificate of the authority."""
    tls = tls or Tls()
    checked_advertised(advertise)
    application = PlaceApplication()
    server = AsgiServer(application, *listen, tls.of_server)
    async with server:
        made = StoragePlace(
            url,
            store,
            place,
            at,
            address=advertise or f"{listen[0]}:{server.port}",
            folder=folder,
            site=site,
            tls=tls.to_places(),
        )
        async with made as opened:
            application.place = opened
            try:
                yield opened
            finally:
                application.place = None


@asynccontextmanager
async def serve_front(
    url: str,
    store: str,
    *,
    listen: tuple[str, int] = ADDRESS,
    tls: Tls | None = None,
    places_tls: Tls | None = None,
    login: Login | None = None,
) -> AsyncIterator[Front]:
    """A front that takes requests at its port: `tls` for its clients, with an authority only for those with a certificate of it;
    `places_tls` for its links to places; `login`: the tokens that clients show."""
    tls = tls or Tls()
    if not (is_loopback(listen[0]) or tls.authority or (login is not None and login.token)):
        log.warning(
            "every client that reaches %s:%d may read and write all files; give --token-file, or --tls-client-ca", *listen
        )
    async with (
        FileStore(url, store, tls=(places_tls or Tls()).to_places()) as opened,
        AsgiServer(FrontApplication(opened, login), *listen, tls.of_server) as server,
    ):
        yield Front(opened, f"{listen[0]}:{server.port}")


@asynccontextmanager
async def serve_all(
    url: str,
    store: str,
    places: Mapping[str, str],
    *,
    listen: tuple[str, int] = ADDRESS,
    tls: Tls | None = None,
    login: Login | None = None,
    **settings: Any,
) -> AsyncIterator[Front]:
    """Front and places in one process. The store is created with these settings if it is not there."""
    async with AsyncExitStack() as parts:
        client = await parts.enter_async_context(connect(url, name=f"front-{store}"))
        try:
            await register.read(client, store)
        except NoSuchFileStore:
            places_min = settings.pop("places_min", min(2, len(places)))
            await register.create(client, Definition(store, tuple(places), places_min, **settings))
        opened = [await parts.enter_async_context(serve_place(url, store, name, at)) for name, at in places.items()]
        front = await parts.enter_async_context(serve_front(url, store, listen=listen, tls=tls, login=login))
        yield front._replace(places=tuple(opened))


@contextmanager
def embedded(url: str, store: str, places: Mapping[str, str], **settings: Any) -> Iterator[str]:
    """A store in a thread of this process; the address of its front."""
    address: list[str] = []
    problems: list[BaseException] = []
    is_ready = threading.Event()
    ends: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def work() -> None:
        end = asyncio.Event()
        ends.append((asyncio.get_running_loop(), end))
        async with serve_all(url, store, places, **settings) as front:
            address.append(front.address)
            is_ready.set()
            await end.wait()

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as problem:
            problems.append(problem)
        finally:
            is_ready.set()

    thread = threading.Thread(target=run, name=f"holdfast-store-{store}")
    thread.start()
    is_ready.wait()
    try:
        if not address:
            raise problems[0]
        yield address[0]
    finally:
        loop, end = ends[0]
        if thread.is_alive():
            loop.call_soon_threadsafe(end.set)
        thread.join()
