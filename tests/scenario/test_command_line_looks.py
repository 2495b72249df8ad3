"""The command line as somebody new to it uses it: what there is, how the server is, and what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.command_line import Holdfast, holdfast, server

__all__ = ["holdfast", "server"]


def test_a_tilde_is_the_home_folder_wherever_a_folder_or_file_is_named(
    holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.json").write_text("[7]")

    assert holdfast("record", "~/recorder", "tilde", "--data", "@~/data.json").code == 0
    assert holdfast("send", "tilde", "--file=~/data.json", "--url", "file:~/events").code == 0
    assert holdfast("journal", "verify", "~/events/journal").code == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data.json", "events", "recorder"]


def test_all_subscriptions_are_listed_and_a_topic_is_shown_with_the_patterns_that_match_it(holdfast: Holdfast) -> None:
    holdfast("destination", "create", "seen.a", "--topic")
    holdfast("subscription", "create", "seen.a", "archive")
    holdfast("subscription", "create", "seen.*", "pager")
    holdfast("send", "seen.a", "--topic", "--data", "1")

    table = [line.split() for line in holdfast("subscription", "list").out.splitlines()]
    rows = {(each["topic"], each["name"]): each for each in holdfast("subscription", "list", "--json").json()}
    shown = holdfast("destination", "show", "seen.a").out

    assert table[0][:2] == ["topic", "name"]
    assert ["seen.a", "archive", "yes", "no", "no", "-", "-", "1", "0"] in table
    assert ["-", "pager", "yes", "no", "no", "-", "seen.*", "1", "0"] in table
    assert rows[None, "pager"]["pattern"] == "seen.*"
    assert "pager of seen.* (1 waiting)" in shown
    assert "archive (1 waiting)" in shown


def test_a_queue_that_is_created_beside_subscriptions_that_would_want_a_topic_is_told(holdfast: Holdfast) -> None:
    for pattern in ("rates.*", "rates.e*", "rates.other.*", ">"):
        holdfast("subscription", "create", pattern, "audit")

    told = holdfast("destination", "create", "rates.eu")
    plain = holdfast("destination", "create", "orders-of-rates")
    for_programs = holdfast("destination", "create", "rates.us", "--json")
    topic = holdfast("destination", "create", "rates.uk", "--topic", "--json")
    holdfast("subscription", "delete", ">", "audit", "--force")

    assert told.code == 0 and "subscriptions of 'rates.*', 'rates.e*' receive from topics" in told.out
    assert "holdfast destination create rates.eu --topic" in told.out
    assert plain.out.strip() == "created queue 'orders-of-rates'"
    assert for_programs.json() == [{"name": "rates.us", "kind": "queue", "created": True, "like_topics": ["rates.*"]}]
    assert topic.json() == [{"name": "rates.uk", "kind": "topic", "created": True}]


def test_the_status_is_told_in_words_what_is_asked_for_most_first(holdfast: Holdfast) -> None:
    holdfast("send", "waited-for", "--data", "1")

    lines = [line.split(maxsplit=1) for line in holdfast("status").out.splitlines()]
    (told,) = holdfast("status", "--json").json()

    assert [line[0] for line in lines[:5]] == ["journal", "waiting", "oldest", "blocked", "pins"]
    assert " used (0 %)" in lines[0][1]
    assert lines[1][1].endswith("events")
    assert " UTC" in lines[2][1]
    assert told["journal_used_bytes"] > 0
    assert told["waiting"] > 0
    assert told["oldest_waiting"]["accepted_at_ms"] > 0


def test_deleting_what_is_not_there_is_refused_with_what_to_look_at_or_is_fine_where_that_is_said(holdfast: Holdfast) -> None:
    holdfast("destination", "create", "deleted", "--topic")
    commands = {
        ("destination", "delete", "nowhere"): "there is no destination 'nowhere'; list those that exist",
        ("subscription", "delete", "nowhere", "s"): "there is no destination 'nowhere'; list those that exist",
        ("subscription", "delete", "deleted", "s"): "topic 'deleted' has no subscription 's'; list those that exist",
        ("subscription", "delete", "dele.*", "s"): "there is no subscription 's' of the pattern 'glob:dele.*'; list those",
    }

    for command, sentence in commands.items():
        refused, fine = holdfast(*command), holdfast(*command, "--if-exists", "--json")

        assert (refused.code, refused.out) == (1, "")
        assert sentence in refused.err
        assert (fine.code, fine.json()[0]["deleted"]) == (0, False)
    there = holdfast("destination", "delete", "deleted", "--if-exists")
    gone = holdfast("destination", "delete", "deleted", "--if-exists")
    assert (there.out, gone.out) == ("deleted 'deleted'\n", "there was no 'deleted'\n")
