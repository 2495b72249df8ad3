"""A command is told without secrets, and no shell runs what an event has in it."""

from __future__ import annotations

import pytest

from holdfast.actions import Alert, Surroundings
from holdfast.actions.errors import ActionFailed
from holdfast.actions.kinds.run import SAID_LENGTH_MAX, Run

ALERT = Alert(id="1", rule="r", at="2026-01-01T00:00:00+00:00", program="p", action="a", summary="s")
TOKEN = "abcdefghijklmnopqrstuvwxyz"


def test_the_errors_of_a_command_are_told_without_secrets_also_where_they_are_cut() -> None:
    surroundings = Surroundings("p")
    surroundings.secrets.hide(TOKEN)
    script = f"echo $1 >&2; printf '%0{SAID_LENGTH_MAX - 10}d' 0 >&2; exit 3"
    run = Run(Run.Settings(command=["sh", "-c", script, "sh", TOKEN]), surroundings)

    with pytest.raises(ActionFailed, match="exit code 3") as failed:
        run.do([ALERT])

    assert TOKEN[-5:] not in str(failed.value)


@pytest.mark.parametrize("command", [["sh", "-c", "echo {host}"], ["/bin/bash", "-e", "-lc", "echo '{key}'", "x"]])
def test_a_shell_is_given_no_program_with_fields_of_events(command: list[str]) -> None:
    assert [setting for setting, _ in Run.complaints(Run.Settings(command=command))] == ["command"]


@pytest.mark.parametrize(
    "command", [["sh", "-c", 'echo "$1"', "sh", "{host}"], ["echo", "-c", "{host}"], ["sh", "x.sh", "{key}"]]
)
def test_fields_are_arguments(command: list[str]) -> None:
    assert list(Run.complaints(Run.Settings(command=command))) == []
