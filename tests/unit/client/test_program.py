"""The source of a program's events: the same when the program is started again, and a valid URI reference."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.client.program import source_of

SAYS = "from holdfast.client.program import source_of; print(source_of())"


@pytest.mark.parametrize(
    ("arguments", "ends"),
    [(["orders.py"], "/orders"), (["-m", "shop"], "/shop"), (["-m", "shop.till"], "/shop.till"), (["-c", SAYS], "/python")],
)
def test_a_program_that_is_started_again_has_the_same_source(arguments: list[str], ends: str, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    for path in ("orders.py", "shop/__main__.py", "shop/till.py"):
        (tmp_path / path).write_text(SAYS)

    said = [
        subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()
        for _ in range(2)
    ]

    assert said[0] == said[1]
    assert said[0].endswith(ends)


def test_a_source_is_a_uri_reference() -> None:
    assert source_of("my orders:old").endswith("/my%20orders%3Aold")
