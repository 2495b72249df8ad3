"""B14: identifiers are never reused, whatever happens to the clock, the process or the disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import Damaged, UnknownVersion
from holdfast.event.identifier import take_apart
from holdfast.node.identity import Identity


def test_identifiers_go_on_upwards_after_a_restart(tmp_path: Path) -> None:
    first = Identity.open(tmp_path / "identity", site=3)
    taken = [first.take(), first.take_start(), first.take()]
    first.close()

    second = Identity.open(tmp_path / "identity", site=3)

    assert second.take() > max(taken)
    assert second.node == first.node
    second.close()


def test_a_clock_set_back_does_not_bring_identifiers_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    first = Identity.open(tmp_path / "identity", site=0)
    taken = [first.take_start() for _ in range(5)]
    first.close()
    monkeypatch.setattr(time, "time_ns", lambda: now - 3_600 * 10**9)

    second = Identity.open(tmp_path / "identity", site=0)

    assert second.take_start() > max(taken)
    second.close()


def test_two_nodes_on_one_machine_never_collide(tmp_path: Path) -> None:
    one, other = Identity.open(tmp_path / "one", site=0), Identity.open(tmp_path / "other", site=0)

    assert take_apart(one.take()).node != take_apart(other.take()).node
    one.close()
    other.close()


def test_a_torn_write_of_one_slot_costs_nothing_that_was_handed_out(tmp_path: Path) -> None:
    path = tmp_path / "identity"
    first = Identity.open(path, site=0)
    taken = first.take_start()
    first.close()
    written = bytearray(path.read_bytes())
    newest = max((0, 512), key=lambda place: int.from_bytes(written[place + 12 : place + 20], "little"))

    # The slot that would be written next is torn; the newest one still counts.
    written[512 - newest : 512 - newest + 512] = b"\x5a" * 512
    path.write_bytes(written)

    second = Identity.open(path, site=0)
    assert second.take_start() > taken
    second.close()


def test_a_start_cut_off_before_the_identity_was_whole_is_followed_by_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "identity.preparing").write_bytes(b"HFID")

    fresh = Identity.open(tmp_path / "identity", site=0)

    assert fresh.take()
    assert not (tmp_path / "identity.preparing").exists()
    fresh.close()


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda good: b"", id="emptied"),
        pytest.param(lambda good: good[:30], id="cut in its first slot"),
        pytest.param(lambda good: good[:600], id="cut in its second slot"),
        pytest.param(lambda good: bytes(len(good)), id="zeros"),
        pytest.param(lambda good: b"\x5a" * len(good), id="overwritten"),
    ],
)
def test_a_damaged_identity_is_refused_changes_nothing_and_says_what_to_do(
    tmp_path: Path, harm: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "identity"
    Identity.open(path, site=0).close()
    damaged = harm(path.read_bytes())
    path.write_bytes(damaged)

    with pytest.raises(Damaged, match="restore it from a backup"):
        Identity.open(path, site=0)

    assert path.read_bytes() == damaged


def test_an_identity_of_a_newer_release_is_refused_as_such(tmp_path: Path) -> None:
    import crc32c

    slot = b"HFIDENT\0" + (9).to_bytes(4, "little") + bytes(22)
    (tmp_path / "identity").write_bytes((slot + crc32c.crc32c(slot).to_bytes(4, "little")).ljust(1024, b"\0"))

    with pytest.raises(UnknownVersion, match="upgrade"):
        Identity.open(tmp_path / "identity", site=0)
