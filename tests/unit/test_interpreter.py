"""Which Python it is: told by `holdfast version` and the bench, and preferred by `make` in the same words."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

from holdfast.cli import interpreter

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("variables", "build"),
    [
        ({"CONFIG_ARGS": "'--enable-optimizations' '--with-lto'"}, "optimised (PGO, LTO)"),
        ({"CONFIG_ARGS": "'--enable-optimizations'", "PGO_PROF_USE_FLAG": "-fprofile-use"}, "optimised (PGO)"),
        ({"CONFIG_ARGS": "'--with-lto=thin'"}, "optimised (LTO)"),
        (
            {"CONFIG_ARGS": "'--prefix=/usr'", "PGO_PROF_GEN_FLAG": "-fprofile-generate", "PGO_PROF_USE_FLAG": ""},
            "optimised (by its distribution)",
        ),
        (
            {"CONFIG_ARGS": "'--prefix=/x'", "PGO_PROF_GEN_FLAG": "-fprofile-generate", "PGO_PROF_USE_FLAG": "-fprofile-use"},
            "not optimised",
        ),
        ({}, "build not known"),
    ],
)
def test_how_it_was_built_is_told_by_what_it_was_configured_with(variables: dict[str, str], build: str) -> None:
    assert interpreter.build(variables) == build


def test_the_makefile_has_the_same_rule() -> None:
    text = (ROOT / "Makefile").read_text()
    rule = re.search(r"^OPTIMISED := (.*?[^\\])\n", text, re.DOTALL | re.MULTILINE)
    assert rule is not None
    code = re.sub(r"\\\n\t", "", rule[1])

    done = subprocess.run([sys.executable, "-c", code], check=False)

    is_optimised = interpreter.build(sysconfig.get_config_vars()).startswith("optimised") and find_spec("ensurepip")
    assert done.returncode == (0 if is_optimised else 2)
