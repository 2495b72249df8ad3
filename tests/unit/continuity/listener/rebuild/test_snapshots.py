"""Snapshots and the commands of the user that make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.continuity.errors import CommandFailed
from holdfast.continuity.listener.rebuild.snapshot_taker import Every
from holdfast.continuity.listener.rebuild.snapshots import KEPT, About, Snapshots
from holdfast.continuity.listener.rebuild.user_command import UserCommand
from holdfast.errors import BadSetting


async def _take(snapshots: Snapshots, place: int) -> None:
    folder = snapshots.begin(place)
    await snapshots.write_state(folder, UserCommand("snapshot", f'echo {place} >"$HOLDFAST_SNAPSHOT"', "shop", "one"))
    snapshots.finish(folder, About("shop", "one", place))


async def test_the_newest_snapshots_are_kept_and_an_unfinished_one_does_not_count(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path / "snapshots")
    for place in (5, 70, 900, 1_000):
        await _take(snapshots, place)
    snapshots.begin(2_000)

    newest = snapshots.newest()
    assert [each.place for each in snapshots.all()] == [900, 1_000]
    assert KEPT == 2
    assert newest is not None
    assert newest.state.read_text() == "1000\n"


async def test_a_command_that_fails_is_told_with_its_code_and_what_it_said(tmp_path: Path) -> None:
    command = UserCommand("reset", "echo no such disk; exit 3", "shop", "one")

    with pytest.raises(CommandFailed, match="code 3: no such disk") as failed:
        await command.run(None)

    assert failed.value.fields["code"] == 3


async def test_a_command_sees_domain_and_server_and_an_empty_path_if_there_is_no_snapshot(tmp_path: Path) -> None:
    told = tmp_path / "told"
    line = f'echo "$HOLDFAST_DOMAIN $HOLDFAST_SERVER [$HOLDFAST_SNAPSHOT]" >{told}'

    await UserCommand("reset", line, "shop", "one").run(None)

    assert told.read_text() == "shop one []\n"


def test_how_often_is_said_in_seconds_or_events() -> None:
    assert Every.parse("600s") == Every(seconds=600.0)
    assert Every.parse("10000") == Every(events=10_000)
    assert Every.parse("") == Every()
    for wrong in ("often", "-1", "xs"):
        with pytest.raises(BadSetting):
            Every.parse(wrong)
