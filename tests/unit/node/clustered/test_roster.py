"""The roster: who is there, who is primary, who lags, as heartbeats tell."""

from __future__ import annotations

from holdfast.bus.message import CopyState, Heartbeat
from holdfast.cluster.liveness import CUT_OFF_MS, FORGOTTEN_MS, SILENCE_MS
from holdfast.node.clustered.roster import Roster


def _roster() -> Roster:
    return Roster("shop", "a", {"m1": ["a", "b"]})


def _beat(node: str, *copies: CopyState, start: str = "") -> Heartbeat:
    return Heartbeat(node, start or f"{node}-1", f"clients.{node}", list(copies))


def test_nodes_that_are_named_and_were_never_heard_did_not_answer() -> None:
    told = _roster().told(0)

    assert told["cluster"] == "shop"
    assert told["silent"] == ["a", "b"]
    assert [node["silent_ms"] for node in told["nodes"]] == [None, None]
    assert told["is_cut_off"]
    (manager,) = told["managers"]
    assert manager["primary"] is None
    assert manager["missing"] == ["a", "b"]


def test_the_primary_its_epoch_and_the_lag_of_its_backup_are_told() -> None:
    roster = _roster()
    roster.heard(_beat("a", CopyState("m1", 3, True, 100, 104)), 1000)
    roster.heard(_beat("b", CopyState("m1", 3, False, 90, 101)), 1010)
    roster.heard(_beat("c"), 1020)

    told = roster.told(1030)

    assert told["silent"] == []
    assert not told["is_cut_off"]
    assert [(node["name"], node["silent_ms"], node["copies"]) for node in told["nodes"]] == [
        ("a", 30, ["m1"]),
        ("b", 20, ["m1"]),
        ("c", 10, []),
    ]
    (manager,) = told["managers"]
    assert (manager["primary"], manager["epoch"], manager["applied"], manager["durable"]) == ("a", 3, 100, 104)
    assert [(copy["node"], copy["is_primary"], copy["lag"]) for copy in manager["copies"]] == [("a", True, 4), ("b", False, 14)]
    assert manager["missing"] == []


def test_a_silent_primary_is_none_and_what_it_told_last_is_still_shown() -> None:
    roster = _roster()
    roster.heard(_beat("b", CopyState("m1", 3, True, 100, 100)), 0)
    roster.heard(_beat("a", CopyState("m1", 3, False, 100, 100)), SILENCE_MS)

    told = roster.told(SILENCE_MS)

    assert told["silent"] == ["b"]
    (manager,) = told["managers"]
    assert manager["primary"] is None
    assert [(copy["node"], copy["is_heard"], copy["applied"]) for copy in manager["copies"]] == [
        ("a", True, 100),
        ("b", False, 100),
    ]


def test_of_two_that_say_they_are_primary_the_newer_epoch_counts() -> None:
    roster = _roster()
    roster.heard(_beat("a", CopyState("m1", 4, True, 100, 100)), 0)
    roster.heard(_beat("b", CopyState("m1", 3, True, 90, 90)), 0)

    (manager,) = roster.told(10)["managers"]

    assert (manager["primary"], manager["epoch"]) == ("a", 4)
    assert [copy["is_primary"] for copy in manager["copies"]] == [True, False]


def test_a_node_that_starts_again_is_the_same_node_and_its_copy_is_missing_until_it_is_open() -> None:
    roster = _roster()
    roster.heard(_beat("b", CopyState("m1", 3, False, 90, 90)), 0)
    roster.heard(_beat("b", start="b-2"), 10)

    told = roster.told(20)

    assert [node["name"] for node in told["nodes"]] == ["a", "b"]
    assert told["managers"][0]["missing"] == ["a", "b"]


def test_a_node_that_does_not_hear_itself_says_that_it_is_cut_off() -> None:
    roster = _roster()
    roster.heard(_beat("a"), 0)

    assert not roster.told(CUT_OFF_MS - 1)["is_cut_off"]
    assert roster.told(CUT_OFF_MS)["is_cut_off"]


def test_a_node_that_was_silent_for_very_long_is_forgotten_unless_it_is_named() -> None:
    roster = _roster()
    roster.heard(_beat("b"), 0)
    roster.heard(_beat("c"), 0)

    assert [node["name"] for node in roster.told(FORGOTTEN_MS - 1)["nodes"]] == ["a", "b", "c"]
    assert [node["name"] for node in roster.told(FORGOTTEN_MS)["nodes"]] == ["a", "b"]


def test_nodes_with_another_configuration_are_named() -> None:
    roster = _roster()
    roster.heard(_beat("a")._replace(configuration=b"one", settings_version=3, users_version=1), 0)
    roster.heard(_beat("b")._replace(configuration=b"one", settings_version=2), 0)
    roster.heard(_beat("c")._replace(configuration=b"other"), 0)

    told = roster.told(0)

    assert told["different"] == ["c"]
    assert [(node["settings_version"], node["users_version"]) for node in told["nodes"]] == [(3, 1), (2, 0), (0, 0)]
