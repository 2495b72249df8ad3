"""The command line as a test calls it: in this process, against a server of its own."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from holdfast.cli.main import run
from tests.server_process import ServerProcess


class Done(NamedTuple):
    code: int
    out: str
    err: str

    def json(self) -> list[Any]:
        return [msgspec.json.decode(line) for line in self.out.splitlines()]


Holdfast = Callable[..., Done]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("command_line") / "data") as made:
        yield made


@pytest.fixture
def holdfast(server: ServerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Holdfast:
    monkeypatch.setenv("HOLDFAST_URL", server.url)

    def call(*arguments: str, stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = run(list(arguments))
        return Done(code, *capsys.readouterr())

    return call
