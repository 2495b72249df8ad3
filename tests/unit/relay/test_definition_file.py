"""The file of a relay: what it means, and every mistake with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import BadSetting
from holdfast.relay import definition_file

GOOD = """
name = "berlin"
local = "file:./berlin"

[upstreams.head]
url = "holdfast://head.example:7400"

[routes.alerts]
from = "head"
topic = "alerts.**"
to = "branch.berlin.**"
mode = "end-to-end"
selector = "level >= 3"
add = { site = "berlin" }
ttl = "1h"
window = ["mon-fri 08:00-18:00", "22:00-06:00"]
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "relay.toml"
    file.write_text(text)
    return file


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(BadSetting) as raised:
        definition_file.read(written(folder, text))
    return raised.value.sentence


def test_a_file_is_a_definition(tmp_path: Path) -> None:
    made = definition_file.read(written(tmp_path, GOOD))

    route = made.routes["alerts"]
    assert (made.name, made.local) == ("berlin", f"file:{tmp_path}/berlin")
    assert (route.upstream, route.topic, route.kind, route.mode) == ("head", "alerts.**", "topic", "end-to-end")
    assert (route.ttl_ms, route.add, route.windows) == (3_600_000, {"site": "berlin"}, ("mon-fri 08:00-18:00", "22:00-06:00"))


def test_a_key_that_is_none_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    said = refusal(tmp_path, GOOD + "\nselektor = 'x'\n")

    assert "routes.alerts.selektor is not known; did you mean selector?" in said


def test_every_mistake_is_named_at_once(tmp_path: Path) -> None:
    said = refusal(
        tmp_path,
        """
        nam = "berlin"
        local = "file:./berlin"
        [upstreams.head]
        [routes.a]
        from = "head"
        topic = "a"
        priority = 12
        mode = "later"
        """,
    )

    for part in ("nam is not known; did you mean name?", "name is missing", "upstreams.head.url is missing",
                 "routes.a.priority = 12", "routes.a.mode = 'later'"):  # fmt: skip
        assert part in said


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('from = "head"', 'from = "haed"', "from = 'haed' is no upstream; there are: head"),
        ('topic = "alerts.**"', 'topic = "alerts.**"\nqueue = "x"', "say one of topic, regex and queue"),
        ('topic = "alerts.**"', 'topic = "alerts.#"', "wildcard of MQTT"),
        ('to = "branch.berlin.**"', 'to = "branch.*"', "write the same ones in the same order"),
        ('selector = "level >= 3"', 'selector = "level >"', "selector"),
        ('ttl = "1h"', 'ttl = "soon"', "ttl"),
        ('ttl = "1h"', 'ttl = "1h"\nzone = "Berlin"', "write it like Europe/Berlin"),
        ('"22:00-06:00"', '"22-6"', "write it like '22:00-06:00'"),
        ('add = { site = "berlin" }', 'add = { "1site" = "berlin" }', "identifier"),
        ('mode = "end-to-end"', 'mode = "end-to-end"\nrecipients = ["a"]', 'recipients are for mode = "each"'),
        ('mode = "end-to-end"', 'mode = "each"', "needs recipients"),
        ('mode = "end-to-end"', 'mode = "each"\nrecipients = ["a", "a"]', "is named twice"),
        ('name = "berlin"', 'name = "ber lin"', "letters, digits"),
        ('url = "holdfast://head.example:7400"', 'url = "http://head"', "upstreams.head.url"),
    ],
)
def test_a_mistake_is_told_with_what_to_write(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in GOOD

    assert said in refusal(tmp_path, GOOD.replace(before, after))


def test_a_file_that_is_missing_or_no_toml_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="cannot be read"):
        definition_file.read(tmp_path / "none.toml")
    assert "is not TOML" in refusal(tmp_path, "name = ")


def test_mode_each_has_a_line_for_each_recipient(tmp_path: Path) -> None:
    text = GOOD.replace('mode = "end-to-end"', 'mode = "each"\nrecipients = ["pager", "audit"]')
    made = definition_file.read(written(tmp_path, text.replace("branch.berlin.**", "berlin.{recipient}.**")))

    lines = made.lines()
    assert {name: line.to for name, line in lines.items()} == {
        "alerts.pager": "berlin.pager.**",
        "alerts.audit": "berlin.audit.**",
    }
    assert made.subscription("alerts.pager", lines["alerts.pager"], "").startswith("relay.berlin.alerts.pager.")


def test_another_question_has_another_subscription_and_other_rules_have_the_same(tmp_path: Path) -> None:
    made = definition_file.read(written(tmp_path, GOOD))
    other = definition_file.read(written(tmp_path, GOOD.replace("level >= 3", "level >= 4")))
    paced = definition_file.read(written(tmp_path, GOOD + "\nrate = 10\n"))

    names = [each.subscription("alerts", each.routes["alerts"], each.routes["alerts"].selector) for each in (made, other, paced)]
    assert names[0] != names[1]
    assert names[0] == names[2]


def test_without_a_journal_the_environment_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = GOOD.replace('local = "file:./berlin"', "")
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    assert "local is missing" in refusal(tmp_path, text)

    monkeypatch.setenv("HOLDFAST_URL", "holdfast://127.0.0.1:7401")
    assert definition_file.read(written(tmp_path, text)).local == "holdfast://127.0.0.1:7401"
