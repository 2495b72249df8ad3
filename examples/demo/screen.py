"""The screen of the demo: a live picture on a terminal, plain lines anywhere else."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from examples.demo.account import Account
from examples.demo.live_screen import LiveScreen


class Screen(LiveScreen):
    def __init__(self) -> None:
        super().__init__(refresh_per_second=8, plain_every_s=2.0)

    def show(self, account: Account, is_up: bool) -> None:
        """The state, as a picture."""
        self.update(
            lambda: self._picture(account, is_up),
            lambda: f"accepted {account.accepted_count:,}   confirmed {account.confirmed_count:,}",
        )

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
