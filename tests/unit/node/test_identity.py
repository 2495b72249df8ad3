"""B14: identifiers are never reused, whatever happens to the clock, the process or the disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import Damaged, UnknownVersion
from holdfast.event.identifier import take_apart, to_text
from holdfast.node.identity import Identity, restored_again, restored_in


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


def test_an_identity_that_was_never_restored_stays_in_the_format_of_the_first_release_e8(tmp_path: Path) -> None:
    made = Identity.open(tmp_path / "identity", site=3)
    made.close()

    assert {int.from_bytes((tmp_path / "identity").read_bytes()[512 + 8 : 512 + 12], "little")} == {1}
    assert restored_in(tmp_path / "identity").times == 0
    assert made.may_have_given("anything")


def test_a_restored_identity_is_another_node_of_another_incarnation_each_time_e8(tmp_path: Path) -> None:
    path = tmp_path / "identity"
    lost = Identity.open(path, site=3)
    session = to_text(lost.take_start())
    lost.close()

    first = restored_again(path)
    opened = Identity.open(path, site=3)
    second_start = to_text(opened.take_start())
    opened.close()
    again = restored_again(path)

    assert (first.times, again.times) == (1, 2)
    assert first.tag != again.tag
    assert opened.restored == first
    assert opened.node != lost.node
    assert not opened.may_have_given(f"{session}/user")
    assert opened.may_have_given(second_start)
    assert first.incarnation("7c1e") == f"7c1e+1-{first.tag.hex()}"


def test_the_first_release_refuses_a_restored_identity_as_of_a_newer_format_and_not_as_damaged_e8(tmp_path: Path) -> None:
    """It compared the checksum of the first 34 bytes, then the version."""
    import crc32c

    restored_again(tmp_path / "identity")

    slot = (tmp_path / "identity").read_bytes()[512:]
    assert crc32c.crc32c(slot[:34]).to_bytes(4, "little") == slot[34:38]
    assert int.from_bytes(slot[8:12], "little") == 2
