"""The screen of the demo: the cluster and the account, live on a terminal, plain lines anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from examples.demo.account import Account
from examples.demo.live_screen import LiveScreen
from holdfast import ClusterStatus


class Blow(NamedTuple):
    """What was killed, when, and until when its consequences are counted."""

    what: str
    at: float
    until: float


class Screen(LiveScreen):
    def __init__(self) -> None:
        super().__init__(refresh_per_second=8, plain_every_s=2.0)

    def show(self, account: Account, status: ClusterStatus | None, nats: dict[str, bool]) -> None:
        """The state, as a picture."""
        self.update(
            lambda: self._picture(account, status, nats),
            lambda: f"accepted {account.accepted_count:,}   confirmed {account.confirmed_count:,}   {_in_a_line(status)}",
        )

    def _picture(self, account: Account, status: ClusterStatus | None, nats: dict[str, bool]) -> Table:
        table = Table(title="Holdfast: one server on many processes, which are killed", title_justify="left", min_width=74)
        table.add_column("who")
        table.add_column("accepted", justify="right")
        table.add_column("delivered", justify="right")
        table.add_column("confirmed", justify="right")
        for name, is_there in nats.items():
            table.add_row(Text(f"{name} up", "green") if is_there else Text(f"{name} dead", "bold red"), "", "", "")
        for name, role in _roles(status).items():
            table.add_row(Text(f"{name} {role}", "bold red" if role == "silent" else "green"), "", "", "")
        for producer, numbers in account.accepted.items():
            table.add_row(producer, f"{len(numbers):,}", "", "")
        for place in account.places:
            table.add_row(place.title, "", f"{place.delivered.total():,}", f"{len(place.confirmed):,}")
        table.caption = "\n".join(self._notes[-8:])
        table.caption_justify = "left"
        return table

    def conclude(self, account: Account, blows: Sequence[Blow]) -> None:
        """The account, and the verdict."""
        table = Table(title="The account, from what the processes wrote down", title_justify="left", show_header=False)
        longest = 0.0
        for blow in blows:
            receipts, deliveries = account.pauses_s(blow.at, blow.until)
            longest = max(longest, receipts, deliveries)
            table.add_row(f"kill -9 of {blow.what}", f"no receipt {receipts:.2f} s, no delivery {deliveries:.2f} s")
        for name, value in (
            ("sent and receipted", f"{account.accepted_count:,}"),
            ("to be confirmed", f"{sum(len(account.meant_for(place)) for place in account.places):,}"),
            ("received and confirmed", f"{account.confirmed_count:,}"),
            ("handed out twice", f"{account.duplicates:,}"),
            ("lost", f"{account.lost_count:,}"),
            ("longest pause", f"{longest:.2f} s"),
        ):
            table.add_row(name, value)
        self._console.print(table)
        if account.lost_count:
            self._console.print(f"LOST: {account.lost_count:,} events", style="bold red")
        else:
            self._console.print("Nothing that was accepted was lost.", style="bold green")


def _roles(status: ClusterStatus | None) -> dict[str, str]:
    if status is None:
        return {}
    copies = {copy["node"]: copy for manager in status["managers"] for copy in manager["copies"]}
    roles = {}
    for node in status["nodes"]:
        copy = copies.get(node["name"])
        there = "client manager" if copy is None else "primary" if copy["is_primary"] else f"backup, {copy['lag']:,} behind"
        roles[node["name"]] = there if node["is_heard"] else "silent"
    return roles


def _in_a_line(status: ClusterStatus | None) -> str:
    return "   ".join(f"{name} {role}" for name, role in _roles(status).items()) or "(no node answers)"
