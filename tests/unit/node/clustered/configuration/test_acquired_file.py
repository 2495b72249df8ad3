from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest

from holdfast.cluster.configuration import Document, digest
from holdfast.errors import BadSetting
from holdfast.node.clustered.configuration.acquired_file import Acquired, AcquiredFile, acquired

TEXT = "session_grace_ms = 4000\n"


def kept(text: str = TEXT, version: int = 3) -> Acquired:
    return acquired(Document(text, version), {"session_grace_ms": 2000}, None)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = AcquiredFile(tmp_path / "acquired.toml")
    assert file.read() is None

    file.write(kept())
    found = AcquiredFile(tmp_path / "acquired.toml").read()

    assert found == kept()
    assert stat.S_IMODE((tmp_path / "acquired.toml").stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["acquired.toml"]


def test_a_text_that_was_edited_by_hand_has_another_digest_than_its_base(tmp_path: Path) -> None:
    path = tmp_path / "acquired.toml"
    AcquiredFile(path).write(kept())
    path.write_text(path.read_text().replace("4000", "1000"))

    found = AcquiredFile(path).read()

    assert found is not None
    assert digest(found.text) != found.base == digest(TEXT)


def test_a_file_that_is_edited_while_the_node_runs_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "acquired.toml"
    file = AcquiredFile(path)
    file.write(kept())
    edited = path.read_text() + "# mine\n"
    path.write_text(edited)

    with caplog.at_level(logging.ERROR):
        file.write(kept("session_grace_ms = 9000\n", 4))

    assert path.read_text() == edited
    assert "was edited while this node runs" in caplog.text


@pytest.mark.parametrize("content", [b"", b"something else", b"# a\n# {}\n", b"\xff\xfe"])
def test_a_file_that_is_none_is_refused_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "acquired.toml"
    path.write_bytes(content)

    with pytest.raises(BadSetting, match="remove it: this node then asks its cluster"):
        AcquiredFile(path).read()


def test_a_disk_that_does_not_take_it_does_not_stop_the_node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        AcquiredFile(tmp_path / "missing" / "acquired.toml").write(kept())

    assert "cannot be written" in caplog.text


def test_what_a_node_was_given_belongs_to_the_document_that_there_was_first() -> None:
    first = acquired(Document("a = 1\n", 1), {"a": 1}, None)
    later = acquired(Document("a = 2\n", 2), {"a": 1}, first)
    anew = acquired(Document("a = 2\n", 2), {"a": 2}, later)

    assert first.given_base == later.given_base == digest("a = 1\n")
    assert anew.given_base == digest("a = 2\n")
