"""URLs: where a client finds its events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.url import (
    PASSWORD_VARIABLE,
    URL_VARIABLE,
    Credentials,
    FileUrl,
    MemoryUrl,
    ServerUrl,
    parse,
    parse_with_password,
    without_password,
)
from holdfast.errors import BadSetting, BadUrl


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("file:events", FileUrl("events")),
        ("file:./a b", FileUrl("./a b")),
        ("file:/var/events", FileUrl("/var/events")),
        ("file:///var/events", FileUrl("/var/events")),
        ("file:a%20b", FileUrl("a b")),
        ("file:a?journal_size=1G&reserve=8M", FileUrl("a", (("journal_size", "1G"), ("reserve", "8M")))),
        ("memory:", MemoryUrl("")),
        ("memory:shared", MemoryUrl("shared")),
        ("holdfast://one", ServerUrl((("one", 7400),))),
        ("holdfasts://one", ServerUrl((("one", 7400),), is_tls=True)),
        ("holdfast://me@one", ServerUrl((("one", 7400),), Credentials("me"))),
        (
            "holdfast://me:p%40s%2Fs%3A@one?insecure=yes",
            ServerUrl((("one", 7400),), Credentials("me", "p@s/s:"), is_insecure=True),
        ),
        (
            "holdfasts://one?ca=a%20b&certificate=c&key=k",
            ServerUrl((("one", 7400),), is_tls=True, ca="a b", certificate="c", key="k"),
        ),
        ("holdfast://one:1,two,[::1]:3,[::2]", ServerUrl((("one", 1), ("two", 7400), ("::1", 3), ("::2", 7400)))),
    ],
)
def test_a_url_names_a_place(url: str, place: object) -> None:
    assert parse(url) == place


@pytest.mark.parametrize(
    "url",
    [
        "", "events", "http://one", "file:", "file://machine/dir", "file:a?sync=no", "memory:?x", "memory:/x",
        "holdfast:one", "holdfast://", "holdfast://one,", "holdfast://one:x", "holdfast://one:0", "holdfast://one:65536", "holdfast://one/q",
        "holdfast://[::1", "holdfast://one?tls=1", "file:a%00b", "FILE:a", "holdfast://@one", "holdfast://:secret@one",
        "holdfasts://a:b/c@one", "holdfasts://a:b@c@one", "holdfasts://one?key=k", "holdfasts://one?insecure=yes",
        "holdfast://one?ca=x", "holdfast://one?insecure=maybe", "holdfasts:one",
    ],
)  # fmt: skip
def test_any_other_is_refused_with_what_is_possible(url: str) -> None:
    with pytest.raises(BadUrl) as refusal:
        holdfast.connect(url)

    assert any(word in refusal.value.sentence for word in ("write", "possible are", "leave out", "there are"))


@pytest.mark.parametrize(
    "url",
    [
        "holdfasts://me:s3cret@one", "holdfasts://me:s3cret@one?x=1", "holdfasts://me:s3@cret@one", "holdfasts://me:s3/cret@one",
        "holdfasts://me:s3?cret@one", "holdfast:me:s3cret@one", "http://me:s3cret@one", "holdfast://me:s3cret@one:x",
        "holdfast://:s3cret@one", "holdfasts://me:s3cret@one?key=k", "holdfasts://me:s3cret@",
    ],
)  # fmt: skip
def test_a_password_is_not_shown_whatever_else_is_wrong_with_its_url(url: str) -> None:
    shown = without_password(url)
    try:
        shown += repr(parse(url)) + repr(vars(holdfast.connect(url)))
    except BadUrl as refusal:
        shown += f"{refusal} {refusal.fields}"

    assert "***" in shown
    assert "s3" not in shown
    assert "cret" not in shown


def test_a_url_without_a_password_and_a_folder_with_an_at_are_shown_as_they_are() -> None:
    urls = ["holdfast://me@one:7", "holdfasts://one:7?ca=a", "file:a:b@c", "memory:a:b@c"]

    assert [without_password(url) for url in urls] == urls


def test_the_password_is_the_one_given_or_that_of_the_url_or_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "from the environment")
    given = [
        parse_with_password("holdfast://me:written@one", "given"),
        parse_with_password("holdfast://me:written@one"),
        parse_with_password("holdfast://me@one"),
        parse_with_password("holdfast://one"),
    ]

    found = [each.credentials.password for each in given if isinstance(each, ServerUrl)]

    assert found == ["given", "written", "from the environment", ""]


@pytest.mark.parametrize("url", ["holdfasts://one", "file:events", "memory:"])
def test_a_password_for_nobody_is_refused(url: str) -> None:
    with pytest.raises(BadUrl, match="names no user"):
        holdfast.connect(url, password="s3cret")


async def test_a_password_is_not_sent_in_the_clear_to_another_machine() -> None:
    with pytest.raises(BadUrl, match="in the clear") as refusal:
        async with holdfast.connect("holdfast://me:s3cret@192.0.2.7"):
            pass

    assert "holdfasts://" in refusal.value.sentence
    assert "insecure=yes" in refusal.value.sentence
    assert "s3cret" not in refusal.value.sentence


def test_a_timeout_that_is_over_before_it_begins_and_a_name_that_is_too_long_are_refused() -> None:
    with pytest.raises(BadSetting, match="timeout"):
        holdfast.connect("memory:", timeout=0)
    with pytest.raises(BadSetting, match="name"):
        holdfast.connect("memory:", name="x" * 256)


async def test_a_size_in_a_file_url_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="64M"):
        async with holdfast.connect(f"file:{tmp_path}/data?journal_size=lots"):
            pass


async def test_the_sizes_of_an_embedded_journal_are_those_of_its_url(tmp_path: Path) -> None:
    async with holdfast.connect(f"file:{tmp_path}/data?journal_size=64M&segment_size=1M&reserve=2M") as client:
        await client.queue("orders").send("one")

    sizes = {file.stat().st_size for file in (tmp_path / "data" / "journal").glob("segment-*")}
    assert sizes == {1 << 20}


def test_a_tilde_in_a_url_is_the_home_of_whoever_runs_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")

    assert parse("file:~/events?reserve=8M") == FileUrl("/home/ada/events", (("reserve", "8M"),))
    assert parse("file:a/~/b") == FileUrl("a/~/b")
    trusted = parse("holdfasts://one?ca=~/ca.pem&certificate=~/me.pem&key=~/me.key")
    assert isinstance(trusted, ServerUrl)
    assert (trusted.ca, trusted.certificate, trusted.key) == ("/home/ada/ca.pem", "/home/ada/me.pem", "/home/ada/me.key")


@pytest.mark.parametrize("connect", [holdfast.connect, holdfast.blocking.connect])
def test_the_environment_has_the_url_of_a_client_that_is_given_none(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL_VARIABLE, "memory:of the environment")

    assert holdfast.connect().url == "memory:of the environment"
    assert holdfast.connect("memory:given").url == "memory:given"
    connect()


@pytest.mark.parametrize("connect", [holdfast.connect, holdfast.blocking.connect])
def test_a_client_without_any_url_is_refused_in_words(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(URL_VARIABLE, raising=False)

    with pytest.raises(BadUrl, match="no URL was given, and HOLDFAST_URL is not set"):
        connect()
