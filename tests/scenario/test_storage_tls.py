"""The links of a file store over TLS, with certificates of both ends: nobody reads them on the way, strangers are refused."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

import holdfast
from holdfast.continuity.storage import definition as register
from holdfast.continuity.storage.definition import Definition
from holdfast.continuity.storage.place_link import LinkBroken, PlaceLinks
from holdfast.continuity.storage.serving import Tls, serve_front, serve_place
from holdfast.wire.tls import client_context
from tests.certificates import Authority
from tests.recording_proxy import recording_proxy
from tests.server_process import free_port
from tests.storing import read
from tests.waiting import until

SECRET = b"the balance of Ann " * 10_000


def tls_of(authority: Authority) -> Tls:
    pem = authority.issue("127.0.0.1")
    return Tls(pem.certificate, pem.key, authority.file)


async def test_bytes_between_fronts_and_places_are_not_readable_and_strangers_are_refused(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    url, tls, port = f"memory:{secrets.token_hex(4)}", tls_of(ours), free_port()
    async with holdfast.connect(url) as client, recording_proxy() as proxy:
        proxy.target = ("127.0.0.1", port)
        await register.create(client, Definition("files", ("a", "b")))
        seen_at = f"127.0.0.1:{proxy.port}"
        async with (
            serve_place(url, "files", "a", str(tmp_path / "a"), tls=tls, listen=("127.0.0.1", port), advertise=seen_at),
            serve_place(url, "files", "b", str(tmp_path / "b"), tls=tls) as b,
            serve_front(url, "files", places_tls=tls) as front,
        ):
            await until(lambda: len(front.store.places.current()) == 2, "both are current")

            await front.store.put("x", SECRET)
            assert await read(front.store, "x") == SECRET
            await until(lambda: b.catalog.find("x") is not None and not b.catalog.lacking(1), "it is at both")

            assert len(proxy.captured) > len(SECRET)
            assert SECRET[:19] not in proxy.captured
            for stranger in (None, tls_of(theirs).to_places(), client_context(ours.file)):
                with pytest.raises(LinkBroken):
                    await PlaceLinks(stranger).json(seen_at, "/state")
            links = PlaceLinks(tls.to_places())
            assert (await links.json(seen_at, "/state"))[0] == 200
            links.close()
