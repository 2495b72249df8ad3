"""The rules file: TOML with a table for each rule.

    name = "alerting"                        # tells these rules from other sets of rules at the same server
    url = "holdfast://localhost"             # may be left out: the command line or the environment has it
    metrics = "127.0.0.1:9464"               # where the counters of `count` are shown

    [rules.disk-full]
    topics = ["metrics.disk.*"]
    selector = "percent > 90"

    [[rules.disk-full.actions]]
    do = "notify"
    to = ["mailto://…"]

It is taken as a whole or refused as a whole, with every mistake and where it stands.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from holdfast.actions.errors import BadRules, Mistake
from holdfast.actions.names import is_name
from holdfast.actions.rule import CheckedRule, RuleAction
from holdfast.actions.rule_reader import read_rule
from holdfast.actions.secrets import NoSecret, Secrets
from holdfast.actions.toml_places import nearest, places

_TOP = ("name", "url", "metrics", "rules")
_AT = re.compile(r"^(.*) \(at (?:line (\d+), column (\d+)|end of document)\)$", re.DOTALL)


class RuleSet(msgspec.Struct, kw_only=True):
    """All rules of one program."""

    name: str = "rules"
    url: str = ""
    metrics: str = ""
    rules: dict[str, CheckedRule] = {}
    secrets: Secrets
    folder: Path


def load(file: Path) -> RuleSet:
    """The rules of a file. BadRules has every mistake."""
    try:
        text = file.read_bytes().decode()
    except OSError as problem:
        raise BadRules(str(file), [Mistake((), f"it cannot be read: {problem.strerror}")]) from problem
    except UnicodeDecodeError as problem:
        raise BadRules(str(file), [Mistake((), "it is not UTF-8 text")]) from problem
    return parse(text, file.absolute().parent, str(file))


def parse(text: str, folder: Path, what: str = "the rules") -> RuleSet:
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise BadRules(what, [_of_syntax(text, str(problem))]) from problem
    mistakes: list[Mistake] = []
    made = RuleSet(secrets=Secrets(folder), folder=folder)
    for key in given:
        if key not in _TOP:
            mistakes.append(Mistake((key,), f"there is no such setting; there are {', '.join(_TOP)}"))
    made.name = _text(given, "name", made.name, mistakes)
    try:
        made.url = made.secrets.resolve(_text(given, "url", "", mistakes))
    except NoSecret as problem:
        mistakes.append(Mistake(("url",), str(problem)))
    made.metrics = _text(given, "metrics", "", mistakes)
    if not is_name(made.name):
        mistakes.append(Mistake(("name",), f"{made.name!r:.40} is no name; use letters, digits, - and _"))
    if made.metrics:
        _check_address(made.metrics, mistakes)
    shared: dict[str, tuple[object, str]] = {}
    rules = given.get("rules", {})
    if not isinstance(rules, dict) or not rules:
        mistakes.append(Mistake(("rules",) if "rules" in given else (), "there is no rule; write one as [rules.NAME]"))
        rules = {}
    for name, settings in rules.items():
        checked = read_rule(name, settings, mistakes, ("rules", name), made.secrets)
        if checked is not None:
            made.rules[name] = checked
            for number, action in enumerate(checked.actions):
                if action.cls is not None and action.cls.NEEDS_METRICS and not made.metrics:
                    sentence = f'{action.kind} shows counters at an address; give metrics = "127.0.0.1:9464" before all rules'
                    mistakes.append(Mistake(("rules", name, "actions", number), sentence))
                mistakes += _clashes(name, number, action, shared)
    if mistakes:
        found = places(text)
        placed = [mistake._replace(**nearest(found, mistake.path)._asdict()) for mistake in mistakes]
        raise BadRules(what, sorted(placed, key=lambda each: (each.line, each.column)))
    return made


def _clashes(rule: str, number: int, action: RuleAction, shared: dict[str, tuple[object, str]]) -> list[Mistake]:
    """Whether an action has settings that cannot be, beside those of another rule that shares something with it."""
    found = action.cls.shares(action.settings) if action.cls is not None and action.settings is not None else None
    if found is None:
        return []
    shape, other = shared.setdefault(found[0], (found[1], rule))
    if shape == found[1]:
        return []
    return [
        Mistake(("rules", rule, "actions", number), f"{found[0]} is another one in rule {other}; use the same settings there")
    ]


def _text(given: dict[str, Any], name: str, usual: str, mistakes: list[Mistake]) -> str:
    value = given.get(name, usual)
    if isinstance(value, str):
        return value
    mistakes.append(Mistake((name,), "it is text; write it in quotes"))
    return usual


def _check_address(address: str, mistakes: list[Mistake]) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        mistakes.append(Mistake(("metrics",), f"{address!r:.40} is no address; write it like 127.0.0.1:9464"))


def _of_syntax(text: str, said: str) -> Mistake:
    found = _AT.match(said)
    if found is None:
        return Mistake((), f"it is not TOML: {said}")
    line, column = (int(found[2]), int(found[3])) if found[2] else (text.count("\n") + 1, len(text) - text.rfind("\n"))
    return Mistake((), f"it is not TOML: {found[1]}", line, column)
