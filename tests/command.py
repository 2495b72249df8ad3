"""A command of Holdfast in a process of its own."""

from __future__ import annotations

import subprocess
import sys


def run_holdfast(*arguments: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)
