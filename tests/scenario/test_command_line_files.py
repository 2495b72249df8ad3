"""Files as events on the command line (B13, E4): `send --file`, `receive --save-to`."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.scenario.command_line import Holdfast, holdfast, server

__all__ = ["holdfast", "server"]

LARGE = hashlib.shake_128(b"content").digest(700_001)


def test_a_file_of_any_size_is_sent_and_saved_under_its_id_and_name(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "large.bin").write_bytes(LARGE)
    (tmp_path / "small.txt").write_text("small")
    (tmp_path / "saved").mkdir()

    sent = holdfast("send", "files", "--file", f"{tmp_path}/large.bin", "--type", "picture", "--json")
    also = holdfast("send", "files", "--file", f"{tmp_path}/small.txt")
    received = holdfast("receive", "files", "--count", "2", "--save-to", f"{tmp_path}/saved")

    assert sent.json()[0].items() >= {"destination": "files", "count": 1, "bytes": len(LARGE)}.items()
    assert "(5 bytes)" in also.out
    large, small = received.json()
    assert (large["id"], large["type"], large["bytes"]) == (sent.json()[0]["first_id"], "picture", len(LARGE))
    assert large["saved"] == f"{tmp_path}/saved/{large['id']}-large.bin"
    assert Path(large["saved"]).read_bytes() == LARGE
    assert Path(small["saved"]).read_text() == "small"
    assert holdfast("receive", "files", "--timeout", "0.2").out == ""


def test_a_large_event_is_not_printed_and_stays_until_it_is_saved(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "large.bin").write_bytes(LARGE)
    holdfast("send", "large", "--file", f"{tmp_path}/large.bin")

    refused = holdfast("receive", "large", "--count", "1")
    saved = holdfast("receive", "large", "--count", "1", "--save-to", str(tmp_path))

    assert refused.code != 0
    assert "--save-to" in refused.err
    assert Path(saved.json()[0]["saved"]).read_bytes() == LARGE


def test_a_large_event_is_browsed_and_as_a_dead_one_listed_shown_and_replayed_b20(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "large.bin").write_bytes(LARGE)
    holdfast("send", "given-up", "--file", f"{tmp_path}/large.bin", "--property", "of=it", "--priority", "7")

    browsed, whole = holdfast("browse", "given-up"), holdfast("browse", "given-up", "--json")
    holdfast("destination", "delete", "given-up", "--force")
    listed = holdfast("dead", "list", "--selector", "of = 'it'", "--json")
    position = str(listed.json()[0]["position"])
    shown = holdfast("dead", "show", position)
    replayed = holdfast("dead", "replay", position)
    saved = holdfast("receive", "given-up", "--count", "1", "--save-to", str(tmp_path))

    assert browsed.json()[0]["bytes"] == whole.json()[0]["bytes"] == listed.json()[0]["bytes"] == len(LARGE)
    assert (whole.json()[0]["priority"], "data" in whole.json()[0]) == (7, False)
    assert (shown.code, f"position         {position}" in shown.out) == (0, True), "as it is to be typed again"
    assert replayed.out == "sent 1 event again\n"
    assert Path(saved.json()[0]["saved"]).read_bytes() == LARGE


def test_a_dead_event_that_is_received_says_why_it_is_one(holdfast: Holdfast) -> None:
    holdfast("send", "dying", "--data", "1", "--property", "of=dying")
    holdfast("destination", "delete", "dying", "--force")

    received = holdfast("receive", "_DMQ", "--selector", "of = 'dying'", "--count", "1", "--json")

    assert [(death["destination"], death["code"]) for death in received.json()[0]["dead"]] == [("dying", "deleted")]


def test_a_name_that_would_lead_out_of_the_folder_does_not(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    holdfast("send", "names", "--data", "x", "--property", "file_name=../../outside")

    (saved,) = holdfast("receive", "names", "--count", "1", "--save-to", f"{tmp_path}/saved").json()

    assert Path(saved["saved"]).parent == tmp_path / "saved"
    assert saved["saved"].endswith("-outside")


def test_what_cannot_be_sent_or_saved_to_is_refused_with_the_reason(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    missing = holdfast("send", "f", "--file", f"{tmp_path}/missing")
    both = holdfast("send", "f", "--file", f"{tmp_path}/file", "--data", "1")
    nowhere = holdfast("receive", "f", "--save-to", f"{tmp_path}/nowhere")

    assert "is not a file that can be sent" in missing.err
    assert "leave --data and --count out" in both.err
    assert "is not a folder to save to" in nowhere.err
    assert 0 not in (missing.code, both.code, nowhere.code)
