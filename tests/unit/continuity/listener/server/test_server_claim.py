"""Which servers are the same: by address, and by where it is looked at from."""

from __future__ import annotations

import pytest

from holdfast.continuity.listener.server.http_caller import parse_address
from holdfast.continuity.listener.server.server_claim import server_called


def called(url: str, site: str = "") -> str:
    return server_called(parse_address(url), site)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://127.0.0.1:9001", "http://localhost:9001/"),
        ("http://127.0.0.1:9001", "http://[::1]:9001"),
        ("http://127.0.0.1:443", "https://127.0.0.1"),
        ("http://app:80", "http://APP"),
        ("http+unix://%2Frun%2Fa.sock", "http+unix:///run/../run/a.sock"),
    ],
)
def test_an_address_that_means_the_same_is_the_same_server(one: str, other: str) -> None:
    assert called(one) == called(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://127.0.0.1:9001", "http://127.0.0.1:9002"),
        ("http://app:9001", "http://127.0.0.1:9001"),
        ("http://app:9001", "http://pp:9001"),
        ("http+unix://%2Frun%2Fa.sock", "http+unix://%2Frun%2Fb.sock"),
    ],
)
def test_another_address_is_another_server(one: str, other: str) -> None:
    assert called(one) != called(other)


def test_a_host_of_one_name_is_another_server_at_another_site_but_the_own_machine_is_not() -> None:
    assert called("http://app:80", "north") != called("http://app:80", "south")
    assert called("http://127.0.0.1:80", "north") == called("http://127.0.0.1:80", "south")
