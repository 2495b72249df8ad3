"""The table of JMS rules names tests that exist, one at least for each rule."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
DOCUMENT = (TOP / "docs" / "jms.md").read_text()
RULE = re.compile(r"^\| (\d+(?:\.\d+)*[^|]*) \| [^|]+ \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
TEST_ID = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
RULES_MIN = 50


@cache
def _tests_in(path: str) -> set[str]:
    file = TOP / path
    return set(re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)) if file.exists() else set()


def test_a_test_named_in_the_table_of_jms_rules_exists() -> None:
    named = sorted(set(TEST_ID.findall(DOCUMENT)))

    assert named
    assert [f"{path}::{name}" for path, name in named if name not in _tests_in(path)] == []


def test_every_rule_of_the_table_is_shown_by_a_test() -> None:
    rules = RULE.findall(DOCUMENT)

    assert len(rules) >= RULES_MIN
    assert [section for section, shown_by in rules if not TEST_ID.search(shown_by)] == []


def test_every_row_of_the_table_is_read_as_a_rule() -> None:
    """A row with a column too many or too few would be passed over."""
    rows = re.findall(r"^\| \d.*$", DOCUMENT, re.MULTILINE)

    assert len(rows) == len(RULE.findall(DOCUMENT))
