"""What the demo shows: a live picture on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from examples.demo.account import Account

PLAIN_EVERY_S = 2.0


class Screen:
    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._began = time.monotonic()
        self._notes: list[str] = []
        self._printed_at = 0.0
        self._live = Live(console=self._console, refresh_per_second=8) if self._console.is_terminal else None

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, sentence: str) -> None:
        """Something happened."""
        line = f"{time.monotonic() - self._began:5.1f} s  {sentence}"
        self._notes.append(line)
        if self._live is None:
            self._console.print(line, soft_wrap=True)

    def show(self, account: Account, is_up: bool) -> None:
        """How things are."""
        if self._live is not None:
            self._live.update(self._picture(account, is_up))
        elif time.monotonic() - self._printed_at >= PLAIN_EVERY_S:
            self._printed_at = time.monotonic()
            self.note(f"accepted {account.accepted_count:,}   confirmed {account.confirmed_count:,}")

    def _picture(self, account: Account, is_up: bool) -> Table:
        table = Table(title="Holdfast: producers, recipients, and a server that is killed", title_justify="left", min_width=70)
        table.add_column("who")
        table.add_column("accepted", justify="right")
        table.add_column("delivered", justify="right")
        table.add_column("confirmed", justify="right")
        table.add_row(Text("server up", "green") if is_up else Text("server dead", "bold red"), "", "", "")
        for producer, numbers in account.accepted.items():
            table.add_row(producer, f"{len(numbers):,}", "", "")
        for place in account.places:
            table.add_row(place.title, "", f"{place.delivered.total():,}", f"{len(place.confirmed):,}")
        table.caption = "\n".join(self._notes[-6:])
        table.caption_justify = "left"
        return table

    def conclude(self, account: Account) -> None:
        """The account, and the verdict."""
        table = Table(title="The account, from what the processes wrote down", title_justify="left", show_header=False)
        for name, value in account.lines():
            table.add_row(name, value)
        self._console.print(table)
        if account.lost_count:
            self._console.print(f"LOST: {account.lost_count:,} events", style="bold red")
        else:
            self._console.print("Nothing that was accepted was lost.", style="bold green")
