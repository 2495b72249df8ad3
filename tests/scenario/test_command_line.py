"""The command line: what each command prints, and with which exit code it ends (E4)."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from holdfast.cli.operations.destination import SETTINGS
from holdfast.client.administration import DestinationSettings
from tests.scenario.command_line import Holdfast, holdfast, server
from tests.server_process import ServerProcess, free_port

__all__ = ["holdfast", "server"]


def test_what_is_sent_is_received_as_lines_of_json_and_confirmed(holdfast: Holdfast) -> None:
    sent = holdfast(
        "send", "a", "--data", '{"sku": 7}', "--type", "placed", "--property", "amount=120", "--property", "vip=true", "--json"
    )
    looked = holdfast("receive", "a", "--count", "1", "--no-confirm", "--json")
    received = holdfast("receive", "a", "--count", "1")
    nothing = holdfast("receive", "a", "--timeout", "0.2")

    assert sent.code == 0
    assert sent.json()[0].items() >= {"destination": "a", "count": 1, "copies": 1, "is_synced": True}.items()
    (event,) = looked.json()
    assert event["position"] == sent.json()[0]["first_position"]
    assert (event["data"], event["type"], event["properties"]) == ({"sku": 7}, "placed", {"amount": 120, "vip": True})
    assert (received.code, received.json()) == (0, [{"sku": 7}])
    assert (nothing.code, nothing.out) == (0, "")


def test_data_is_json_or_text_or_a_file_or_a_line_of_stdin_each(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "text.json").write_text("[1, 2]")
    (tmp_path / "binary").write_bytes(b"\xff\x00")

    holdfast("send", "b", "--data", "plain text")
    holdfast("send", "b", "--data", f"@{tmp_path}/text.json")
    holdfast("send", "b", "--data", f"@{tmp_path}/binary")
    lines = holdfast("send", "b", "--data", "-", "--json", stdin='{"n": 1}\n{"n": 2}\n')

    assert lines.json()[0]["count"] == 2
    assert holdfast("receive", "b", "--count", "5").json() == ["plain text", [1, 2], "/wA=", {"n": 1}, {"n": 2}]


def test_many_are_sent_through_a_pipeline_and_the_rate_is_told(holdfast: Holdfast) -> None:
    sent = holdfast("send", "c", "--data", "x", "--count", "5000")
    received = holdfast("receive", "c", "--count", "5000")

    assert "sent 5,000 events to 'c' (" in sent.out
    assert received.json() == ["x"] * 5000


def test_fewer_events_than_asked_for_is_exit_code_3_and_those_there_were_are_printed(holdfast: Holdfast) -> None:
    holdfast("send", "d", "--data", "1")

    done = holdfast("receive", "d", "--count", "2", "--timeout", "0.2")

    assert (done.code, done.out) == (3, "1\n")
    assert done.err == "holdfast: 1 of 2 events came from 'd' before 0.2 s passed without one\n"


def test_destinations_are_created_listed_shown_and_deleted(holdfast: Holdfast) -> None:
    created = holdfast("destination", "create", "e", "--redelivery-limit", "3")
    listed = holdfast("destination", "list", "--json")
    shown = holdfast("destination", "show", "e", "--json")
    table = holdfast("destination", "list")
    deleted = holdfast("destination", "delete", "e")
    gone = holdfast("destination", "show", "e")

    assert created.out == "created queue 'e'\n"
    assert {"e", "_DMQ"} <= {each["name"] for each in listed.json()}
    assert shown.json()[0].items() >= {"name": "e", "kind": "queue", "waiting": 0, "redelivery_limit": 3}.items()
    assert table.out.splitlines()[0].split() == ["name", "kind", "waiting", "in", "flight", "receivers", "is", "blocked"]
    assert deleted.out == "deleted 'e'\n"
    assert (gone.code, gone.out) == (1, "")


def test_every_setting_of_a_destination_has_an_option() -> None:
    assert list(SETTINGS) == list(DestinationSettings.__annotations__)


def test_a_destination_is_configured_and_what_is_not_named_stays(holdfast: Holdfast) -> None:
    holdfast("destination", "create", "g", "--redelivery-limit", "3", "--redelivery-delay", "1.5")
    configured = holdfast("destination", "configure", "g", "--events-max", "5", "--bytes-max", "2M")
    nothing = holdfast("destination", "configure", "g")
    asked = holdfast("admin", "describe", "name=g")

    assert (configured.code, configured.out) == (0, "configured 'g'\n")
    assert (nothing.code, "nothing to change was given" in nothing.err) == (1, True)
    shown = asked.json()[0]
    assert (shown["redelivery_limit"], shown["redelivery_delay"], shown["events_max"], shown["bytes_max"]) == (3, 1.5, 5, 2 << 20)


def test_dead_events_are_listed_shown_replayed_and_purged_b20(holdfast: Holdfast) -> None:
    for number in (1, 2):
        holdfast("send", "h", "--data", f'{{"n": {number}}}', "--property", f"n={number}")
    unforced = holdfast("destination", "delete", "h")
    holdfast("destination", "delete", "h", "--force")

    listed = holdfast("dead", "list", "--json", "--selector", "n >= 1")
    position = str(listed.json()[0]["position"])
    shown = holdfast("dead", "show", position, "--json")
    replayed = holdfast("dead", "replay", position, "--to", "h.again")
    received = holdfast("receive", "h.again", "--count", "1")
    purged = holdfast("dead", "purge", "--selector", "n = 2")
    unsaid = holdfast("dead", "purge")
    unknown = holdfast("dead", "show", position)

    assert (unforced.code, "2 events wait in it" in unforced.err and "--force" in unforced.err) == (1, True)
    assert [each["dead"][0]["code"] for each in listed.json()] == ["deleted", "deleted"]
    assert (shown.json()[0]["data"], shown.json()[0]["destination"]) == ({"n": 1}, "h")
    assert (replayed.out, received.out, purged.out) == ("sent 1 event again\n", '{"n":1}\n', "threw 1 event away\n")
    assert (unsaid.code, "say which dead events are meant" in unsaid.err) == (1, True)
    assert (unknown.code, "no dead event waits" in unknown.err) == (1, True)


def test_subscriptions_keep_what_is_sent_to_a_topic(holdfast: Holdfast) -> None:
    holdfast("destination", "create", "f", "--topic")
    holdfast("subscription", "create", "f", "audit")
    holdfast("send", "f", "--topic", "--data", "1.5")

    unforced = holdfast("subscription", "delete", "f", "audit")
    other = holdfast("subscription", "create", "f", "audit", "--selector", "n > 1")
    narrower = holdfast("receive", "f", "--subscription", "audit", "--selector", "n > 1", "--count", "1")
    listed = holdfast("subscription", "list", "f", "--json")
    received = holdfast("receive", "f", "--subscription", "audit", "--count", "1")
    deleted = holdfast("subscription", "delete", "f", "audit")

    assert listed.json()[0].items() >= {"name": "audit", "waiting": 1}.items()
    assert received.json() == [1.5]
    assert deleted.code == 0
    assert [(each.code, "1 event waits in it" in each.err) for each in (unforced, other, narrower)] == [(1, True)] * 3
    assert holdfast("subscription", "list", "f", "--json").json() == []


def test_a_subscription_is_replaced_or_deleted_with_what_waits_in_it_where_that_is_said(holdfast: Holdfast) -> None:
    holdfast("subscription", "create", "replaced", "audit")
    holdfast("send", "replaced", "--topic", "--data", "1")

    replaced = holdfast("subscription", "create", "replaced", "audit", "--selector", "n > 1", "--replace")
    holdfast("send", "replaced", "--topic", "--data", "2", "--property", "n=2")
    again = holdfast("receive", "replaced", "--subscription", "audit", "--selector", "n > 0", "--replace", "--timeout", "0.2")
    holdfast("send", "replaced", "--topic", "--data", "3", "--property", "n=3")
    deleted = holdfast("subscription", "delete", "replaced", "audit", "--force")

    assert (replaced.code, again.code, again.out, deleted.code) == (0, 0, "", 0)


def test_status_and_version_print_for_people_and_for_programs(holdfast: Holdfast) -> None:
    assert holdfast("status", "--json").json()[0]["is_primary"] is True
    assert "is primary" in holdfast("status").out
    assert holdfast("version").out.startswith("holdfast ")
    assert set(holdfast("version", "--json").json()[0]) == {"holdfast", "python", "implementation", "build"}
    assert holdfast("--version") == (0, holdfast("version").out, "")


def test_what_is_recorded_without_a_server_is_forwarded_to_one(holdfast: Holdfast, tmp_path: Path) -> None:
    recorded = holdfast("record", str(tmp_path / "r"), "g", "--data", "1", "--json")
    holdfast("record", str(tmp_path / "r"), "g", "--data", "-", stdin="2\n3\n")
    forwarded = holdfast("forward", str(tmp_path / "r"), "--json")

    assert recorded.json()[0].items() >= {"sequence": 1, "held": 1}.items()
    assert forwarded.json()[0].items() >= {"count": 3, "skipped": 0}.items()
    assert holdfast("receive", "g", "--count", "3").json() == [1, 2, 3]
    assert holdfast("forward", str(tmp_path / "missing")).code == 1


def test_the_folder_of_a_server_is_not_taken_for_a_recorder(holdfast: Holdfast, server: ServerProcess) -> None:
    done = holdfast("forward", str(server.data))

    assert (done.code, done.out) == (1, "")
    assert "no recorder" in done.err


def test_a_journal_is_verified_and_a_flipped_bit_in_it_is_exit_code_5(holdfast: Holdfast, tmp_path: Path) -> None:
    for number in range(3):
        holdfast("record", str(tmp_path), "h", "--data", str(number))
    whole = holdfast("journal", "verify", str(tmp_path))
    shown = holdfast("journal", "show", str(tmp_path), "--json")
    segment = tmp_path / "recording" / "segment-000001.hfj"
    data = bytearray(segment.read_bytes())
    data[data.index(b"holdfast/recorder")] ^= 1
    segment.write_bytes(data)

    damaged = holdfast("journal", "verify", str(tmp_path))
    as_json = holdfast("journal", "verify", str(tmp_path), "--json")

    assert (whole.code, whole.err) == (0, "")
    assert shown.json()[0]["durable"] == 3
    assert (damaged.code, damaged.out) == (5, "")
    assert "segment-000001.hfj" in damaged.err
    assert as_json.code == 5
    assert as_json.json()[0]["state"] == "damaged"
    assert holdfast("journal", "verify", str(tmp_path / "missing")).code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["send"], 2, "Missing argument"),
        (["send", "x", "--bogus"], 2, "No such option"),
        (["send", "x", "--count", "0"], 2, "--count"),
        (["nonsense"], 2, "No such command"),
        (["serve"], 2, "--data"),
        (["send", "_x"], 1, "reserved"),
        (["send", "x", "--property", "novalue"], 1, "NAME=VALUE"),
        (["send", "x", "--property", "1a=2"], 1, "not an identifier"),
        (["send", "x", "--data", "@/no/such/file"], 1, "cannot be read"),
        (["send", "x", "--url", "http://x"], 1, "possible are"),
        (["receive", "_y"], 1, "reserved"),
        (["subscription", "list", "no-such-topic"], 1, "no-such-topic"),
        (["serve", "--data", "/tmp/never-made", "--journal-size", "many"], 1, "not a size"),
        (["serve", "--data", "/tmp/never-made", "--journal-size", "1M"], 1, "too small"),
        (["status", "--url", "holdfast://127.0.0.1:1", "--timeout", "0.3"], 3, "no link to a server"),
    ],
)
def test_wrong_usage_and_refusals_are_one_sentence_and_an_exit_code(
    holdfast: Holdfast, arguments: list[str], code: int, sentence: str
) -> None:
    plain = holdfast(*arguments)
    as_json = holdfast(*arguments, *(["--json"] if arguments[0] not in ("serve", "nonsense") else []))

    assert (plain.code, plain.out) == (code, "")
    assert plain.err.count("\n") == 1
    assert plain.err.startswith("holdfast: ")
    assert sentence in plain.err
    assert as_json.code == code
    if "--json" in arguments or arguments[0] not in ("serve", "nonsense"):
        assert set(msgspec.json.decode(as_json.err)) == {"error", "sentence"}


@pytest.mark.parametrize("arguments", [[], ["destination"]])
def test_without_a_command_the_help_is_shown_and_the_exit_code_says_wrong_usage(holdfast: Holdfast, arguments: list[str]) -> None:
    done = holdfast(*arguments)

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: holdfast")
    assert "Commands:" in done.err


def test_a_fault_of_our_own_is_a_sentence_too(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.python_version", lambda: 1 / 0)

    done = holdfast("version", "--json")

    assert done.code == 70
    assert msgspec.json.decode(done.err)["error"] == "fault"


def test_a_recorder_that_is_full_is_exit_code_3(holdfast: Holdfast, tmp_path: Path) -> None:
    done = holdfast(
        "record", str(tmp_path), "x", "--size", "128K", "--data", "-", stdin="x" * 9_000 + "\n" + ("y" * 9_000 + "\n") * 30
    )

    assert done.code == 3
    assert "is full" in done.err


def test_a_second_server_on_the_same_folder_is_refused_and_told_who_has_it(server: ServerProcess) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "serve", "--data", str(server.data), "--listen", "127.0.0.1:0"],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip

    assert done.returncode == 1
    assert str(server.pid) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_on_a_taken_port_is_exit_code_3(server: ServerProcess, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "serve", "--data", str(tmp_path / "x"), "--listen", f"127.0.0.1:{server.port}"],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip

    assert done.returncode == 3
    assert "--listen" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_asked_to_stop_does_so_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", "serve", "--data", str(tmp_path / "x"), "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on 127.0.0.1:")
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)

    assert process.returncode == 0
    assert "Traceback" not in errors


def into_head(*arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command whose reader goes away after one line."""
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout is not None and command.stderr is not None
        line = command.stdout.readline()
        command.stdout.close()
        try:
            code = command.wait(timeout=20)
        finally:
            command.kill()
        return code, line, command.stderr.read()


def test_a_reader_that_goes_away_ends_receive_quietly_and_what_was_not_printed_is_kept(
    server: ServerProcess, holdfast: Holdfast
) -> None:
    holdfast("send", "i", "--data", "x" * 1000, "--count", "2000")

    code, line, errors = into_head("receive", "i", "--count", "2000", "--url", server.url)

    assert (code, line, errors) == (130, f'"{"x" * 1000}"\n', "")
    shown = holdfast("destination", "show", "i", "--json").json()[0]
    assert shown["waiting"] > 1000
    assert shown["in_flight"] == 0


def test_a_reader_that_goes_away_ends_receive_also_while_there_is_nothing_to_print(
    server: ServerProcess, holdfast: Holdfast
) -> None:
    holdfast("send", "j", "--data", "1")

    assert into_head("receive", "j", "--url", server.url) == (130, "1\n", "")

    holdfast("send", "j", "--data", "2")
    assert holdfast("receive", "j", "--count", "1", "--timeout", "5").out == "2\n"


def test_output_that_cannot_be_written_is_said_and_the_event_is_kept(server: ServerProcess, holdfast: Holdfast) -> None:
    holdfast("send", "m", "--data", "1")

    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "receive", "m", "--count", "1", "--url", server.url],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=30,
        )  # fmt: skip

    assert done.returncode == 3
    assert done.stderr.startswith("holdfast: the output cannot be written (No space left on device)")
    assert done.stderr.count("\n") == 1
    assert holdfast("receive", "m", "--count", "1", "--timeout", "5").out == "1\n"


def test_a_server_whose_output_cannot_be_written_serves_all_the_same(tmp_path: Path, holdfast: Holdfast) -> None:
    port = free_port()
    with Path("/dev/full").open("w") as full:
        serve = [sys.executable, "-m", "holdfast", "serve", "--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{port}"]
        running = subprocess.Popen(serve, stdout=full, stderr=subprocess.PIPE, text=True)
    try:
        sent = holdfast("send", "q", "--data", "1", "--url", f"holdfast://127.0.0.1:{port}", "--timeout", "30")
    finally:
        running.terminate()
        _, said = running.communicate(timeout=30)

    assert (sent.code, running.returncode) == (0, 0), said


def test_a_reader_that_goes_away_ends_every_command_alike(server: ServerProcess, holdfast: Holdfast) -> None:
    holdfast("send", "k", "--data", "x" * 1000, "--count", "2000")

    assert into_head("browse", "k", "--url", server.url)[::2] == (130, "")


def test_a_server_without_users_or_tls_goes_on_after_sighup_and_says_why_nothing_happened(
    server: ServerProcess, holdfast: Holdfast
) -> None:
    server.signal(signal.SIGHUP)
    while "nothing to reload" not in server.log:
        assert holdfast("status").code == 0

    assert holdfast("send", "l", "--data", "1").code == 0


def test_from_the_command_line_the_same_id_is_stored_once(holdfast: Holdfast) -> None:
    created = holdfast("destination", "create", "paid", "--deduplicate", "10m")
    first = holdfast("send", "paid", "--data", "1", "--id", "invoice-7", "--json")
    again = holdfast("send", "paid", "--data", "1", "--id", "invoice-7", "--json")
    said = holdfast("send", "paid", "--data", "1", "--id", "invoice-7")
    shown = holdfast("destination", "show", "paid", "--json")
    wrong = holdfast("destination", "configure", "paid", "--deduplicate", "soon")
    off = holdfast("destination", "configure", "paid", "--deduplicate", "0")

    assert (created.code, off.code) == (0, 0)
    assert first.json()[0]["first_position"] == again.json()[0]["first_position"]
    assert ("is_repeated" in first.json()[0], again.json()[0]["is_repeated"]) == (False, True)
    assert "has taken this event before" in said.out
    assert shown.json()[0].items() >= {"waiting": 1, "deduplicate": 600.0, "remembered": 1}.items()
    assert (wrong.code, "write it like 10m" in wrong.err) == (1, True)
