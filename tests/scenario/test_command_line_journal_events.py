"""`holdfast journal events`: what waits in a data folder, printed without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast import Event
from holdfast.cli.main import run
from tests.scenario.command_line import Done

SMALL = "?journal_size=64M&segment_size=1M&reserve=2M"


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> Done:
    code = run(["journal", "events", *arguments])
    return Done(code, *capsys.readouterr())


async def fill(folder: Path) -> None:
    async with holdfast.connect(f"file:{folder}{SMALL}") as client:
        await client.queue("orders").send_many(Event(data={"sku": sku}, properties={"amount": sku * 100}) for sku in range(3))
        await client.create_topic("prices")
        await client.create_subscription("prices", "display")
        await client.create_subscription("pri*", "all")
        await client.topic("prices").send("1.07")


async def test_what_waits_in_a_folder_is_printed_while_its_owner_lives_and_after(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await fill(tmp_path)

    everything = call(capsys, str(tmp_path))
    async with holdfast.connect(f"file:{tmp_path}{SMALL}"):
        while_owned = call(capsys, str(tmp_path))

    assert everything.json() == while_owned.json() == [{"sku": 0}, {"sku": 1}, {"sku": 2}, "1.07", "1.07"]


async def test_events_are_chosen_by_destination_subscription_selector_and_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await fill(tmp_path)

    assert call(capsys, str(tmp_path), "--selector", "amount > 50").json() == [{"sku": 1}, {"sku": 2}]
    assert call(capsys, str(tmp_path), "--destination", "orders", "--count", "1").json() == [{"sku": 0}]
    shown = call(capsys, str(tmp_path), "--subscription", "all", "--json").json()
    assert [(each["destination"], each["subscription"], each["data"]) for each in shown] == [("prices", "all", "1.07")]
    assert shown[0]["accepted_at"]


async def test_what_is_not_there_is_one_sentence_and_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await fill(tmp_path / "data")

    missing = call(capsys, str(tmp_path / "data"), "--destination", "none")
    empty = call(capsys, str(tmp_path / "nowhere"))

    assert (missing.code, empty.code) == (1, 1)
    assert "there is no destination 'none'" in missing.err
    assert "there is no folder" in empty.err
