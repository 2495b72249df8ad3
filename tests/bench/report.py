"""The results, for people (tables), for programs (JSON) and at a glance (a plot)."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from holdfast.cli import interpreter
from tests.bench.results import Figure, Finding, Results

TITLES = {
    "a": "send pipelined, 256-byte events",
    "b": "send one by one",
    "c": "receive and confirm",
    "d": "latency at the same rate",
    "e": "journal against the bare disk",
    "f": "a long backlog in one queue",
    "g": "opening a journal",
    "h": "memory",
    "i": "accepting beside a stalled recipient",
    "j": "transactions",
    "k": "an event larger than memory",
    "l": "a quiet session beside one that floods",
    "m": "Spark reads",
    "n": "Spark writes",
    "o": "send_many of bytes, text, dicts and Events",
    "p": "requests through an engine to two servers",
    "q": "events through a relay",
    "r": "rules that do not match",
    "s": "files through the front of a file store",
    "t": "the channel on three NATS servers",
}
_COLOURS = {"met": "green", "missed": "red", "": ""}


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _spread(item: Figure | Finding) -> str:
    return f"{_number(min(item.samples))} … {_number(max(item.samples))}" if len(item.samples) > 1 else ""


def show(results: Results, console: Console) -> None:
    figures = Table("", "what", "who", "median", "unit", "spread", title="Measured")
    for figure in sorted(results.figures, key=lambda figure: figure.measure):
        figures.add_row(figure.measure, figure.what, figure.who, _number(figure.median), figure.unit, _spread(figure))
    findings = Table("", "compared", "median", "spread", "target", "verdict", title="Found")
    for finding in sorted(results.findings, key=lambda finding: finding.measure):
        colour = _COLOURS[finding.verdict]
        verdict = f"[{colour}]{finding.verdict}[/]" if colour else ""
        target = f"{finding.target} {finding.unit}" if finding.target else ""
        findings.add_row(
            finding.measure, finding.what, f"{_number(finding.median)} {finding.unit}", _spread(finding), target, verdict
        )
    console.print(figures, findings)
    console.print(f"measured with {interpreter.in_words()}, {os.cpu_count()} processors", markup=False)
    for who, reason in results.left_out.items():
        console.print(f"left out: {who}: {reason}", markup=False)
    for remark in results.remarks:
        console.print(remark, markup=False)


def as_plain(results: Results, is_quick: bool) -> dict[str, Any]:
    return {
        "machine": {
            "processors": os.cpu_count(),
            "system": platform.platform(),
            "python": interpreter.in_words(),
        },
        "is_quick": is_quick,
        "figures": [asdict(figure) | {"median": figure.median} for figure in results.figures],
        "findings": [asdict(finding) | {"median": finding.median, "verdict": finding.verdict} for finding in results.findings],
        "left_out": results.left_out,
        "remarks": results.remarks,
    }


def write(results: Results, path: Path, is_quick: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(as_plain(results, is_quick), indent=1, ensure_ascii=False) + "\n")


def draw(results: Results, path: Path) -> None:
    """One small plot per measure and unit: a bar for each party's median, a line over it from its least to its most."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels: dict[tuple[str, str, str], list[Figure]] = {}
    for figure in results.figures:
        panels.setdefault((figure.measure, figure.what, figure.unit), []).append(figure)
    if not panels:
        return
    rows = (len(panels) + 1) // 2
    drawing, axes = pyplot.subplots(rows, 2, figsize=(14, 2.6 * rows), squeeze=False, layout="constrained")
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, ((measure, what, unit), figures) in zip(axes.flat, sorted(panels.items()), strict=False):
        medians = [figure.median for figure in figures]
        reach = [
            [figure.median - min(figure.samples) for figure in figures],
            [max(figure.samples) - figure.median for figure in figures],
        ]
        colours = ["tab:orange" if figure.who.startswith("Holdfast") else "tab:gray" for figure in figures]
        axis.barh([figure.who for figure in figures], medians, xerr=reach, color=colours)
        axis.bar_label(axis.containers[-1], labels=[f"  {_number(median)}" for median in medians])
        axis.set_title(f"{measure}: {TITLES[measure]}\n{what}, {unit}", fontsize=10)
        axis.margins(x=0.18)
        axis.invert_yaxis()
    drawing.savefig(path, dpi=110)
    pyplot.close(drawing)
