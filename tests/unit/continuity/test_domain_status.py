"""The status of a domain: what its parts say, put together, and what an operator is to look at."""

from __future__ import annotations

from typing import Any

from holdfast.continuity.domain_status import summary


def listener(name: str, **told: Any) -> dict[str, Any]:
    return {"part": "listener", "name": name, "site": "", "role": "server", "state": "current", **told}


def carrier(**told: Any) -> dict[str, Any]:
    none = {"waiting": 0, "under_way": 0, "in_doubt": 0, "results": 0, "in_doubt_keys": []}
    return {"part": "carrier", "name": "c", **none, **told}


def test_a_domain_without_trouble_has_nothing_to_look_at() -> None:
    told = summary("shop", 1, [listener("a"), listener("b"), carrier(results=3)])

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
