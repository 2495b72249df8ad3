"""The page on storage keeps its word: its five minutes run as they are printed, in order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server_process import SMALL_QUERY, free_port

TOP = Path(__file__).resolve().parents[2]
SECTION = (TOP / "docs" / "storage.md").read_text().partition("## Five minutes")[2].partition("In production")[0]
COMMANDS = re.findall(r"^\$ (.+)$", SECTION, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_five_minutes_run_as_they_are_printed(tmp_path: Path) -> None:
    port = str(free_port())
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOLDFAST_STORE": f"http://127.0.0.1:{port}",
        "HOLDFAST_STORE_LISTEN": f"127.0.0.1:{port}",
    }
    (tmp_path / "report.csv").write_text("number\n" + "7\n" * 100)
    serve, *rest = [each.replace("8090", port).replace("file:./events", f"'file:./events{SMALL_QUERY}'") for each in COMMANDS]
    assert "store serve" in serve
    assert len(rest) == 4

    with subprocess.Popen(
        ["sh", "-c", f"exec {serve}"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline().strip() == f"taking requests on http://127.0.0.1:{port}"
            said = [
                subprocess.run(["sh", "-c", f"{each} -f" if "curl" in each else each], cwd=tmp_path, env=environment,
                               capture_output=True, text=True, check=True, timeout=60).stdout
                for each in rest
            ]  # fmt: skip
        finally:
            server.terminate()

    assert said[1] == (tmp_path / "report.csv").read_text()[:100]
    assert "reports/may.csv" in said[2]
    assert said[3].startswith("got reports/may.csv (")
    assert (tmp_path / "copy.csv").read_bytes() == (tmp_path / "report.csv").read_bytes()
