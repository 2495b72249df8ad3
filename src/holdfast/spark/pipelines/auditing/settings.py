"""The settings of an audit. Does not import Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from holdfast.errors import BadSetting
from holdfast.spark.pipelines.running.settings import Settings, shown_as

Names = str | list[str]


class AuditSettings(Settings, kw_only=True, frozen=True):
    destinations: Annotated[
        Names, shown_as("NAMES", "What is audited, such as orders or 'alerts.*,orders'; left out: all, and no server is asked.")
    ] = ""
    subscription: Annotated[str, shown_as("NAME", "The archive's subscription of these topics; left out: they are queues.")] = ""
    table: Annotated[str, shown_as("DIR", "The folder of the lake table that `holdfast pipeline archive` writes.")] = ""
    receipts: Annotated[
        Names, shown_as("FILES", "What producers were receipted: lines of JSON, or parquet, with destination, id and position.")
    ] = ""
    delivered: Annotated[Names, shown_as("FILES", "What recipients were delivered, as `holdfast receive --json` prints it.")] = ""
    html: Annotated[str, shown_as("FILE", "Write the report as a page, too.")] = ""

    @property
    def destination_names(self) -> str:
        """As the source takes them."""
        return ",".join(listed(self.destinations))

    def check(self) -> None:
        super().check()
        if not self.table and not listed(self.receipts):
            raise BadSetting(
                "there is nothing to audit: give --receipts, what producers were told, or --table, the archive, or both",
                setting="receipts",
            )
        if self.subscription and not self.destination_names:
            raise BadSetting(
                f"--subscription {self.subscription} is of which topics? Name them with --destinations", setting="destinations"
            )
        for file in (*listed(self.receipts), *listed(self.delivered)):
            if "://" not in file and "*" not in file and not Path(file).exists():
                raise BadSetting(f"there is no file {file}; give lines of JSON or parquet", setting="receipts", file=file)
        if self.html and not Path(self.html).absolute().parent.is_dir():
            raise BadSetting(f"there is no folder for {self.html}; make it first", setting="html")


def listed(names: Names) -> list[str]:
    said = names.split(",") if isinstance(names, str) else names
    return [name.strip() for name in said if name.strip()]
