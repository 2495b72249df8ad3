"""A rules file is taken as a whole, or refused with every mistake and where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.actions import Alert, Rule
from holdfast.actions.errors import BadRules
from holdfast.actions.machines.condition import Absence, Change, Count, Silence
from holdfast.actions.rules_file import load, parse

LOG = 'actions = [{ do = "log", file = "x" }]\n'
RULE = '[rules.r]\ntopics = ["t"]\n' + LOG


def mistakes(text: str) -> list[str]:
    with pytest.raises(BadRules) as refused:
        parse(text, Path())
    return [f"{each.line}:{each.column} {each.where}: {each.sentence}" for each in refused.value.mistakes]


def test_all_settings_are_understood() -> None:
    rules = parse(
        """
        name = "all"
        metrics = "127.0.0.1:9464"
        [rules.count]
        topics = ["a.*", "b"]
        type = "x.*"
        selector = "n > 1"
        key = "host"
        count = 5
        within = "1m"
        group = "site"
        gather = "30s"
        cooldown = 3600
        severity = "error"
        quiet = ["22:00-06:00"]
        zone = "Europe/Berlin"
        quiet_then = "hold"
        summary = "{host}"
        [[rules.count.actions]]
        do = "webhook"
        url = "https://example.com/x"
        retries = 3
        [[rules.count.actions]]
        do = "webhook"
        url = "https://example.com/y"
        [rules.absent]
        queue = "q"
        silence = "1h"
        actions = [{ do = "log", to = "syslog" }]
        [rules.change]
        topics = ["t"]
        change = "state"
        from = ["up", 1]
        to = ["down"]
        actions = [{ do = "count", metric = "x_total" }]
        """,
        Path(),
    )

    count, absent, change = (rules.rules[name] for name in ("count", "absent", "change"))
    assert count.condition == Count(5, 60_000_000)
    assert (count.terms.gathering.gather_us, count.terms.gathering.cooldown_us) == (30_000_000, 3_600_000_000)
    assert count.terms.gathering.quiet_until is not None and count.terms.is_timed
    assert [(action.name, action.retries) for action in count.actions] == [("webhook", 3), ("webhook-2", 8)]
    assert absent.condition == Silence(3_600_000_000) and not absent.terms.is_timed
    assert change.condition == Change("state", ("up", "1"), ("down",))


PLACES = ["1:1", "2:1", "4:11", "5:1", "6:1", "7:1", "8:1", "9:1", "10:1", "14:1", "16:1", "17:1", "19:1", "22:1"]


def test_every_mistake_is_told_with_its_place() -> None:
    text = """name = "a b"
colour = 1
[rules.one]
topics = ["a.#", "b"]
selector = "n >"
cuont = 5
within = "1m"
severity = "loud"
summary = "{host"
[[rules.one.actions]]
do = "log"
[[rules.one.actions]]
do = "webhook"
url = "${env:NOT_SET_ANYWHERE}"
[[rules.one.actions]]
do = "pigeon"
[rules.two]
queue = "q"
absent = "10 parsecs"
[rules.three]
queue = "q"
topics = ["t"]
actions = [{ do = "run", command = ["{host}"], timeout = 0 }]
"""
    found = mistakes(text)

    assert [each.partition(" ")[0] for each in found] == [*PLACES, "23:26", "23:48"]
    told = "\n".join(found)
    for said in (
        "did you mean count?",
        "a wildcard of MQTT and AMQP",
        "count and within belong together",
        "Invalid enum value 'loud'; there are info, warning, error, critical",
        "at character 1 of the template",
        "a log goes to a file",
        "the environment has no 'NOT_SET_ANYWHERE'",
        "there is no action 'pigeon'",
        "a rule needs an action",
        "is not a duration",
        "one of them only",
        "an event must not choose what is run",
        "a command needs a time limit",
    ):
        assert said in told, said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1:"),
        ("x = ", "1:5"),
        ("[rules.r]\ntopics = 'open", "not TOML"),
        ("name = 7\n" + RULE, "1:1 name: it is text"),
        ("metrics = 'nowhere'\n" + RULE, "1:1 metrics: 'nowhere' is no address"),
        ("rules = 7", "1:1 rules: there is no rule"),
        ("[rules]\nr = 7", "2:1 rules.r: a rule is a table"),
        ("[rules.'a b']\ntopics = ['t']\n" + LOG, "is no name of a rule"),
        (RULE + "count = 3\nwithin = '1m'\nsilence = '1h'", "6:1 rules.r.silence"),
        (RULE + "expect = ['a']", "4:1 rules.r.expect: expect names"),
        (RULE + "to = ['a']", "from and to are values"),
        (RULE + "zone = 'UTC'", "a time zone without quiet hours"),
        (RULE + "group = 'x'", "there is nothing to group"),
        (RULE + "quiet = ['10-12']", "is no time of the day"),
        (RULE + "hops_max = 0", "4:1 rules.r.hops_max"),
        ("[rules.r]\nqueue = 'q'\ntype = 'x'\nabsent = '1m'\n" + LOG, "cannot be used with a part of a queue"),
        ("[rules.r]\ntopics = ['_L*']\n" + LOG, "without wildcards"),
        ("[rules.r]\ntopics = ['_LOG', 't']\n" + LOG, "_LOG stands alone"),
        ("[rules.r]\ntopics = ['_DMQ']\n" + LOG, "_DMQ is a queue"),
        ("[rules.r]\nqueue = '_ADMIN'\n" + LOG, "only Holdfast itself receives"),
        (f"[rules.r]\ntopics = {[f't{n}.*.{chr(97 + n % 26) * 40}' for n in range(30)]}\n" + LOG, "pattern of more than"),
        ("[rules.r]\ntopics = ['t']\nactions = [{ do = 'count', metric = 'x_total' }]", "give metrics ="),
        ("[rules.r]\ntopics = ['t']\nactions = [{ do = 'send' }]", "name the topic to send to"),
        ("[rules.r]\ntopics = ['t']\nactions = [{ do = 'send', queue = '_x' }]", "leading underscore"),
        ("[rules.r]\ntopics = ['t']\nactions = [{ do = 'log', file = 'x', name = 'a' }, { do = 'log', file = 'y', name = 'a' }]",
         "two actions are called a"),
        ("[rules.r]\ntopics = ['t']\nactions = [7]", "3:12 rules.r.actions[0]: an action is a table"),
        ("[rules.r]\ntopics = ['t']\nactions = [{ do = 'log', file = 'x', retries = -1 }]", "rules.r.actions[0].retries"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_where_it_stands(text: str, said: str) -> None:
    assert said in "\n".join(mistakes(text))


def test_an_action_is_tried_on_a_sample_and_a_mistake_tells_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVEL", "s3cret-level")
    text = "[rules.r]\ntopics = ['t']\nactions = [{ do = 'send', queue = 'x y {host}' }, { do = 'log', to = '${env:LEVEL}' }]"

    found = "\n".join(mistakes(text))

    assert "rules.r.actions[0]: it fails on a sample: destination 'x y sample' contains ' '" in found
    assert "Invalid enum value '***'; there are file, syslog, journald" in found


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"name = '\xff'")

    with pytest.raises(BadRules, match="cannot be read: No such file"):
        load(tmp_path / "missing")
    with pytest.raises(BadRules, match="not UTF-8"):
        load(tmp_path / "latin")


def test_a_rule_of_a_program_takes_functions_and_tables() -> None:
    def page(alert: Alert) -> None: ...

    rule = Rule("x", topics=["t"], absent="1m", key="host", expect=["a"], actions=[page, page, {"do": "log", "file": "x"}])

    assert rule.checked.condition == Absence(60_000_000, ("a",))
    assert [action.name for action in rule.checked.actions] == ["page", "page-2", "log"]
    with pytest.raises(BadRules, match="did you mean topics"):
        Rule("x", topic=["t"], actions=[page])


def test_a_metric_is_the_same_in_all_rules() -> None:
    rule = '[rules.{name}]\ntopics = ["t"]\nactions = [{{ do = "count", metric = "m_total", labels = {{ {label} = "x" }} }}]\n'
    top = 'metrics = "127.0.0.1:1"\n'

    assert len(parse(top + rule.format(name="a", label="x") + rule.format(name="b", label="x"), Path()).rules) == 2
    with pytest.raises(BadRules, match="metric 'm_total' is another one in rule a"):
        parse(top + rule.format(name="a", label="x") + rule.format(name="b", label="y"), Path())


@pytest.mark.parametrize("count", [-1, 10_001, 10**9])
def test_a_count_has_a_limit(count: int) -> None:
    with pytest.raises(BadRules, match="count is a number from 1 to 10,000"):
        parse(f'[rules.a]\ntopics = ["t"]\ncount = {count}\nwithin = "1h"\nactions = [{{ do = "log", file = "x" }}]', Path())
