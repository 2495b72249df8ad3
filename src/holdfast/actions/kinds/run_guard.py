"""The guard of a command: ends it with all its children past the time limit, or when the program that started it dies.

    program ── guard (leader of the process group, told by the kernel when its parent dies) ── command ── its children

Started as `python -I -S run_guard.py PARENT SECONDS COMMAND…`: it loads nothing of Holdfast.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from types import FrameType

PR_SET_PDEATHSIG = 1
# Exit codes of the guard itself, beside those of the command.
TIMED_OUT = 124
NOT_STARTED = 127


def main(parent: int, seconds: float, command: list[str]) -> int:
    signal.signal(signal.SIGTERM, _kill_all)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        return NOT_STARTED  # the parent died before the kernel was asked to tell
    try:
        process = subprocess.Popen(command)
    except OSError as problem:
        print(f"{command[0]}: {problem.strerror}", file=sys.stderr)
        return NOT_STARTED
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()  # what it started is killed with the group, by who started the guard
        process.wait()
        return TIMED_OUT


def _kill_all(number: int, frame: FrameType | None) -> None:
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    code = main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
    sys.exit(code if code >= 0 else 128 - code)
