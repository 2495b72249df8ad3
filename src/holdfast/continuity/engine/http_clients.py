"""An engine inside the client's own process (C12): for `httpx` and `requests`, chosen by URL prefix.

    async with Engine("file:./events", "shop") as engine:
        transport = HttpxTransport(engine)
        async with httpx.AsyncClient(mounts={"http://shop.internal": transport}) as http:
            await http.post("http://shop.internal/orders", json={…})        # to all servers of the domain
            await http.get("http://elsewhere/")                              # direct, as ever

    with RequestsAdapter("holdfast://127.0.0.1", "shop") as adapter:
        session = requests.Session()
        session.mount("http://shop.internal", adapter)

Neither package is needed unless its class is used.
"""

from __future__ import annotations

import asyncio
import io
import threading
from email.message import Message
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from holdfast.continuity.engine import passed_headers
from holdfast.continuity.engine.engine import Engine
from holdfast.continuity.errors import NotAnswered, NotTaken
from holdfast.continuity.request import Headers

if TYPE_CHECKING:
    import httpx
    import requests

_ADAPTER_SECONDS = 60.0


class HttpxTransport:
    """A transport of `httpx.AsyncClient`: hands requests to an engine."""

    def __init__(self, engine: Engine, session: str = "") -> None:
        """`session`: the session of all requests that come this way."""
        self._engine = engine
        self._session = session

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        import httpx

        body = await request.aread()
        headers = [(name.lower(), value) for name, value in request.headers.raw]
        target = request.url.raw_path.decode("ascii")
        given = await _ask(self._engine, request.method, target, headers, body, self._session)
        return httpx.Response(given.status, headers=given.text_headers, content=given.body)

    async def aclose(self) -> None:
        """Do nothing: the engine belongs to the program."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class RequestsAdapter:
    """An adapter of `requests.Session`: runs an engine in a thread of its own, and hands requests to it."""

    def __init__(self, url: str, domain: str, session: str = "", **options: Any) -> None:
        self._session = session
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"engine of {domain}", daemon=True)
        self._thread.start()
        self._engine = Engine(url, domain, **options)
        try:
            self._run(self._engine.open())
        except BaseException:
            self._stop()
            raise

    @property
    def engine(self) -> Engine:
        return self._engine

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_ADAPTER_SECONDS)

    def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:
        """Carry a request out, as `requests` asks an adapter to. Time-outs, proxies and certificates are the engine's."""
        assert request.method is not None
        headers = [(name.lower().encode(), _bytes(value)) for name, value in request.headers.items()]
        body = _body_of(request.body)
        given = self._run(_ask(self._engine, request.method, request.path_url, headers, body, self._session))
        return _response(request, given.status, given.text_headers, given.body)

    def close(self) -> None:
        """Close the engine, and end its thread."""
        if self._thread.is_alive():
            self._run(self._engine.close())
            self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Given(NamedTuple):
    """A response, before it has the form of one of the packages."""

    status: int
    headers: Headers
    body: bytes

    @property
    def text_headers(self) -> list[tuple[str, str]]:
        return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self.headers]


async def _ask(engine: Engine, method: str, target: str, headers: Headers, body: bytes, session: str) -> _Given:
    key = next((value.decode("latin-1") for name, value in headers if name == b"idempotency-key"), "").strip('"')
    asked = passed_headers.of_request(headers, body)
    try:
        transaction, number = await engine.submit(method, target, asked, body, session=session, key=key)
        try:
            answer = await transaction.whole()
            return _Given(answer.head.status, passed_headers.of_answer(transaction, number), answer.body)
        finally:
            engine.leave(number)
    except NotTaken as problem:
        return _Given(503, [(b"retry-after", b"%d" % problem.retry_after)], problem.sentence.encode())
    except NotAnswered as problem:
        return _Given(problem.status, passed_headers.of_problem(problem), problem.sentence.encode())


def _bytes(value: str | bytes) -> bytes:
    return value.encode("latin-1") if isinstance(value, str) else value


def _body_of(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    return body if isinstance(body, bytes) else b"".join(body) if not hasattr(body, "read") else bytes(body.read())


def _response(
    request: requests.PreparedRequest, status: int, headers: list[tuple[str, str]], body: bytes
) -> requests.Response:  # fmt: skip
    """A response in the form of `requests`, cookies included."""
    import urllib3
    from requests.adapters import HTTPAdapter

    told = Message()
    for name, value in headers:
        told[name] = value
    original: Any = _Original(told)
    raw = urllib3.HTTPResponse(
        io.BytesIO(body), urllib3.HTTPHeaderDict(headers), status, preload_content=False, original_response=original
    )
    return HTTPAdapter().build_response(request, raw)


class _Original:
    """The response below a response, of which `requests` reads the cookies."""

    def __init__(self, msg: Message) -> None:
        self.msg = msg

    def isclosed(self) -> bool:
        return True

    def close(self) -> None:
        pass
