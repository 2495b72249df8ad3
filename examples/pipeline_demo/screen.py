"""The screen of the demo: a live picture on a terminal, plain lines anywhere else."""

from __future__ import annotations

import msgspec
from rich.table import Table

from examples.demo.live_screen import LiveScreen
from examples.pipeline_demo.outcome import Outcome
from examples.pipeline_demo.picture import strips
from examples.pipeline_demo.story import DRIVER, SERVER, Pipeline, Story
from holdfast.spark.pipelines.auditing.report import Report
from holdfast.spark.pipelines.auditing.terminal import print_report

NOTES_SHOWN = 8


class Screen(LiveScreen):
    def __init__(self) -> None:
        super().__init__(refresh_per_second=4, plain_every_s=4.0)

    def show(self, story: Story) -> None:
        """The state, as a picture."""
        self.update(lambda: self._picture(story), lambda: _line(story))

    def _picture(self, story: Story) -> Table:
        server = "[green]up[/]" if story.is_server_up else "[bold red]dead[/]"
        spark = f"[{'bold red' if story.spark == 'dead' else 'green'}]{story.spark}[/]"
        table = Table(
            title=f"A shop, three pipelines on Spark, and kill -9.  Server {server}, Spark {spark}", title_justify="left"
        )
        table.add_column("who")
        for name in ("receipted", "rows", "rows/s", "lag", "last batch"):
            table.add_column(name, justify="right", min_width=9)
        for topic, events in story.receipted.items():
            table.add_row(topic, f"{events:,}", "", "", "", "")
        for each in story.pipelines.values():
            table.add_row(each.name, "", f"{each.rows:,}", *_speed(each))
        table.caption = "\n".join(self._notes[-NOTES_SHOWN:])
        table.caption_justify = "left"
        return table

    def conclude(self, story: Story, outcome: Outcome) -> None:
        """The audit's report, the account, the small picture, and the verdict."""
        print_report(msgspec.convert(outcome.report, Report))
        table = Table(title="The account", title_justify="left", show_header=False)
        for name, value in _account(story, outcome):
            table.add_row(name, value)
        self._console.print(table)
        for line in strips(story, outcome):
            self._console.print(line, soft_wrap=True, markup=False)
        if outcome.is_whole:
            self._console.print("Everything that was receipted is in the table, once.", style="bold green")
        else:
            self._console.print("NOT WHOLE: see the report above", style="bold red")


def _lag(pipeline: Pipeline) -> str:
    return "-" if pipeline.last is None or pipeline.last.lag is None else f"{pipeline.last.lag:,}"


def _speed(pipeline: Pipeline) -> tuple[str, str, str]:
    if pipeline.last is None:
        return "-", "-", "-"
    return f"{pipeline.last.rows_per_second:,.0f}", _lag(pipeline), f"{pipeline.last.seconds:.1f} s"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _account(story: Story, outcome: Outcome) -> list[tuple[str, str]]:
    totals = outcome.report["totals"]
    return [
        ("server killed (SIGKILL)", _times(story.kills_of(SERVER))),
        ("Spark driver killed (SIGKILL)", _times(story.kills_of(DRIVER))),
        ("receipted to producers", f"{totals['receipted']:,}"),
        ("in the archive's table", f"{totals['archived']:,}"),
        ("lost", f"{outcome.report['lost']:,}"),
        ("duplicated", f"{outcome.report['duplicated']:,}"),
        ("windows of statistics", f"{len(outcome.windows):,}, {outcome.wrong_windows:,} of them differ from the table"),
        ("alerts", f"{len(outcome.alerts):,}, {outcome.repeated_alerts:,} of them twice"),
    ]


def _line(story: Story) -> str:
    rows = "   ".join(f"{each.name} {each.rows:,}" for each in story.pipelines.values())
    return f"receipted {sum(story.receipted.values()):,}   {rows}   lag {_lag(story.pipelines['archive'])}"
