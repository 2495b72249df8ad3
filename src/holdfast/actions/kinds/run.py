"""`run`: start a command, with the alert as JSON on its standard input.

    do = "run"
    command = ["/usr/local/bin/restart", "--host", "{key}"]
    timeout = "30s"

There is no shell: each word of the command is one argument, whatever the event has in it. Exit code 0 is success. The command
runs in a process group of its own, under a guard: past the time limit, or when this program dies by whatever signal, the whole
group is killed. A command that was killed with the program is run again: write it so that twice is harmless; `HOLDFAST_ALERT`
has the alert's id.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from holdfast.actions.alert import Alert
from holdfast.actions.errors import ActionFailed
from holdfast.actions.kinds import run_guard
from holdfast.actions.kinds.action import Action, Complaint
from holdfast.actions.machines.template import BadTemplate, Template
from holdfast.destination.settings import duration_ms
from holdfast.errors import HoldfastError

# What is read of its errors, and what of that is told.
OUTPUT_BYTES_MAX = 64 << 10
SAID_LENGTH_MAX = 400
# Programs that run a text as a program, when it follows this option.
SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh", "fish")
# The guard ends the group itself; if it does not, it is killed after this.
GUARD_GRACE_S = 5.0


class Run(Action):
    class Settings(msgspec.Struct, kw_only=True):
        command: list[str]
        timeout: str | int | float = 30
        folder: str = ""
        environment: dict[str, str] = {}

    settings: Settings
    TEMPLATES = ("command",)

    @classmethod
    def complaints(cls, settings: Any) -> Iterator[Complaint]:
        if not settings.command or not settings.command[0]:
            yield "command", 'there is no command; write it like ["/usr/bin/program", "argument"]'
        elif "{" in settings.command[0]:
            yield "command", "the program itself is no template: an event must not choose what is run"
        elif _runs_text_of_events(settings.command):
            yield (
                "command",
                (
                    "a shell would run what an event has in it; give fields as arguments: "
                    '["sh", "-c", "echo \\"$1\\"", "sh", "{host}"]'
                ),
            )
        try:
            if not duration_ms(settings.timeout, "timeout"):
                yield "timeout", "a command needs a time limit; give one like 30s"
        except HoldfastError as problem:
            yield "timeout", problem.sentence

    def do(self, alerts: Sequence[Alert]) -> None:
        for alert in alerts:
            self._run(alert)

    def _command(self, alert: Alert) -> list[str]:
        return [alert.fill_text(word).replace("\0", "") for word in self.settings.command]

    def _run(self, alert: Alert) -> None:
        timeout_s = duration_ms(self.settings.timeout, "timeout") / 1000
        environment = {
            **os.environ, **self.settings.environment, "HOLDFAST_ALERT": alert.id, "HOLDFAST_RULE": alert.rule,
            "HOLDFAST_IDEMPOTENCY_KEY": alert.idempotency_key,
        }  # fmt: skip
        guard = [sys.executable, "-I", "-S", run_guard.__file__, str(os.getpid()), f"{timeout_s}"]
        folder = self.surroundings.path(self.settings.folder) if self.settings.folder else None
        # Files, not pipes: a child of the command that lives on would keep a pipe open.
        with tempfile.TemporaryFile() as alert_file, tempfile.TemporaryFile() as errors:
            alert_file.write(msgspec.json.encode(alert))
            alert_file.seek(0)
            process = subprocess.Popen(
                [*guard, *self._command(alert)], stdin=alert_file, stdout=subprocess.DEVNULL, stderr=errors, env=environment,
                cwd=folder, start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(timeout_s + GUARD_GRACE_S)
            except subprocess.TimeoutExpired:
                code = run_guard.TIMED_OUT
            finally:
                _kill_group(process)
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - OUTPUT_BYTES_MAX))
            said = self.surroundings.secrets.redact(errors.read().decode(errors="replace"))
            said = " ".join(said.split())[-SAID_LENGTH_MAX:]
        program = self.settings.command[0]
        if code == run_guard.TIMED_OUT:
            raise ActionFailed(f"{program} ran for more than {timeout_s:g} s and was killed")
        if code:
            raise ActionFailed(f"{program} ended with {_code_text(code)}{': ' + said if said else ''}")

    def describe(self, alert: Alert) -> str:
        return f"run {self._command(alert)!r} with the alert on its standard input"


def _runs_text_of_events(command: list[str]) -> bool:
    """Whether a shell is given a program that has fields of events in it."""
    if os.path.basename(command[0]) not in SHELLS:
        return False
    place = next((place for place, word in enumerate(command) if _is_option(word, "c")), len(command))
    return any(_has_fields(word) for word in command[place + 1 : place + 2])


def _is_option(word: str, letter: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and word.endswith(letter)


def _has_fields(word: str) -> bool:
    try:
        return bool(Template(word).names)
    except BadTemplate:
        return False  # it is refused for that


def _code_text(code: int) -> str:
    if code == run_guard.NOT_STARTED:
        return "no such program, or one that may not be run"
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the group, and wait for the guard."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()
