"""Secrets come from the environment or a file, and are told nowhere."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.actions.secrets import NoSecret, RedactingFilter, Secrets


def test_references_are_resolved_in_texts_lists_and_tables(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from a file\n")
    secrets = Secrets(tmp_path, {"NAME": "value"})

    found = secrets.resolve({"url": "x://${env:NAME}@${file:token}", "list": ["${env:NAME}"], "number": 7, "plain": "$x {y}"})

    assert found == {"url": "x://value@from a file", "list": ["value"], "number": 7, "plain": "$x {y}"}


@pytest.mark.parametrize("reference", ["${env:MISSING}", "${file:missing}", "${env:EMPTY}"])
def test_a_reference_that_leads_nowhere_is_named(reference: str, tmp_path: Path) -> None:
    with pytest.raises(NoSecret, match=r"(?i)missing|empty"):
        Secrets(tmp_path, {"EMPTY": ""}).resolve(reference)


@given(st.text(min_size=4), st.text(), st.text())
def test_a_value_is_told_nowhere(value: str, before: str, after: str) -> None:
    secrets = Secrets(environment={"NAME": value})
    secrets.resolve("${env:NAME}")

    assert value not in secrets.redact(f"{before}{value}{after}").replace("***", "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("post to https://user:pa55word@host/x", "post to https://user:***@host/x"),
        ("mailto://me:p%40ss@example.com", "mailto://me:***@example.com"),
        ("https://host:8080/path", "https://host:8080/path"),
        ("at 10:00 of a@b", "at 10:00 of a@b"),
    ],
)
def test_passwords_of_urls_are_told_nowhere(text: str, told: str) -> None:
    assert Secrets().redact(text) == told


def test_a_value_is_found_as_it_stands_in_a_url_too() -> None:
    secrets = Secrets(environment={"NAME": "p@ss/word"})
    secrets.resolve("${env:NAME}")

    assert secrets.redact("x p%40ss%2Fword y") == "x *** y"


def test_log_lines_and_tracebacks_have_no_secrets() -> None:
    secrets = Secrets()
    secrets.hide("tops3cret")
    try:
        raise ValueError("with tops3cret in it")
    except ValueError as problem:
        error = (ValueError, problem, problem.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, "x", 1, "failed for %s", ("tops3cret",), error)

    RedactingFilter(secrets).filter(record)

    shown = logging.Formatter().format(record)
    assert "tops3cret" not in shown
    assert "failed for ***" in shown and "ValueError: with *** in it" in shown


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("slack://TokenAAAAAA/TokenBBBBBB/TokenCCCCCC", "url: /services/TokenAAAAAA/TokenBBBBBB/TokenCCCCCC"),
        ("https://bob:pa55@hooks.example/T0123456789?key=K0123456789", "POST /T0123456789 K0123456789 pa55"),
    ],
)
def test_parts_of_a_url_that_is_a_secret_are_told_nowhere(url: str, told: str) -> None:
    secrets = Secrets(environment={"HOOK": url})
    secrets.resolve("${env:HOOK}")

    shown = secrets.redact(f"{told} at hooks.example")

    assert not any(part in shown for part in ("Token", "0123456789", "pa55"))
    assert "hooks.example" in shown
