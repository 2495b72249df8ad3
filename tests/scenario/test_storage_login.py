"""Who may use a front: tokens and certificates, over HTTP, on the command line and with fsspec."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from holdfast.cli.main import run
from holdfast.continuity.storage.file_system import StoreFileSystem
from holdfast.continuity.storage.http_connections import TOKEN_VARIABLE
from holdfast.continuity.storage.machines.login import Login
from holdfast.continuity.storage.serving import Tls, serve_front
from tests.certificates import Authority
from tests.storing import Storing, storing

WRITER, READER = "the-token-that-writes", "the-token-that-reads"


@asynccontextmanager
async def holding(tmp_path: Path) -> AsyncIterator[Storing]:
    """A store with one file."""
    async with storing(tmp_path, "a", "b") as made:
        await made.store.put("x", b"old")
        yield made


def bearing(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_nobody_reads_or_writes_without_a_token_and_a_reader_does_not_write(tmp_path: Path) -> None:
    async with (
        holding(tmp_path) as files,
        serve_front(files.url, "files", login=Login(WRITER, READER)) as front,
        httpx.AsyncClient(base_url=f"http://{front.address}") as http,
    ):
        for stranger in ({}, bearing("another-token-of-somebody")):
            for method, path in (("GET", "/x"), ("HEAD", "/x"), ("GET", "/"), ("PUT", "/y"), ("DELETE", "/x"), ("MOVE", "/x")):
                refused = await http.request(method, path, headers={**stranger, "destination": "/z"})
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
                assert "holdfast-write" not in refused.headers  # nothing of the store is told

        assert (await http.get("/x", headers=bearing(READER))).content == b"old"
        for method, path in (("PUT", "/y"), ("DELETE", "/x"), ("MOVE", "/x")):
            refused = await http.request(method, path, headers={**bearing(READER), "destination": "/z"})
            assert refused.status_code == 403

        assert (await http.put("/x", content=b"new", headers=bearing(WRITER))).status_code == 204
        assert (await http.get("/", headers=bearing(READER))).json()["files"][0]["name"] == "x"


async def test_the_command_line_and_fsspec_show_the_token_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with holding(tmp_path) as files, serve_front(files.url, "files", login=Login(WRITER, READER)) as front:
        where = f"http://{front.address}"

        def listed() -> tuple[int, str]:
            code = run(["store", "ls", "--front", where])
            return code, capsys.readouterr().err

        def opened(token: str = "") -> bytes:
            system = StoreFileSystem(front.address, token=token, skip_instance_cache=True)
            try:
                return bytes(system.cat_file("x"))
            finally:
                system._connections.close()

        monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
        code, told = await asyncio.to_thread(listed)
        assert code == 1 and "a token is needed" in told
        with pytest.raises(PermissionError, match="a token is needed"):
            await asyncio.to_thread(opened)
        assert await asyncio.to_thread(opened, token=READER) == b"old"

        monkeypatch.setenv(TOKEN_VARIABLE, READER)
        assert await asyncio.to_thread(listed) == (0, "")
        assert await asyncio.to_thread(opened) == b"old"
        (tmp_path / "new").write_bytes(b"new")
        assert await asyncio.to_thread(run, ["store", "put", str(tmp_path / "new"), "x", "--front", where]) == 1
        assert "this token is for reading" in capsys.readouterr().err


async def test_only_clients_with_a_certificate_are_taken_where_an_authority_is_named(tmp_path: Path) -> None:
    ours = Authority(tmp_path / "ours")
    own, theirs = ours.issue("127.0.0.1"), ours.issue("client")
    tls = Tls(own.certificate, own.key, ours.file)
    async with holding(tmp_path) as files, serve_front(files.url, "files", tls=tls) as front:
        context = ssl.create_default_context(cafile=ours.file)
        async with httpx.AsyncClient(base_url=f"https://{front.address}", verify=context) as stranger:
            with pytest.raises(httpx.TransportError):
                await stranger.get("/x")
        context.load_cert_chain(theirs.certificate, theirs.key)
        async with httpx.AsyncClient(base_url=f"https://{front.address}", verify=context) as known:
            assert (await known.get("/x")).content == b"old"


async def test_a_front_that_takes_everybody_from_other_machines_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def warned() -> int:
        return sum("every client that reaches 0.0.0.0" in each.getMessage() for each in caplog.records)

    caplog.set_level(logging.WARNING)
    async with holding(tmp_path) as files:
        async with serve_front(files.url, "files", listen=("0.0.0.0", 0), login=Login(WRITER)):
            assert warned() == 0
        async with serve_front(files.url, "files", listen=("0.0.0.0", 0)):
            assert warned() == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--read-token-file", "token"], "--read-token-file needs --token-file"),
        (["--token-file", "none"], "the token file none cannot be read"),
        (["--token-file", "open"], "chmod 600"),
        (["--tls-client-ca", "ca.pem"], "--tls-client-ca needs --tls-certificate"),
    ],
)
def test_options_of_the_login_that_make_no_sense_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "open").write_text(WRITER)
    (tmp_path / "open").chmod(0o644)

    assert run(["store", "serve", "files", *options]) == 1
    assert sentence in capsys.readouterr().err
