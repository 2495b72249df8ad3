"""The page and the report of an audit (D4), from a report made by hand: no Spark is needed to show one."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest

from holdfast.event.identifier import Parts, compose, to_text
from holdfast.spark.pipelines.auditing.page import page
from holdfast.spark.pipelines.auditing.report import (
    NAMED_MAX,
    Account,
    Counted,
    Duplicate,
    Hole,
    LostRange,
    Moment,
    Produced,
    Report,
    Stranger,
)
from holdfast.spark.pipelines.auditing.terminal import print_report

ANN = compose(Parts(1_790_000_000_123, 3, 77, 0))
_VOID = {"meta", "line"}


class Nesting(HTMLParser):
    """Every element is closed where it should be; and where anything would be fetched from."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action", "data")]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag


def at(counter: int) -> str:
    return to_text(ANN + counter)


def whole() -> Report:
    return Report(
        made_at="2026-11-16T10:40:00+00:00",
        subject={"url": "holdfast://127.0.0.1:7400", "table": "./lake/<events>"},
        has_receipts=True,
        has_archive=True,
        destinations=[
            Counted(destination="orders", receipted=1_000, archived=900, waiting=120, waiting_only=95, dead=5, dead_only=5),
            Counted(destination="alerts.fire & water", receipted=10, archived=10),
        ],
        producers=[
            Produced(destination="orders", producer=at(0), first=at(0), last=at(999), receipted=1_000, archived=900),
            Produced(destination="orders", producer=None, first="order-1", last="order-9", receipted=10, archived=10),
        ],
        account=[
            Account(destination="orders", subscription="lake", accepted=1_000, confirmed=880, dead=5, expired=2, waiting=120)
        ],
        timeline=[Moment(at=f"2026-11-16T10:{minute:02}:00.000+00:00", state="archived", events=minute) for minute in range(40)],
    )


def broken() -> Report:
    return msgspec.structs.replace(
        whole(),
        destinations=[Counted(destination="orders", receipted=1_000, archived=985, lost=15, duplicated=1, strangers=1)],
        lost_ranges=[LostRange(destination="orders", producer=at(0), first=at(400), last=at(414), count=15, first_position=9)],
        duplicates=[Duplicate(destination="orders", id=at(7), copies=2, reason="archived twice")],
        strangers=[Stranger(destination="orders", id="<script>", state="archived")],
        holes=[Hole(producer=at(0), first=at(700), last=at(799), count=100)],
        hole_ids=100,
    )


@pytest.mark.parametrize("report", [whole(), broken()], ids=["whole", "broken"])
def test_the_page_is_well_formed_and_fetches_nothing_from_anywhere(report: Report) -> None:
    made, nesting = page(report), Nesting()

    nesting.feed(made)

    assert nesting.open == []
    assert nesting.addresses == []
    assert not re.search(r"url\(|@import|<script|<link|<iframe", made)
    assert report.verdict in made


def test_what_others_named_is_written_and_not_carried_out() -> None:
    made = page(broken())

    assert "&lt;script&gt;" in made
    assert "./lake/&lt;events&gt;" in made
    assert "alerts.fire &amp; water" in page(whole())


def test_what_is_lost_is_drawn_where_it_can_be_seen_however_little_it_is() -> None:
    report = msgspec.structs.replace(
        broken(), destinations=[Counted(destination="orders", archived=10_000_000, lost=1)], duplicates=[], holes=[]
    )

    widths = [float(width) for width in re.findall(r'<rect fill="#d43d3d"[^>]* width="([\d.]+)"', page(report))]

    assert len(widths) == 2  # in the bar of its destination, and in the strip of its producer
    assert min(widths) >= 2


def test_the_verdict_counts_all_though_only_some_are_named() -> None:
    named = [LostRange(destination="orders", producer=None, first=f"{n}", last=f"{n}", count=1) for n in range(NAMED_MAX)]
    report = msgspec.structs.replace(
        whole(), destinations=[Counted(destination="orders", archived=880, lost=7_000)], lost_ranges=named
    )

    assert report.verdict == "7,000 lost, 0 duplicated"
    assert f"The first {NAMED_MAX} are shown." in page(report)


def test_the_report_in_the_terminal_ends_with_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    for report, said in ((whole(), "0 lost, 0 duplicated"), (broken(), "15 lost, 1 duplicated")):
        print_report(report)

        assert capsys.readouterr().out.rstrip().splitlines()[-1] == said


def test_a_report_says_what_it_does_not_know() -> None:
    report = msgspec.structs.replace(whole(), has_receipts=False, account=[])

    assert any("not known" in remark for remark in report.remarks())
    assert report.to_json()["remarks"] == list(report.remarks())


def test_what_a_queue_has_confirmed_is_not_lost_though_nobody_wrote_down_which() -> None:
    counted = Counted(destination="jobs", receipted=100, lost=40, waiting=60, waiting_only=60)

    assert (counted.settled(39).lost, counted.settled(39).confirmed) == (1, 39)
    assert (counted.settled(500).lost, counted.settled(500).confirmed) == (0, 40)
    assert counted.settled(39).all == counted.all == 100
