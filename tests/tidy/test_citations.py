"""Code and documents cite rules, requirements and promises by number: each number leads to a text in the repository."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PLACES = sorted(path for folder in ("src", "tests", "examples", "docs") for path in (TOP / folder).rglob("*.py"))
DOCUMENTS = sorted([*TOP.glob("*.md"), *TOP.glob("docs/**/*.md")])

NUMBERS = r"(\d+(?:, \d+)*(?:,? and \d+)?)"
RULE = re.compile(rf"(?<!channel )(?<!continuity )(?<!the )\brules? {NUMBERS}(?! of `channel`)")
CHANNEL_RULE = re.compile(rf"\bchannel rules? {NUMBERS}")
CONTINUITY_RULE = re.compile(rf"\bcontinuity rules? {NUMBERS}")
REQUIREMENT = re.compile(r"(?<![\w#`.\"'/-])([A-E])(\d{1,2})(?![\w`\"'/(=-])")
IN_A_TEST_NAME = re.compile(r"def test_\w*?((?:_[a-e]\d{1,2})+)\(")
PROMISE = re.compile(r"(?<![\w`])P(\d{1,2})(?!\w)")


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _unresolved(pattern: re.Pattern[str], known: set[int]) -> list[str]:
    return [
        f"{path.relative_to(TOP)}: {match.group(0)}"
        for path in (*PLACES, *DOCUMENTS)
        for match in pattern.finditer(_prose(path))
        if not known.issuperset(_numbers(match.group(1)))
    ]


def test_every_rule_that_is_cited_is_written_down() -> None:
    rules = set(_numbers(" ".join(re.findall(r"^## (\d+)\.", (TOP / "docs" / "rules.md").read_text(), re.MULTILINE))))

    assert rules == set(range(1, 17))
    assert _unresolved(RULE, rules) == []


def test_every_rule_of_a_channel_that_is_cited_is_in_its_docstring() -> None:
    text = (TOP / "src" / "holdfast" / "channel" / "channel.py").read_text()
    rules = set(_numbers(" ".join(re.findall(r"^(\d)\. ", text, re.MULTILINE))))

    assert rules == set(range(1, 9))
    assert _unresolved(CHANNEL_RULE, rules) == []


def test_every_rule_of_continuity_that_is_cited_is_in_its_record() -> None:
    text = (TOP / "docs" / "adr" / "0017-continuity.md").read_text().partition("## The rules")[2]
    rules = set(_numbers(" ".join(re.findall(r"^(\d+)\. ", text, re.MULTILINE))))

    assert rules == set(range(1, 20))
    assert _unresolved(CONTINUITY_RULE, rules) == []


def _requirements() -> set[str]:
    text = (TOP / "docs" / "requirements.md").read_text()
    spans = re.findall(r"([A-E])(\d+) to [A-E](\d+)", text)
    return {*re.findall(r"^\| ([A-E]\d+) \|", text, re.MULTILINE)} | {
        f"{letter}{number}" for letter, first, last in spans for number in range(int(first), int(last) + 1)
    }


def test_every_requirement_that_is_cited_is_written_down() -> None:
    known = _requirements()

    cited = {
        f"{path.relative_to(TOP)}: {letter}{number}"
        for path in (*PLACES, *DOCUMENTS)
        for letter, number in REQUIREMENT.findall(_prose(path))
        if f"{letter}{number}" not in known
    }
    named = {
        f"{path.relative_to(TOP)}: {each}"
        for path in PLACES
        for found in IN_A_TEST_NAME.findall(path.read_text())
        for each in found.strip("_").upper().split("_")
        if each not in known
    }

    assert cited | named == set()


def _prose(path: Path) -> str:
    """Return a document, or the docstrings and comments of a module: a letter and digits in its code are no citation."""
    text = path.read_text()
    if path.suffix == ".md":
        return text
    return "\n".join([*re.findall(r'"""(.*?)"""', text, re.DOTALL), *re.findall(r"#.*$", text, re.MULTILINE)])


def test_every_requirement_names_tests_that_exist_or_is_said_not_to_be_built() -> None:
    rows = re.findall(r"^\| ([A-E]\d+) \| .+ \| (.+) \|$", (TOP / "docs" / "requirements.md").read_text(), re.MULTILINE)

    shown = {
        requirement: re.findall(r"`(tests/[\w/]+\.py)`", by) or re.findall(r"not built|jms\.md", by, re.IGNORECASE)
        for requirement, by in rows
    }

    assert shown
    assert [requirement for requirement, by in shown.items() if not by] == []


def test_every_promise_that_is_cited_is_written_down() -> None:
    promises = set(_numbers(" ".join(re.findall(r"^\| P(\d+) \|", (TOP / "docs" / "promises.md").read_text(), re.MULTILINE))))

    assert promises
    assert _unresolved(PROMISE, promises) == []
