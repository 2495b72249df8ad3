"""`holdfast store place` and `holdfast store serve`: run a storage place, or a front, until told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.continuity import packages
from holdfast.cli.options import URL_DEFAULT, Url, expanded
from holdfast.cli.program import opened, program

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from holdfast.continuity.storage.machines.login import Login
    from holdfast.continuity.storage.serving import Tls

StoreName = Annotated[str, typer.Argument(metavar="STORE", help="The name of a file store.")]
PlaceName = Annotated[str, typer.Argument(metavar="PLACE", help="The name of a place of the store.")]
At = Annotated[
    str,
    typer.Option(
        "--at",
        metavar="WHERE",
        help="Where its bytes are: a folder, a URL of fsspec such as s3://bucket/a, or http://HOST:PORT/PATH.",
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option("--folder", metavar="DIR", help="The folder of its catalog, if --at is not a folder.", parser=expanded),
]
PlaceListen = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="Its address for fronts and other places; port 0 takes a free one.")
]
Advertise = Annotated[str, typer.Option("--advertise", metavar="HOST:PORT", help="That address as other machines see it.")]
Site = Annotated[str, typer.Option("--site", metavar="SITE", help="The site where it is.")]
FrontListen = Annotated[
    str,
    typer.Option(
        "--listen", envvar="HOLDFAST_STORE_LISTEN", metavar="HOST:PORT", help="The address for clients; port 0 takes a free one."
    ),
]
Here = Annotated[
    list[str] | None,
    typer.Option(
        "--place", metavar="PLACE=WHERE", help="Run this place in the same process. A store that is not there is created."
    ),
]
Certificate = Annotated[
    Path | None, typer.Option("--tls-certificate", metavar="FILE", help="Speak TLS: its certificate, PEM.", parser=expanded)
]
Key = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of that certificate, PEM.", parser=expanded)]
PlaceCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-ca",
        metavar="FILE",
        help="Take, and call, only those with a certificate of these authorities, PEM.",
        parser=expanded,
    ),
]
ClientCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-ca",
        metavar="FILE",
        help="Take only clients with a certificate of these authorities, PEM.",
        parser=expanded,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="Take only clients that show the token in this file: Authorization: Bearer TOKEN.",
        parser=expanded,
    ),
]
ReadTokenFile = Annotated[
    Path | None,
    typer.Option("--read-token-file", metavar="FILE", help="Who shows this token may read, and not write.", parser=expanded),
]
PlacesCa = Annotated[
    Path | None,
    typer.Option("--places-ca", metavar="FILE", help="Speak TLS with places: the authorities of their certificates, PEM.",
                 parser=expanded),
]  # fmt: skip
PlacesCertificate = Annotated[
    Path | None,
    typer.Option("--places-certificate", metavar="FILE", help="The certificate that places see, PEM.", parser=expanded),
]
PlacesKey = Annotated[
    Path | None, typer.Option("--places-key", metavar="FILE", help="The key of that certificate, PEM.", parser=expanded)
]


def add_to(group: typer.Typer) -> None:
    group.command(
        "place",
        **help_text.described(
            "Run a place of a file store until SIGTERM or SIGINT; it prints 'place PLACE of STORE is open on HOST:PORT'.",
            [
                "holdfast store place files a --at ./a",
                "holdfast store place files b --at ./b --listen 127.0.0.1:0 --site north",
                "holdfast store place files c --at memory://c --folder ./c",
            ],
            changed={
                0: "stopped in good order",
                1: "refused: there is no such store, or the folder is in use or another place's",
                3: "it cannot listen there, or Holdfast cannot be reached",
            },
        ),
    )(place)
    group.command(
        "serve",
        **help_text.described(
            "Offer a file store over HTTP until SIGTERM or SIGINT; it prints 'taking requests on URL' when clients can connect.",
            [
                "holdfast store serve files --listen 127.0.0.1:0",
                "holdfast store serve local --listen 127.0.0.1:0 --url file:./local --place a=./local-a --place b=./local-b",
            ],
            changed={0: "stopped in good order", 3: "it cannot listen there, or Holdfast cannot be reached"},
        ),
    )(serve)


@program
def place(
    store: StoreName,
    name: PlaceName,
    at: At,
    folder: Folder = None,
    listen: PlaceListen = "127.0.0.1:0",
    advertise: Advertise = "",
    site: Site = "",
    tls_certificate: Certificate = None,
    tls_key: Key = None,
    tls_ca: PlaceCa = None,
    url: Url = URL_DEFAULT,
) -> None:
    with packages.needed():
        from holdfast.continuity.storage.serving import serve_place
    from holdfast.node.settings import parse_address

    tls = _tls(tls_certificate, tls_key, tls_ca, "--tls-ca")
    _run(
        lambda: serve_place(
            url, store, name, at, listen=parse_address(listen, "--listen"), advertise=advertise, folder=folder, site=site, tls=tls
        ),
        lambda opened: f"place {name} of {store} is open on {opened.address}",
    )


@program
def serve(
    store: StoreName,
    listen: FrontListen = "127.0.0.1:8090",
    place: Here = None,
    tls_certificate: Certificate = None,
    tls_key: Key = None,
    tls_client_ca: ClientCa = None,
    token_file: TokenFile = None,
    read_token_file: ReadTokenFile = None,
    places_ca: PlacesCa = None,
    places_certificate: PlacesCertificate = None,
    places_key: PlacesKey = None,
    url: Url = URL_DEFAULT,
) -> None:
    with packages.needed():
        from holdfast.continuity.storage.serving import Tls, serve_all, serve_front
    from holdfast.errors import BadSetting
    from holdfast.node.settings import parse_address

    if tls_client_ca is not None and tls_certificate is None:
        raise BadSetting("--tls-client-ca needs --tls-certificate", setting="tls_certificate")
    address, tls = parse_address(listen, "--listen"), Tls(tls_certificate, tls_key, tls_client_ca)
    login = _login(token_file, read_token_file)
    places_tls = _tls(places_certificate, places_key, places_ca, "--places-ca")
    here = _places(place or [])

    def made() -> AbstractAsyncContextManager[Any]:
        if here:
            return serve_all(url, store, here, listen=address, tls=tls, login=login)
        return serve_front(url, store, listen=address, tls=tls, places_tls=places_tls, login=login)

    protocol = "https" if tls_certificate else "http"
    _run(made, lambda opened: f"taking requests on {protocol}://{opened.address}")


def _places(told: list[str]) -> dict[str, str]:
    from holdfast.errors import BadSetting

    parts = [each.partition("=") for each in told]
    if not all(name and where for name, _, where in parts):
        raise BadSetting("--place is PLACE=WHERE, as in a=./a", setting="place")
    places = {name: where for name, _, where in parts}
    if len(places) < len(parts):
        raise BadSetting("--place names a place twice; each has a name of its own", setting="place")
    return places


def _login(token_file: Path | None, read_token_file: Path | None) -> Login:
    from holdfast.continuity.storage.machines.login import Login
    from holdfast.errors import BadSetting
    from holdfast.http.protection import read_token

    if read_token_file is not None and token_file is None:
        raise BadSetting("--read-token-file needs --token-file: who may write?", setting="token_file")
    return Login(*(read_token(each) if each is not None else "" for each in (token_file, read_token_file)))


def _tls(certificate: Path | None, key: Path | None, authority: Path | None, option: str) -> Tls:
    from holdfast.continuity.storage.serving import Tls
    from holdfast.errors import BadSetting

    if authority is None and (certificate is not None or key is not None):
        raise BadSetting(
            f"links of places are protected both ways: name the authorities with {option}", setting=option.strip("-")
        )
    made = Tls(certificate, key, authority)
    made.to_places()  # what cannot be read is refused before anything starts
    return made


def _run(made: Callable[[], AbstractAsyncContextManager[Any]], sentence: Callable[[Any], str]) -> None:
    import holdfast

    holdfast.run(_until_signal(made, sentence))


async def _until_signal(made: Callable[[], AbstractAsyncContextManager[Any]], sentence: Callable[[Any], str]) -> None:
    """Run until a signal comes."""
    import asyncio
    import contextlib
    import signal

    from holdfast.cli.output import print_line

    end = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, end.set)
    async with contextlib.AsyncExitStack() as parts:
        part = await opened(lambda: parts.enter_async_context(made()), "it")
        print_line(sentence(part))
        ending = [asyncio.ensure_future(each) for each in (end.wait(), part.failed())]
        done, _ = await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
        for task in ending:
            task.cancel()
        for task in done:
            task.result()
