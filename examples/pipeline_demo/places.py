"""The names of the demo: topics, subscriptions, and files in its folder."""

from __future__ import annotations

from pathlib import Path

TOPICS = "shop.*"
SHOPS = ("shop.orders", "shop.payments")
PIPELINES = ("archive", "statistics", "alerts")
ALERTS, DUTY = "alerts", "duty"  # the topic of the alerts, and who is to see them

RULES = Path(__file__).with_name("rules.toml")
ARCHIVE, STATISTICS = "lake/events", "lake/statistics"
OUTCOME = "outcome.json"


def receipts(folder: Path) -> dict[str, Path]:
    """The file that each producer writes, by its topic."""
    return {topic: folder / f"{topic}.receipts.jsonl" for topic in SHOPS}
