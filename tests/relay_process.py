"""A real relay process that a test starts, stops, kills, and starts again with the same file."""

from __future__ import annotations

from pathlib import Path

from tests.holdfast_process import HoldfastProcess
from tests.waiting import wait_until


class RelayProcess(HoldfastProcess):
    def __init__(self, file: Path, definition: str, *options: str) -> None:
        self.file = file
        file.write_text(definition)
        self._said_before = 0
        self._options = options
        super().__init__(file.with_suffix(".log"))

    def _arguments(self) -> list[str]:
        return ["relay", "--config", str(self.file), *self._options]

    def start(self) -> float:
        self._said_before = len(self.log)
        return super().start()

    def until_started(self) -> None:
        """Wait until its journal is open, since it was started the last time."""
        wait_until(lambda: "has its journal at" in self.log[self._said_before :] or self.is_over, "the relay has started")
        assert not self.is_over, self.log[-3000:]
