"""The users file on disk: refused when others could read or change it, changed in one step, everything else kept (E7)."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from holdfast.errors import BadSetting
from holdfast.node.login import users_file

HASH = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$aGFzaGhhc2hoYXNoaGFzaA"
OTHER = HASH.replace("c29tZXNhbHQ", "b3RoZXJzYWx0")
WRITTEN = f"""# who works here
[users.alice]  # since spring
password = "{HASH}"

[groups]
clerks = ["alice"]

# what they do
[[access]]
who = "@clerks"
destination = "orders.*"
actions = ["send"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "users.toml"
    path.write_text(WRITTEN)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o601, 0o666])
def test_a_file_that_others_can_read_or_change_is_refused_with_what_to_do(file: Path, mode: int) -> None:
    file.chmod(mode)

    with pytest.raises(BadSetting, match=f"mode {mode:04o}.*chmod 600"):
        users_file.load(file)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_a_file_that_only_its_owner_and_their_group_can_read_is_taken(file: Path, mode: int) -> None:
    file.chmod(mode)

    assert "alice" in users_file.load(file).by_name


def test_what_is_no_file_or_no_text_is_refused(tmp_path: Path, file: Path) -> None:
    with pytest.raises(BadSetting, match=r"cannot be read.*holdfast user add"):
        users_file.load(tmp_path / "nowhere.toml")
    with pytest.raises(BadSetting, match="cannot be read"):
        users_file.load(tmp_path)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(BadSetting, match="not text in UTF-8"):
        users_file.load(file)


def test_the_first_user_makes_the_file_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    previous = os.umask(0)
    try:
        users_file.add(path, "alice", HASH)
    finally:
        os.umask(previous)

    assert path.stat().st_mode & 0o777 == 0o600
    assert users_file.load(path).by_name["alice"].password == HASH
    assert [each.name for each in tmp_path.iterdir()] == ["users.toml"]


def test_a_change_keeps_everything_else_as_it_was_written(file: Path) -> None:
    users_file.add(file, "bob", OTHER, 'CN "bob"\\')
    users_file.add(file, "j.doe", OTHER)
    users_file.change_password(file, "alice", OTHER)
    users_file.change_password(file, "j.doe", HASH)
    users_file.remove(file, "bob")

    text = file.read_text()
    users = users_file.load(file).by_name
    assert text.replace(OTHER, HASH).startswith(WRITTEN)
    assert {name: user.password for name, user in users.items()} == {"alice": OTHER, "j.doe": HASH}


def test_a_certificate_is_written_as_it_was_given(file: Path) -> None:
    users_file.add(file, "bob", "", 'CN "bob"\\')

    assert tomllib.loads(file.read_text())["users"]["bob"] == {"certificate": 'CN "bob"\\'}


def test_a_user_who_got_a_password_later_keeps_the_certificate(file: Path) -> None:
    users_file.add(file, "bob", "", "bob.example.com")

    users_file.change_password(file, "bob", HASH)

    bob = users_file.load(file).by_name["bob"]
    assert (bob.password, bob.certificate) == (HASH, "bob.example.com")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: users_file.add(path, "alice", HASH), "already"),
        (lambda path: users_file.add(path, "a b", HASH), "cannot name a user"),
        (lambda path: users_file.add(path, "bob", ""), "neither password nor certificate"),
        (lambda path: users_file.add(path, "bob", "", "x\ny"), "control characters"),
        (lambda path: users_file.remove(path, "carol"), "no user 'carol'; there are alice"),
        (lambda path: users_file.change_password(path, "carol", HASH), "no user 'carol'"),
        (lambda path: users_file.remove(path, "alice"), "names the user 'alice'"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_and_changes_nothing(file: Path, change: object, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        change(file)  # type: ignore[operator]

    assert file.read_text() == WRITTEN
    assert len(list(file.parent.iterdir())) == 1


def test_a_file_written_in_another_way_is_left_to_an_editor(file: Path) -> None:
    file.write_text(f'users = {{ alice = {{ password = "{HASH}" }} }}\n')

    with pytest.raises(BadSetting, match="editor"):
        users_file.change_password(file, "alice", OTHER)

    assert HASH in file.read_text()


def test_text_that_only_looks_like_a_user_is_not_taken_for_one(file: Path) -> None:
    file.write_text('[users.bob]\ncertificate = """\n[users.alice]\n"""\n')
    text = file.read_text()

    with pytest.raises(BadSetting, match="no user 'alice'"):
        users_file.remove(file, "alice")

    assert file.read_text() == text


def test_a_user_whose_lines_cannot_be_told_from_text_is_left_to_an_editor(file: Path) -> None:
    file.write_text(f'[users.bob]\ncertificate = """\n[users.alice]\n"""\n\n[users.alice]\npassword = "{HASH}"\n')
    text = file.read_text()

    with pytest.raises(BadSetting):
        users_file.remove(file, "alice")
    with pytest.raises(BadSetting):
        users_file.change_password(file, "alice", OTHER)

    assert file.read_text() == text


def test_a_file_that_cannot_be_written_beside_the_old_one_leaves_it_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / ("u" * 250)  # the new file's name has a few letters more
    file.write_text(WRITTEN)
    file.chmod(0o600)

    with pytest.raises(BadSetting, match="it is as it was"):
        users_file.add(file, "bob", HASH)

    assert file.read_text() == WRITTEN
    assert list(tmp_path.iterdir()) == [file]
