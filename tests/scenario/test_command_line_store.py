"""`holdfast store` on the command line: what it prints, and which exit codes it ends with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.continuity.storage.serving import embedded
from tests.scenario.command_line import Holdfast, holdfast, server
from tests.server_process import SMALL_QUERY

pytestmark = pytest.mark.slow

__all__ = ["holdfast", "server"]


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("store")
    with embedded(f"file:{folder}/events{SMALL_QUERY}", "files", {each: str(folder / each) for each in "ab"}) as address:
        yield f"http://{address}"


def test_files_are_put_listed_got_and_removed(holdfast: Holdfast, front: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"x" * 300_000)

    assert holdfast("store", "put", str(tmp_path / "in"), "d/x", "--front", front).out.startswith("put d/x (")
    assert holdfast("store", "put", str(tmp_path / "in"), "d/x", "--front", front, "--new").code == 1
    (listed,) = holdfast("store", "ls", "d", "--front", front, "--json").json()
    assert (listed["name"], listed["size"]) == ("d/x", 300_000)
    assert holdfast("store", "ls", "--front", front).out.splitlines()[1].strip() == "d/"
    assert holdfast("store", "get", "d/x", str(tmp_path / "out"), "--front", front).code == 0
    assert (tmp_path / "out").read_bytes() == b"x" * 300_000
    assert holdfast("store", "rm", "d/x", "--front", front).out == "removed d/x\n"
    assert holdfast("store", "rm", "d/x", "--front", front, "--if-exists").out == "there was no file d/x\n"


def test_refusals_say_what_to_do_and_leave_no_file(holdfast: Holdfast, front: str, tmp_path: Path) -> None:
    cases = [
        (["get", "none", str(tmp_path / "out"), "--front", front], 1, "there is no file 'none'"),
        (["get", "none", "-", "--front", "127.0.0.1:1"], 3, "start one with `holdfast store serve`"),
        (["ls", "--front", "foo:bar"], 1, "write http://HOST:PORT"),
        (["put", str(tmp_path / "none"), "x", "--front", front], 1, "cannot be read"),
        (["status", "none"], 1, "create it with `holdfast store create none"),
        (["create", "one", "--place", "a"], 1, "name more"),
        (["create", "One", "--place", "a", "--place", "b"], 1, "is no name of a file store"),
        (["create", "one", "--place", "a", "--place", "b", "--small-bytes", "99999999"], 1, "small_bytes"),
        (["create", "one", "--place", "a", "--place", "b", "--lag-bytes", "much"], 1, "--lag-bytes 'much' is not a size"),
        (["place", "none", "a", "--at", str(tmp_path / "a")], 1, "there is no file store 'none'"),
        (["place", "none", "a", "--at", "memory://x"], 1, "--folder"),
        (["place", "none", "a", "--at", "x", "--tls-certificate", "x.pem"], 1, "--tls-ca"),
        (["serve", "none", "--place", "a"], 1, "PLACE=WHERE"),
        (["serve", "none", "--place", "a=x", "--place", "a=y"], 1, "names a place twice"),
    ]

    for arguments, code, sentence in cases:
        done = holdfast("store", *arguments)
        assert (done.code, done.out) == (code, ""), done
        assert sentence in done.err
    assert not (tmp_path / "out").exists()


def test_a_store_is_created_listed_looked_at_and_deleted(holdfast: Holdfast) -> None:
    assert holdfast("store", "create", "files", "--place", "a", "--place", "b").code == 0
    assert "is there already" in holdfast("store", "create", "files", "--place", "a", "--place", "b").err

    assert holdfast("store", "list").out.splitlines() == ["store", "files"]
    (told,) = holdfast("store", "status", "files", "--json").json()
    assert (told["level"], [(each["place"], each["state"]) for each in told["places"]]) == (
        "stopped",
        [("a", "silent"), ("b", "silent")],
    )
    assert holdfast("store", "drop", "files", "b").out == "dropped place 'b' of 'files'\n"
    again = holdfast("store", "drop", "files", "b")
    assert (again.code, again.out) == (1, "") and "file store 'files' has no place 'b'" in again.err
    assert holdfast("store", "drop", "files", "b", "--if-exists").out == "there was no place 'b' of 'files'\n"
    assert holdfast("store", "delete", "files").code == 0
    assert holdfast("store", "list", "--json").json() == []
