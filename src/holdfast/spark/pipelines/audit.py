"""The audit (requirement D4): proves that nothing was lost or archived twice, and names what was.

    inputs ─▶ reconciliation ─▶ report ─▶ terminal, JSON, page

`auditing.reconciliation` says what is held against what. A report with something lost or duplicated in it ends the command with
Damaged: an operator has to look.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.client.url import without_password
from holdfast.errors import Damaged
from holdfast.spark.pipelines.auditing.inputs import Inputs
from holdfast.spark.pipelines.auditing.page import page
from holdfast.spark.pipelines.auditing.reconciliation import events_of, of_events
from holdfast.spark.pipelines.auditing.settings import listed
from holdfast.spark.pipelines.auditing.summary import summarise
from holdfast.spark.pipelines.auditing.terminal import print_report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.spark.pipelines.auditing.report import Account, Report
    from holdfast.spark.pipelines.auditing.settings import AuditSettings
    from holdfast.spark.pipelines.running.progress import Reporter
    from holdfast.spark.pipelines.running.runner import Stop


def run(spark: SparkSession, settings: AuditSettings, reporter: Reporter, stop: Stop) -> None:
    """Print the report, write the page, and raise Damaged when something is lost or duplicated."""
    report = audit(spark, settings)
    if settings.html:
        Path(settings.html).write_text(page(report), encoding="utf-8")
    if reporter.is_json:
        sys.stdout.write(msgspec.json.encode(report.to_json()).decode() + "\n")
        sys.stdout.flush()
    else:
        print_report(report)
    if not report.is_whole:
        raise Damaged(
            f"{report.verdict}: what they are is in the report; stop whoever deletes receipts, journals or tables, and keep them",
            lost=report.lost,
            duplicated=report.duplicated,
        )


def audit(spark: SparkSession, settings: AuditSettings) -> Report:
    """Read everything, in the order in which events go, and reconcile it."""
    inputs = Inputs(spark, settings.url, settings.destination_names, settings.subscription)
    try:
        return _audit(inputs, settings)
    finally:
        inputs.let_go()


def _audit(inputs: Inputs, settings: AuditSettings) -> Report:
    seen: dict[str, DataFrame] = {}
    account: list[Account] = []
    unread = 0
    if receipts := listed(settings.receipts):
        seen["receipted"], unread = inputs.events_in(receipts)
    if settings.destination_names:
        account = inputs.account()
        for name, frame in (("waiting", inputs.waiting()), ("dead", inputs.dead())):
            seen[name] = inputs.keep(frame)
            frame.count()  # reads it, now
    if delivered := listed(settings.delivered):
        seen["delivered"], _ = inputs.events_in(delivered)
    if settings.table:
        seen["archived"] = inputs.archived(settings.table)
    events = inputs.only_meant(inputs.keep(events_of(seen)))
    return summarise(
        of_events(events, has_receipts="receipted" in seen),
        has_receipts="receipted" in seen,
        has_archive="archived" in seen,
        subject=_subject(settings),
        account=account,
        unread_lines=unread,
    )


def _subject(settings: AuditSettings) -> dict[str, str]:
    is_asked = bool(settings.destination_names)
    said = {
        "url": without_password(settings.url) if is_asked else "",
        "destinations": settings.destination_names,
        "subscription": settings.subscription,
        "table": settings.table,
        "receipts": ", ".join(listed(settings.receipts)),
    }
    return {name: value for name, value in said.items() if value}
