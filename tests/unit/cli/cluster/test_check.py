"""What `holdfast cluster check` prints, and its exit codes."""

from __future__ import annotations

import json

import pytest
import typer

from holdfast.cli.cluster.check import show_check
from holdfast.client.description import CheckedCopy, CheckedManager, ClusterCheck


def copy(node: str, digest: str | None, is_equal: bool | None, *, is_primary: bool = False, anew: bool = False) -> CheckedCopy:
    return {"node": node, "digest": digest, "is_primary": is_primary, "is_equal": is_equal, "is_opened_anew": anew}


def checked(*copies: CheckedCopy, entry: int | None = 1_204, problem: str = "") -> ClusterCheck:
    differing = [each["node"] for each in copies if each["is_equal"] is False]
    silent = [each["node"] for each in copies if each["is_equal"] is None]
    primary = next((each["node"] for each in copies if each["is_primary"]), None)
    manager: CheckedManager = {
        "name": "m1",
        "entry": entry,
        "primary": primary,
        "problem": problem,
        "copies": list(copies),
        "differing": differing,
        "silent": silent,
    }
    return {"managers": [manager], "is_equal": not differing, "is_complete": not silent}


def exit_code(told: ClusterCheck, *, as_json: bool = False) -> int:
    try:
        show_check(told, as_json=as_json)
    except typer.Exit as ended:
        return ended.exit_code
    return 0


def test_equal_copies_are_shown_with_short_digests(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(checked(copy("a", "0123456789abcdef", True, is_primary=True), copy("b", "0123456789abcdef", True))) == 0
    assert capsys.readouterr().out.splitlines() == [
        "manager  entry  node  role     digest        result",
        "m1       1,204  a     primary  0123456789ab  equal",
        "m1       1,204  b     backup   0123456789ab  equal",
        "",
        "differ: none",
        "did not answer: none",
    ]


def test_a_copy_that_differs_is_named_and_counts_more_than_one_that_did_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    told = checked(copy("a", "x", True, is_primary=True), copy("b", "y", False, anew=True), copy("c", None, None))

    assert exit_code(told) == 1
    shown = capsys.readouterr().out
    assert "differs; opened anew" in shown
    assert "differ: b (m1)\ndid not answer: c (m1)\n" in shown

    assert exit_code(told, as_json=True) == 1
    assert json.loads(capsys.readouterr().out) == told


def test_a_copy_that_did_not_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(checked(copy("a", "x", True, is_primary=True), copy("c", None, None))) == 3
    assert "differ: none\ndid not answer: c (m1)\n" in capsys.readouterr().out


def test_a_primary_that_differs_from_most_is_told_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(checked(copy("a", "x", False, is_primary=True), copy("b", "y", True), copy("c", "y", True))) == 1
    assert "a, the primary of m1, differs from most copies: have another lead (`holdfast cluster takeover m1`)" in (
        capsys.readouterr().out
    )


def test_a_manager_that_was_not_checked_is_told_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(checked(copy("a", None, None), entry=None, problem="its channel is away")) == 3
    assert "m1 was not checked: its channel is away" in capsys.readouterr().out
