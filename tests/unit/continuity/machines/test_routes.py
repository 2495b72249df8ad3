"""Routes: a request is a read only if it certainly is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.continuity.domain import Route
from holdfast.continuity.machines.routes import Routes, asks_for_stream
from holdfast.errors import BadSetting


def _fits(pattern: str, target: str) -> bool:
    return Routes([Route(pattern)]).find("GET", target) is not None


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("/", "/ /?a=1", "/a"),
        ("/balance", "/balance /balance?day=1/2", "/balance/ /Balance /balances /a/balance"),
        ("/accounts/*", "/accounts/7 /accounts/a.b", "/accounts /accounts/ /accounts/7/x"),
        ("/accounts/*/x", "/accounts/7/x", "/accounts/7 /accounts//x /accounts/7/8/x"),
        ("/files/**", "/files /files/ /files/a/b", "/file /filesystem"),
        ("/**/*.css", "/a.css /x/y/a.css", "/a.css/b /a-css"),
        ("/**", "/ /a /a/b", ""),
    ],
)
def test_a_star_stands_for_one_part_and_two_for_any_number(pattern: str, fitting: str, others: str) -> None:
    assert [target for target in fitting.split() if not _fits(pattern, target)] == []
    assert [target for target in others.split() if _fits(pattern, target)] == []


@pytest.mark.parametrize(
    "target", ["//a", "/a/../b", "/a/%2E%2e/b", "/a/.", "/a%2fb", "/a;b=1", "/a\\b", "*", "http://h/a", "", "/a%00"]
)
def test_a_path_that_servers_read_differently_is_a_write(target: str) -> None:
    assert not _fits("/**", target)


def test_the_first_route_that_fits_method_and_path_counts() -> None:
    stream, read = Route("/events/*", ("GET",), "stream"), Route("/**", ("GET", "HEAD", "REPORT"))
    routes = Routes([stream, read])

    assert routes.find("GET", "/events/1") is stream
    assert routes.find("REPORT", "/events/1") is read
    assert routes.find("POST", "/events/1") is None
    assert Routes([]).find("GET", "/") is None


@pytest.mark.parametrize("route", [Route("a"), Route("/a", ()), Route("/a", ("get",))])
def test_a_route_that_cannot_be_used_is_refused(route: Route) -> None:
    with pytest.raises(BadSetting):
        Routes([route])


_PART = st.text("ab", min_size=1, max_size=2)


@given(st.lists(st.one_of(_PART, st.sampled_from(["*", "**"])), min_size=1, max_size=4), st.lists(_PART, min_size=1, max_size=5))
def test_patterns_mean_the_same_as_a_walk_along_their_parts(pattern: list[str], parts: list[str]) -> None:
    def walk(pattern: list[str], parts: list[str]) -> bool:
        if not pattern:
            return not parts
        if pattern[0] == "**":
            return any(walk(pattern[1:], parts[count:]) for count in range(len(parts) + 1))
        return bool(parts) and pattern[0] in ("*", parts[0]) and walk(pattern[1:], parts[1:])

    assert _fits("/" + "/".join(pattern), "/" + "/".join(parts)) == walk(pattern, parts)


def test_server_sent_events_and_websockets_are_recognised_by_their_headers() -> None:
    assert asks_for_stream([(b"accept", b"text/event-stream")])
    assert asks_for_stream([(b"connection", b"upgrade"), (b"upgrade", b"WebSocket")])
    assert not asks_for_stream([(b"accept", b"*/*"), (b"upgrade", b"h2c")])
