"""The command line: looking without taking, and subscriptions with selectors and wildcards (E4)."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest

from holdfast import blocking
from tests.scenario.command_line import Holdfast, holdfast, server
from tests.server_process import ServerProcess

__all__ = ["holdfast", "server"]


def test_browse_prints_what_waits_and_takes_nothing(holdfast: Holdfast) -> None:
    for amount in (50, 150, 250):
        holdfast("send", "browsed", "--data", str(amount), "--property", f"amount={amount}")

    everything = holdfast("browse", "browsed")
    large = holdfast("browse", "browsed", "--selector", "amount > 100", "--count", "1", "--json")
    received = holdfast("receive", "browsed", "--count", "3", "--json")

    assert (everything.code, everything.json()) == (0, [50, 150, 250])
    assert [event["data"] for event in large.json()] == [150]
    assert [event["data"] for event in received.json()] == [50, 150, 250]
    assert all("deliveries" not in event for event in received.json())


def test_whole_events_say_when_they_were_accepted(holdfast: Holdfast) -> None:
    before = datetime.now(UTC)
    holdfast("send", "times", "--data", "1")
    after = datetime.now(UTC)

    (browsed,) = holdfast("browse", "times", "--json").json()
    (received,) = holdfast("receive", "times", "--count", "1", "--json").json()

    assert before <= datetime.fromisoformat(received["accepted_at"]) <= after
    assert browsed["accepted_at"] == received["accepted_at"]


def test_browse_of_what_is_not_there_or_cannot_be_understood_is_refused(holdfast: Holdfast) -> None:
    nowhere = holdfast("browse", "nowhere-at-all", "--json")
    nonsense = holdfast("browse", "browsed", "--selector", "amount >", "--json")

    assert (nowhere.code, nonsense.code) == (1, 1)
    assert "no-such-destination" in nowhere.err
    assert "bad-selector" in nonsense.err


def test_a_subscription_is_created_shared_with_a_selector_browsed_and_received_from_as_it_is(holdfast: Holdfast) -> None:
    holdfast("destination", "create", "quotes", "--topic")
    created = holdfast("subscription", "create", "quotes", "large", "--selector", "amount > 100", "--shared")
    for amount in (50, 150):
        holdfast("send", "quotes", "--topic", "--data", str(amount), "--property", f"amount={amount}")

    (listed,) = holdfast("subscription", "list", "quotes", "--json").json()
    browsed = holdfast("browse", "quotes", "--subscription", "large")
    received = holdfast("receive", "quotes", "--subscription", "large", "--count", "1", "--timeout", "10")

    assert created.code == 0
    assert (listed["selector"], listed["is_shared"], listed["waiting"]) == ("amount > 100", True, 1)
    assert browsed.json() == received.json() == [150]


def test_a_wildcard_subscription_is_created_received_from_and_deleted(holdfast: Holdfast) -> None:
    created = holdfast("subscription", "create", "alarms.*", "pager")
    holdfast("send", "alarms.fire", "--topic", "--data", "1")

    listed = holdfast("subscription", "list", "alarms.*", "--json")
    received = holdfast("receive", "alarms.*", "--subscription", "pager", "--count", "1", "--timeout", "10", "--json")
    deleted = holdfast("subscription", "delete", "alarms.*", "pager")

    assert (created.code, deleted.code) == (0, 0)
    assert [(each["name"], each["pattern"]) for each in listed.json()] == [("pager", "alarms.*")]
    assert [(event["destination"], event["data"]) for event in received.json()] == [("alarms.fire", 1)]


@pytest.mark.parametrize("depth", [50_000, 960, 900])
def test_data_nested_too_deep_to_be_read_is_printed_as_base64(holdfast: Holdfast, server: ServerProcess, depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    with blocking.connect(server.url) as client:
        client.queue("deep").send(deep, datacontenttype="application/json")
        client.queue("deep").send("next")

    browsed = holdfast("browse", "deep")
    received = holdfast("receive", "deep", "--count", "2", "--json")

    printed, data = browsed.out.splitlines()[0], received.out.splitlines()[0]
    assert (browsed.code, received.code, "next" in received.out) == (0, 0, True)
    assert base64.b64encode(deep).decode() in printed or deep.decode() in printed
    assert base64.b64encode(deep).decode() in data or deep.decode() in data
