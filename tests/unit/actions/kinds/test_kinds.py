"""Kinds of actions: those of the core, those by entry points, and what each does with an alert."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import msgspec
import pytest

from holdfast.actions import Action, Alert, Surroundings
from holdfast.actions.errors import ActionRefused
from holdfast.actions.kinds import log
from holdfast.actions.kinds.known import BUILT_IN, GROUP, NoSuchKind, kind_of, kinds
from holdfast.actions.kinds.send import Send
from holdfast.actions.kinds.webhook import signature

TOP = Path(__file__).resolve().parents[4]
ALERT = Alert(id="1", rule="r", at="2026-01-01T00:00:00+00:00", keys=["web-1"], hops=2, program="p", action="a", summary="s")


def test_count_and_table_come_by_entry_points_and_all_others_with_the_core() -> None:
    declared = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]

    assert declared == {each.name: each.value for each in entry_points(group=GROUP) if each.name in declared}
    assert set(kinds()) >= {*BUILT_IN, "count", "table"} == {"count", "log", "notify", "run", "send", "table", "webhook"}
    assert all(issubclass(kind_of(name), Action) for name in BUILT_IN)


def test_an_own_kind_is_found_by_its_entry_point(tmp_path: Path) -> None:
    (tmp_path / "paging.py").write_text(
        "import msgspec\nfrom holdfast.actions import Action\n\n\n"
        "class Page(Action):\n    class Settings(msgspec.Struct, kw_only=True):\n        number: str\n\n"
        "    def do(self, alerts):\n        print(self.settings.number, alerts[0].summary)\n\n\nnot_one = 7\n"
    )
    metadata = tmp_path / "paging-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: paging\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[holdfast.actions]\npage = paging:Page\nodd = paging:not_one\ngone = missing_package:Page\n"
    )
    program = """
from pathlib import Path
from holdfast.actions.errors import BadRules
from holdfast.actions.kinds.action import Surroundings
from holdfast.actions.rule import sample_alert
from holdfast.actions.rules_file import parse
text = "[rules.r]\\ntopics = ['t']\\nactions = [{ do = 'KIND', number = '112' }]"
action = parse(text.replace("KIND", "page"), Path()).rules["r"].actions[0]
action.make(Surroundings("p")).do([sample_alert("r")])
for kind in ("odd", "gone"):
    try:
        parse(text.replace("KIND", kind), Path())
    except BadRules as problem:
        print(problem.mistakes[0].sentence)
"""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); exec({program!r})"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.stdout.splitlines()[0] == "112 sample", done.stderr
    assert "does not name a subclass" in done.stdout
    assert "needs a package that is not installed" in done.stdout


def test_a_kind_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(NoSuchKind, match=r"there are .*webhook"):
        kind_of("pigeon")


def test_a_sent_event_has_one_hop_more_and_at_the_limit_none_is_sent() -> None:
    send = Send(Send.Settings(topic="incidents.{severity}", subject="{key}", properties={"host": "{key}"}), Surroundings("p"))

    made = send.outgoing(ALERT, 3)

    assert (made.destination, made.is_topic, made.event.subject) == ("incidents.warning", True, "web-1")
    assert made.event.properties == {"host": "web-1", "rule": "r", "severity": "warning", "holdfast_hops": 3}
    with pytest.raises(ActionRefused, match="hops_max = 2"):
        send.outgoing(ALERT, 2)


def test_an_alert_cannot_choose_a_reserved_or_impossible_destination() -> None:
    send = Send(Send.Settings(queue="{key}"), Surroundings("p"))

    for key in ("_DMQ", "a b", ""):
        with pytest.raises(ActionRefused):
            send.outgoing(msgspec.structs.replace(ALERT, keys=[key]), 8)


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of the specification's libraries."""
    body = b'{"test": 2432232314}'

    made = signature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)

    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("found", "whole"),
    [
        ("", ""),
        ("one\ntwo\n", "one\ntwo\n"),
        ("one\ntw", "one\n"),
        ("on", ""),
        ("one\n" + "x" * (3 * log.BLOCK_BYTES), "one\n"),
        ("x" * (log.BLOCK_BYTES - 1) + "\n" + "x" * log.BLOCK_BYTES, "x" * (log.BLOCK_BYTES - 1) + "\n"),
        ("x" * (2 * log.BLOCK_BYTES), ""),
    ],
)
def test_a_piece_of_a_line_that_a_kill_left_is_taken_away_by_the_next_line(tmp_path: Path, found: str, whole: str) -> None:
    (tmp_path / "alerts.log").write_text(found)
    action = log.Log(log.Log.Settings(file="alerts.log", line="{summary}"), Surroundings(program="p", folder=tmp_path))

    action.do([ALERT])

    assert (tmp_path / "alerts.log").read_text() == whole + "s\n"
