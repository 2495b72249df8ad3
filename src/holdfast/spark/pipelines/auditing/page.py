"""The page of an audit: one HTML file that holds everything it shows, and needs nothing from anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import msgspec

from holdfast.spark.pipelines.auditing import plots
from holdfast.spark.pipelines.auditing.report import COUNTS, NAMED_MAX, TOLD, Report

_STYLE = """
:root { --back: #f6f7f9; --card: #ffffff; --ink: #1b2430; --soft: #66717f; --line: #e2e6eb; --bad: #d43d3d; }
@media (prefers-color-scheme: dark) { :root { --back: #14181d; --card: #1d232a; --ink: #e6eaee; --soft: #93a0ad; --line: #2e3740;
  --bad: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1060px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 22px; margin: 0 0 2px; } h2 { font-size: 16px; margin: 0 0 14px; }
.about { color: var(--soft); margin: 0 0 22px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 20px 22px; margin: 0 0 18px; }
.verdict { color: #fff; border: 0; font-size: 26px; font-weight: 700; }
.verdict small { display: block; font-size: 15px; font-weight: 400; opacity: .92; }
.whole { background: #23825f; } .broken { background: #b92f2f; }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; margin: 0 0 18px; }
.tile { flex: 1 1 96px; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 14px; }
.tile b { display: block; font-size: 21px; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
.remarks { color: var(--soft); margin: 0; padding-left: 18px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; color: var(--soft); font-size: 13px; margin: 8px 0 0; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 6px; }
svg { width: 100%; height: auto; display: block; font-variant-numeric: tabular-nums; }
td.id { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12.5px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: left; color: var(--soft); font-weight: 500; } th, td { padding: 5px 14px 5px 0; white-space: nowrap; }
tr + tr td { border-top: 1px solid var(--line); } .n { text-align: right; font-variant-numeric: tabular-nums; }
.bad { color: var(--bad); font-weight: 700; }
"""


def page(report: Report) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Audit: {escape(report.verdict)}</title><style>{_STYLE}</style></head><body><main>"
        f"{''.join(_parts(report))}</main></body></html>\n"
    )


def _parts(report: Report) -> Iterator[str]:
    subject = " · ".join(f"{escape(name)} <b>{escape(value)}</b>" for name, value in report.subject.items() if value)
    yield f'<h1>Audit</h1><p class="about">{escape(report.made_at)}{" · " if subject else ""}{subject}</p>'
    yield _verdict(report)
    tiles = (
        f'<div class="tile"><b{_bad(name, report.total(name))}>{report.total(name):,}</b><span>{name}</span></div>'
        for name in tiles_of(report)
    )
    yield f'<div class="tiles">{"".join(tiles)}</div>'
    if report.destinations:
        legend = _legend(plots.states_in(report.destinations))
        yield _card("Where they are", plots.where_they_are(report.destinations) + legend)
    if report.timeline:
        states = [state for state in plots.STATES if any(each.state == state for each in report.timeline)]
        yield _card("When they were accepted", plots.when_accepted(report.timeline) + _legend(states))
    if any(each.producer for each in report.producers):
        legend = _legend(("archived", "lost", "duplicated", "hole"), {"archived": "seen", "hole": "never seen"})
        yield _card("The ids of each producer, in the order in which they were given", plots.counters(report) + legend)
    yield from _tables(report)


def tiles_of(report: Report) -> list[str]:
    """The numbers in which there is something; and those that the verdict is about."""
    return [name for name in TOLD if report.total(name) or name in ("lost", "duplicated")]


def _verdict(report: Report) -> str:
    says = "Everything that was accepted is accounted for." if report.is_whole else "Not everything is where it should be."
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in report.remarks())
    kind = "whole" if report.is_whole else "broken"
    verdict = f'<div class="card verdict {kind}">{escape(report.verdict)}<small>{says}</small></div>'
    return verdict + (f'<div class="card"><ul class="remarks">{remarks}</ul></div>' if remarks else "")


def _tables(report: Report) -> Iterator[str]:
    yield _table("Destinations", report.destinations, ("destination", *TOLD))
    account = ("destination", "subscription", "accepted", "confirmed", "dead", "expired", "waiting")
    yield _table("What the server counted", report.account, account)
    yield _table("Lost", report.lost_ranges, ("destination", "first", "last", "count", "first_position", "last_position"))
    yield _table("Duplicated", report.duplicates, ("destination", "id", "copies", "reason", "first_position", "last_position"))
    yield _table("Never seen", report.holes, ("producer", "first", "last", "count"))
    yield _table("Without a receipt", report.strangers, ("destination", "id", "state"))
    yield _table("Producers", report.producers, ("destination", "producer", "started_at", *COUNTS))


def _table(title: str, rows: Sequence[msgspec.Struct], columns: Sequence[str]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th{_number(getattr(rows[0], column))}>{column.replace('_', ' ')}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(_cell(column, getattr(row, column)) for column in columns)}</tr>" for row in rows)
    more = f'<p class="about">The first {NAMED_MAX} are shown.</p>' if len(rows) == NAMED_MAX else ""
    return _card(title, f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>{more}')


def _cell(column: str, value: Any) -> str:
    if isinstance(value, int):
        return f'<td class="n"><span{_bad(column, value)}>{value:,}</span></td>'
    kind = ' class="id"' if column in ("id", "first", "last", "producer") else ""
    return f"<td{kind}>{escape('–' if value is None else str(value))}</td>"


def _number(value: Any) -> str:
    return ' class="n"' if isinstance(value, int) else ""


def _bad(column: str, value: int) -> str:
    return ' class="bad"' if value and column in ("lost", "duplicated") else ""


def _card(title: str, inside: str) -> str:
    return f'<section class="card"><h2>{escape(title)}</h2>{inside}</section>'


def _legend(kinds: Sequence[str], names: dict[str, str] | None = None) -> str:
    items = (f'<span><i style="background: {plots.COLOURS[kind]}"></i>{(names or {}).get(kind, kind)}</span>' for kind in kinds)
    return f'<p class="legend">{"".join(items)}</p>'
