"""The store of a listener: what is durable when, what is in doubt after an end, and what damage it refuses."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.errors import StoreDamaged, StoreInUse, WrongStore
from holdfast.continuity.listener.durable import store_folder
from holdfast.continuity.listener.durable.mark_file import CALLS_AT, SLOT_BYTES
from holdfast.continuity.listener.durable.record import Record
from holdfast.continuity.listener.durable.store import Store
from tests.waiting import wait_until

BOOT, OTHER_BOOT = b"a" * 16, b"b" * 16


def opened(folder: Path, boot: bytes = BOOT, kept_bytes: int = 1 << 20) -> Store:
    return Store.open(folder, "shop", "one", boot, kept_bytes)


def record(place: int, body: bytes = b"ok") -> Record:
    answer = Answer(Head(200, [], len(body)), body)
    return Record(place, place * 10, f"t{place}", f"k{place}", b"d" * 16, place * 1000, "answered", answer)


def filled(folder: Path, count: int, *, synced: int | None = None) -> Path:
    """A store with so many finished calls, of which the first `synced` are durable, and 128 places reserved."""
    store = opened(folder)
    store.sync(128)
    for place in range(1, count + 1):
        store.begin(place)
        store.append(record(place))
        if place == synced:
            store.sync()
    store.close()
    return folder


# --- the rhythm of a call ----------------------------------------------------------------------------------------------


def test_an_answer_is_found_by_its_place_its_transaction_and_its_position_also_after_opening_again(tmp_path: Path) -> None:
    store = opened(filled(tmp_path / "s", 3))

    assert [store.find(place) for place in (1, 2, 3, 4)] == [*(record(place).answer for place in (1, 2, 3)), None]
    assert (store.place_of("t2"), store.place_at(30), store.place_of("t9"), store.place_at(5)) == (2, 3, None, None)
    assert (store.finished, store.opened.last, store.reserved_up_to) == (3, 3, 128)


def test_a_kill_leaves_exactly_the_calls_in_doubt_that_had_begun_and_have_no_record(tmp_path: Path) -> None:
    store = opened(filled(tmp_path / "s", 3))
    store.begin(4)
    store.begin(6)
    store.begin(5)
    store.append(record(5))
    store.close()

    again = opened(tmp_path / "s")

    assert again.opened.in_doubt == {4: 1, 6: 1}
    assert (again.opened.is_same_boot, again.finished, again.opened.last) == (True, 3, 5)


def test_a_call_that_begins_again_is_counted(tmp_path: Path) -> None:
    store = opened(filled(tmp_path / "s", 0))

    assert [store.begin(1), store.begin(1)] == [1, 2]
    store.close()
    assert opened(tmp_path / "s").opened.in_doubt == {1: 2}


def test_after_a_restart_of_the_machine_all_reserved_places_without_a_record_are_in_doubt(tmp_path: Path) -> None:
    store = opened(filled(tmp_path / "s", 3, synced=3), OTHER_BOOT)

    assert list(store.opened.in_doubt) == list(range(4, 129))
    assert not store.opened.is_same_boot


def test_a_place_is_reserved_before_it_is_called(tmp_path: Path) -> None:
    store = opened(filled(tmp_path / "s", 0))

    with pytest.raises(AssertionError):
        store.begin(129)
    store.sync(256)
    store.begin(129)


def test_finished_is_the_place_up_to_which_nothing_is_missing(tmp_path: Path) -> None:
    store = opened(filled(tmp_path / "s", 0))

    seen = []
    for place in (2, 4, 1, 3):
        store.append(record(place))
        seen.append(store.finished)

    assert seen == [0, 0, 2, 4]


def test_records_that_are_appended_while_a_sync_runs_are_not_called_durable_by_it(tmp_path: Path) -> None:
    store = opened(filled(tmp_path / "s", 2))
    pending = store.sync_begin()

    store.append(record(3))
    store.sync_now(pending)
    store.sync_end(pending)

    assert pending.mark.finished == 2
    assert store.sync() == 3


def test_the_newest_membership_is_told_on_opening(tmp_path: Path) -> None:
    store = opened(tmp_path / "s")
    store.append(Record(1, 10, "m1", members=b"one"))
    store.append(Record(2, 20, "m2", members=b"two"))
    store.append(record(3))
    store.close()

    assert opened(tmp_path / "s").opened.members == b"two"


# --- a folder ----------------------------------------------------------------------------------------------------------


def test_a_second_listener_is_refused_while_the_first_has_the_store(tmp_path: Path) -> None:
    first = opened(tmp_path / "s")

    with pytest.raises(StoreInUse, match="another listener"):
        opened(tmp_path / "s")
    first.close()
    opened(tmp_path / "s").close()


def test_a_store_of_another_server_or_domain_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "s", 1)

    for domain, server in (("shop", "two"), ("bank", "one")):
        with pytest.raises(WrongStore, match="server 'one' in domain 'shop'"):
            Store.open(tmp_path / "s", domain, server, BOOT)


def test_a_copy_is_the_store_at_that_point_and_can_become_that_of_another_server(tmp_path: Path) -> None:
    store = opened(filled(tmp_path / "s", 3))
    store.copy_to(tmp_path / "image")
    store.append(record(4))

    store_folder.adopt(tmp_path / "image", tmp_path / "t", "shop", "two")
    other = Store.open(tmp_path / "t", "shop", "two", BOOT)

    assert (other.finished, other.find(3), other.find(4)) == (3, record(3).answer, None)
    assert other.identity.store != store.identity.store
    with pytest.raises(WrongStore, match="of domain 'shop'"):
        store_folder.adopt(tmp_path / "image", tmp_path / "u", "bank", "two")


# --- damage ------------------------------------------------------------------------------------------------------------


def test_a_file_that_was_cut_at_any_byte_past_what_is_durable_has_all_whole_records_before_it(tmp_path: Path) -> None:
    whole = filled(tmp_path / "whole", 3, synced=1)
    data = (whole / "answers-00000001").read_bytes()
    size = len(data) // 3

    for cut in range(size, len(data) + 1):
        folder = tmp_path / f"{cut}"
        shutil.copytree(whole, folder)
        (folder / "answers-00000001").write_bytes(data[:cut])
        store = opened(folder)
        assert store.finished == cut // size
        assert store.opened.in_doubt == dict.fromkeys(range(cut // size + 1, 4), 1)
        store.append(record(cut // size + 1))
        store.close()
        assert opened(folder).finished == cut // size + 1


def test_a_file_that_was_cut_within_what_is_durable_is_damaged_and_the_place_is_named(tmp_path: Path) -> None:
    whole = filled(tmp_path / "whole", 2, synced=2)
    path = whole / "answers-00000001"
    data = path.read_bytes()

    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        with pytest.raises(StoreDamaged) as found:
            opened(whole)
        assert found.value.fields == {"file": str(path), "byte": 0 if cut < len(data) // 2 else len(data) // 2}


@pytest.mark.parametrize("boot", [BOOT, OTHER_BOOT])
def test_a_flipped_bit_in_what_is_durable_is_damage(tmp_path: Path, boot: bytes) -> None:
    whole = filled(tmp_path / "whole", 3, synced=3)
    path = whole / "answers-00000001"
    data = path.read_bytes()

    for byte in range(len(data)):
        path.write_bytes(data[:byte] + bytes([data[byte] ^ 1]) + data[byte + 1 :])
        with pytest.raises(StoreDamaged):
            opened(whole, boot)


def test_without_a_loss_of_power_a_flipped_bit_before_a_whole_record_is_damage_also_past_the_mark(tmp_path: Path) -> None:
    whole = filled(tmp_path / "whole", 3)
    path = whole / "answers-00000001"
    data = path.read_bytes()

    for byte in range(2 * len(data) // 3):
        path.write_bytes(data[:byte] + bytes([data[byte] ^ 1]) + data[byte + 1 :])
        with pytest.raises(StoreDamaged):
            opened(whole)


def test_a_loss_of_power_may_leave_zeros_before_a_whole_record_that_was_never_called_durable(tmp_path: Path) -> None:
    whole = filled(tmp_path / "whole", 3, synced=1)
    path = whole / "answers-00000001"
    data = path.read_bytes()
    size = len(data) // 3
    path.write_bytes(data[:size] + bytes(size) + data[2 * size :])

    store = opened(whole, OTHER_BOOT)

    assert (store.finished, list(store.opened.in_doubt)) == (1, list(range(2, 129)))


def test_a_mark_that_was_torn_while_it_was_written_leaves_the_one_before(tmp_path: Path) -> None:
    store = opened(tmp_path / "s")
    store.sync(128)
    store.sync(256)
    store.close()
    mark = (tmp_path / "s" / "mark").read_bytes()

    (tmp_path / "s" / "mark").write_bytes(mark[:SLOT_BYTES] + bytes(SLOT_BYTES) + mark[2 * SLOT_BYTES :])

    assert opened(tmp_path / "s").reserved_up_to == 128


def test_a_store_without_a_whole_mark_is_damaged(tmp_path: Path) -> None:
    filled(tmp_path / "s", 1)
    mark = (tmp_path / "s" / "mark").read_bytes()

    (tmp_path / "s" / "mark").write_bytes(bytes(CALLS_AT) + mark[CALLS_AT:])

    with pytest.raises(StoreDamaged, match="no whole mark"):
        opened(tmp_path / "s")


def test_a_call_past_the_places_that_the_mark_reserves_is_damage_of_the_mark(tmp_path: Path) -> None:
    store = opened(filled(tmp_path / "s", 0))
    store.sync(256)
    store.begin(200)
    store.close()
    mark = bytearray((tmp_path / "s" / "mark").read_bytes())
    mark[SLOT_BYTES + 10] ^= 1

    (tmp_path / "s" / "mark").write_bytes(mark)

    with pytest.raises(StoreDamaged, match=r"byte 0 of .*mark"):
        opened(tmp_path / "s")


# --- kills -------------------------------------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from tests.unit.continuity.listener.test_store import opened, record
store = opened(Path(sys.argv[1]), kept_bytes=1 << 16)
place = store.opened.last
print("open", flush=True)
while True:
    place += 1
    if place > store.reserved_up_to:
        print(store.sync(place + 127), flush=True)
    store.begin(place)
    store.append(record(place, b"x" * (place % 500)))
    if store.surplus() is not None:
        number = store.surplus()
        store.write_keys(number)
        store.drop(number)
"""


def killed_after_writing(folder: Path, told: Path) -> int:
    """Have a process write until it has told five times what is durable, and kill it; what it told last."""
    with told.open("wb") as output:
        top = Path(__file__).resolve().parents[4]
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=output, cwd=top)
        wait_until(lambda: told.read_bytes().count(b"\n") > 5 or process.poll() is not None, "it wrote")
        process.kill()
        process.wait()
    return int(told.read_text().splitlines()[-1])


@pytest.mark.slow
def test_a_writer_that_is_killed_again_and_again_loses_nothing_that_was_durable(tmp_path: Path) -> None:
    before = 0
    for turn in range(6):
        durable = killed_after_writing(tmp_path / "s", tmp_path / f"told{turn}")

        store = opened(tmp_path / "s", kept_bytes=1 << 16)
        assert store.finished >= durable > before
        assert list(store.opened.in_doubt) in ([], [store.finished + 1])
        assert [each.place for each in store.history()] == list(range(1, store.finished + 1))
        before = store.finished
        store.close()
