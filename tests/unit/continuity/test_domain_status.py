"""The status of a domain: what its parts say, put together, and what an operator is to look at."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.continuity.domain_status import level, summary


def listener(name: str, **told: Any) -> dict[str, Any]:
    return {"part": "listener", "name": name, "site": "", "role": "server", "state": "current", **told}


def engine(name: str, **told: Any) -> dict[str, Any]:
    return {"part": "engine", "name": name, "site": "", "is_ready": True, "servers": [], **told}


def carrier(**told: Any) -> dict[str, Any]:
    none = {"waiting": 0, "under_way": 0, "in_doubt": 0, "results": 0, "in_doubt_keys": []}
    return {"part": "carrier", "name": "c", **none, **told}


def test_a_domain_without_trouble_has_nothing_to_look_at() -> None:
    told = summary("shop", 1, [listener("a"), listener("b"), engine("e"), carrier(results=3)])

    assert (told["level"], told["attention"]) == ("fault-tolerant", [])
    assert [(each["name"], each["results"]) for each in told["carriers"]] == [("c", 3)]


def test_servers_that_must_be_rebuilt_or_are_unknown_and_effects_in_doubt_are_told_with_what_to_do() -> None:
    parts = [
        listener("a", state="rebuilding", needs_rebuild="it dies of transaction t7"),
        listener("b", unknown="its connection was lost"),
        carrier(in_doubt=1, in_doubt_keys=["t8.00.1"]),
    ]

    rebuild, unknown, effect = summary("shop", 1, parts)["attention"]

    assert "server a" in rebuild
    assert "t7" in rebuild
    assert "--reset" in rebuild
    assert "server b" in unknown
    assert "--probe" in unknown
    assert "t8.00.1" in effect
    assert "domain settle" in effect


# --- levels (33) -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("servers", "engines", "log_sites", "servers_min", "found"),
    [
        ("xy", "xy", 2, 1, "continuous"), ("xy", "xy", 1, 1, "fault-tolerant"), ("xy", "xx", 2, 1, "fault-tolerant"),
        ("xx", "xy", 2, 1, "fault-tolerant"), ("xy", "xy", 2, 2, "continuous"), ("x", "xy", 2, 1, "single"),
        ("x", "xy", 2, 2, "stopped"), ("", "xy", 2, 1, "stopped"), ("xy", "", 2, 1, "stopped"),
        ("xxy", "xyz", 3, 3, "continuous"),
    ],
)  # fmt: skip
def test_a_level_is_that_of_its_weakest_part(servers: str, engines: str, log_sites: int, servers_min: int, found: str) -> None:
    assert level(servers, engines, servers_min, log_sites) == found


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ({}, "fault-tolerant"), ({"state": "behind"}, "single"), ({"state": "rebuilding"}, "single"),
        ({"role": "shadow"}, "single"), ({"state": "removed"}, "single"),
    ],
)  # fmt: skip
def test_a_server_that_lags_a_shadow_and_a_removed_one_make_no_level(second: dict[str, str], found: str) -> None:
    parts = [listener("a", site="x"), listener("b", site="y", **second), engine("e", site="x"), engine("f", site="y")]

    assert summary("shop", 1, parts)["level"] == found


@pytest.mark.parametrize("engines", [[], [engine("e", is_ready=False)]])
def test_a_domain_without_an_engine_that_takes_requests_is_stopped(engines: list[dict[str, Any]]) -> None:
    assert summary("shop", 1, [listener("a"), listener("b"), *engines])["level"] == "stopped"
