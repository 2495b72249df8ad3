"""Backup and restore: consistent while a server works, incremental, judged, atomic; restored as another incarnation (E8)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
import holdfast.blocking
from holdfast.backup.backup import back_up
from holdfast.backup.restore import restore
from holdfast.channel.journal.files.backup_hold import held_segments
from holdfast.cli.main import run
from holdfast.errors import BackupDamaged, FolderNotEmpty, NotABackup, NotAJournal
from holdfast.node.observer import Observer
from tests.restoring import backed_up, backup_of, start_restored
from tests.server_process import SMALL_QUERY, ServerProcess
from tests.waiting import until, wait_until

pytestmark = pytest.mark.slow

BODY = "x" * 100_000
KILLED_WHILE_COPYING = """
import os, signal, sys
from pathlib import Path
from holdfast.backup.backup import back_up
back_up(Path(sys.argv[1]), Path(sys.argv[2]), "killed", lambda what, size, done: os.kill(os.getpid(), signal.SIGKILL))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as made:
        yield made


class Load:
    """Sends to a queue that nobody reads, and through another whose events are confirmed, so that segments are used again."""

    def __init__(self, url: str) -> None:
        self.receipted = 0  # numbers 1 to this are receipted
        self._url = url
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._send, self._pass_through)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        with holdfast.blocking.connect(self._url) as client:
            while not self._is_over.is_set():
                client.queue("kept").send(self.receipted + 1)
                self.receipted += 1

    def _pass_through(self) -> None:
        with holdfast.blocking.connect(self._url) as client, client.queue("passing").receive(timeout=20) as incoming:
            while not self._is_over.is_set():
                client.queue("passing").send(BODY)
                incoming.next().confirm()


def waiting(folder: Path, queue: str) -> int:
    with Observer(folder) as observer:
        return int(observer.describe(queue)["waiting"])


def received(url: str, queue: str, count: int) -> list[object]:
    with holdfast.blocking.connect(url) as client, client.queue(queue).receive(timeout=20) as incoming:
        found = []
        for _ in range(count):
            event = incoming.next()
            found.append(event.data)
            event.confirm()
        return found


@pytest.mark.slow
def test_a_backup_under_load_holds_everything_that_was_receipted_before_it_began_e8(
    server: ServerProcess, tmp_path: Path
) -> None:
    reports, before = [], 0
    with Load(server.url) as load:
        wait_until(lambda: load.receipted >= 20, "something is receipted")
        for _ in range(5):
            before = load.receipted
            reports.append(backed_up(server))
    made = start_restored(server)

    assert [each.entry for each in reports] == sorted({each.entry for each in reports})
    assert made.entry == reports[-1].entry
    with holdfast.blocking.connect(server.url) as client:
        there = client.describe("kept")["waiting"]
    assert there >= before > 20
    assert received(server.url, "kept", there) == list(range(1, there + 1))


def test_a_second_backup_copies_only_what_changed_e8(server: ServerProcess) -> None:
    with holdfast.blocking.connect(server.url) as client:
        for _ in range(200):
            client.queue("kept").send(BODY)
        first = backed_up(server)
        client.queue("kept").send("one more")
        second = backed_up(server)
        third = backed_up(server)

    assert first.copied_segments == first.segments >= 5
    assert second.copied_segments == 1  # the tail
    assert third.copied_segments <= 1  # the server may have written down that the client went
    assert second.segments == first.segments
    assert waiting_in_backup(server) == 201


def waiting_in_backup(server: ServerProcess) -> int:
    restored = backup_of(server).with_name("looked-at")
    shutil.rmtree(restored, ignore_errors=True)
    restore(backup_of(server), restored)
    return waiting(restored, "kept")


def test_a_killed_backup_leaves_the_former_one_whole_holds_nothing_and_the_next_one_tidies_up_e8(server: ServerProcess) -> None:
    with holdfast.blocking.connect(server.url) as client:
        client.queue("kept").send(1)
        backed_up(server)
        client.queue("kept").send(2)
    command = [sys.executable, "-c", KILLED_WHILE_COPYING, str(server.data), str(backup_of(server))]

    killed = subprocess.run(command, check=False, env={**os.environ})

    assert killed.returncode == -signal.SIGKILL
    assert list(backup_of(server).glob("*.preparing"))
    assert held_segments(server.data / "journal") == frozenset()
    assert waiting_in_backup(server) == 1
    backed_up(server)
    assert not list(backup_of(server).glob("*.preparing"))
    assert waiting_in_backup(server) == 2
    assert not (server.data / "journal" / "backup.hold").exists()


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_folder_that_nobody_uses_is_backed_up_too_e8(server: ServerProcess, *, is_killed: bool) -> None:
    with holdfast.blocking.connect(server.url) as client:
        client.queue("kept").send(1)
    server.kill() if is_killed else server.stop()

    backed_up(server)

    assert waiting_in_backup(server) == 1


async def test_an_embedded_folder_in_use_is_backed_up_from_another_process_e8(tmp_path: Path) -> None:
    async with holdfast.connect(f"file:{tmp_path / 'data'}{SMALL_QUERY}") as client:
        await client.queue("kept").send(1)
        command = [sys.executable, "-m", "holdfast", "backup", str(tmp_path / "data"), str(tmp_path / "backup"), "--json"]
        await asyncio.to_thread(subprocess.run, command, check=True, env={**os.environ}, capture_output=True)
    restore(tmp_path / "backup", tmp_path / "restored")

    assert waiting(tmp_path / "restored", "kept") == 1


def test_settings_beside_the_journal_are_in_the_backup_and_nobody_else_may_read_them_e8(
    server: ServerProcess, tmp_path: Path
) -> None:
    (server.data / "users.toml").write_text("# nobody\n")

    backed_up(server)
    made = restore(backup_of(server), tmp_path / "restored")

    assert made.files == ["identity", "users.toml"]
    assert (tmp_path / "restored" / "users.toml").read_text() == "# nobody\n"
    assert {path.stat().st_mode & 0o077 for path in backup_of(server).iterdir()} == {0}


# --- another incarnation ------------------------------------------------------------------------------------------------


def incarnation(url: str) -> str:
    async def greeted() -> str:
        async with holdfast.connect(url) as client:
            return client.reading("any").incarnation

    return asyncio.run(greeted())


def test_each_restored_folder_is_an_incarnation_of_its_own_told_in_the_greeting_e8(server: ServerProcess, tmp_path: Path) -> None:
    lost = incarnation(server.url)
    report = backed_up(server)
    other = restore(backup_of(server), tmp_path / "other")
    made = start_restored(server)

    told = incarnation(server.url)

    assert report.incarnation == made.former_incarnation == lost
    assert told == made.incarnation
    assert told.startswith(f"{lost}+1-")
    assert len({lost, told, other.incarnation}) == 3


async def test_a_client_that_outlives_a_restore_confirms_nothing_at_a_position_that_is_used_again_e8(
    server: ServerProcess, tmp_path: Path
) -> None:
    async with holdfast.connect(server.url) as client, client.queue("other").receive(timeout=20) as incoming:
        await client.queue("other").send("before")
        await (await incoming.next()).confirm()
        await incoming.settled()
        backed_up(server)
        lost = {(await client.queue("other").send("of the lost future")).position for _ in range(30)}
        held = [await incoming.next() for _ in lost]
        server.kill()
        now = await asyncio.to_thread(_sent_to_restored, server)
        await asyncio.to_thread(server.start)

        with pytest.raises(holdfast.HoldfastError):
            for event in held:
                await event.confirm()
            await incoming.settled()

        assert lost & now
        async with holdfast.connect(server.url) as second:
            await until(lambda: client.is_linked, "the client is linked again")
            found = await second.describe("other")
        assert found["waiting"] == len(now)
        assert (await incoming.next()).data == "of now"


def _sent_to_restored(server: ServerProcess) -> set[int]:
    """Restore the server, and send to it under another address, so that nobody from before is there yet."""
    server.data = server.data.with_name("restored")
    restore(backup_of(server), server.data)
    with ServerProcess(server.data) as elsewhere, holdfast.blocking.connect(elsewhere.url) as client:
        return {client.queue("other").send("of now").position for _ in range(60)}


async def test_a_producer_that_outlives_a_restore_goes_on_and_nothing_is_dropped_as_a_repetition_e8(
    server: ServerProcess,
) -> None:
    async with holdfast.connect(server.url) as client:
        await client.queue("kept").send(1)
        backed_up(server)
        for number in range(2, 6):
            await client.queue("kept").send(number)
        await asyncio.to_thread(start_restored, server)

        for number in range(6, 9):
            await client.queue("kept").send(number)

        async with client.queue("kept").receive(timeout=20) as incoming:
            assert [(await incoming.next()).data for _ in range(4)] == [1, 6, 7, 8]


# --- refusals -----------------------------------------------------------------------------------------------------------


def test_what_cannot_be_backed_up_or_restored_is_refused_with_what_to_do_e8(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_text("")
    (tmp_path / "recorder" / "recording").mkdir(parents=True)
    backed_up(server)

    with pytest.raises(NotAJournal, match="name the data folder"):
        back_up(tmp_path / "photos", tmp_path / "new", "a test")
    with pytest.raises(NotAJournal, match="holdfast forward"):
        back_up(tmp_path / "recorder", tmp_path / "new", "a test")
    with pytest.raises(NotABackup, match=r"cat\.png.*name an empty folder"):
        back_up(server.data, tmp_path / "photos", "a test")
    with pytest.raises(FolderNotEmpty, match=r"cat\.png.*name another one"):
        restore(backup_of(server), tmp_path / "photos")
    with pytest.raises(NotABackup, match="holds no backup that was finished"):
        restore(tmp_path / "photos", tmp_path / "new")


def test_the_backup_of_another_journal_is_not_overwritten_e8(server: ServerProcess, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "another") as another:
        back_up(another.data, backup_of(server), "a test")

    with pytest.raises(NotABackup, match="backup of another journal"):
        backed_up(server)


@pytest.mark.parametrize("harm", ["flip", "remove"])
def test_a_damaged_backup_is_not_restored_and_names_the_file_e8(server: ServerProcess, tmp_path: Path, harm: str) -> None:
    backed_up(server)
    (copied,) = backup_of(server).glob("segment-*")
    if harm == "flip":
        data = bytearray(copied.read_bytes())
        data[-3] ^= 1
        copied.write_bytes(data)
    else:
        copied.unlink()

    with pytest.raises(BackupDamaged, match=copied.name):
        restore(backup_of(server), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_command_line_says_what_was_copied_and_its_exit_codes_tell_the_rest_e8(
    server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, restored = str(tmp_path / "backup"), str(tmp_path / "restored")

    codes = [run(["backup", str(server.data), target]), run(["restore", target, restored]), run(["restore", target, restored])]

    out, err = capsys.readouterr()
    assert codes == [0, 0, 1]
    assert "read back, and whole" in out
    assert "incarnation" in out
    assert "holds 'identity'; a backup is restored into an empty folder" in err
